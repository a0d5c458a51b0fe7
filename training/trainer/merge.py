"""Merges a LoRA adapter into its base model, for programs without adapter support.

The merge is computed in float32 and saved in the base's own dtype. The base is read from its folder and not
from memory, so that an adapter trained on a 4-bit base is merged into the full weights. The new folder
appears only when it is complete.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.chat.local.adapters import check_usable, merged_into
from ...backend.chat.local.loading import load_processor
from ...backend.checkpoints.checkpoint import LOCAL, check_checkpoint, load_whole
from ...backend.errors import SettingsError, TrainingError, boundary
from ...backend.files.atomic import writing_folder
from ...backend.machine.libraries import require
from ...backend.prompts.trained_with import trained_with
from .report.model_card import read_facts, write_card
from .saving import narrowed

WIDER = "Set dtype to bfloat16 in the base's config.json, and merge again."


def merge(base: Path, adapter: Path, out: Path, shard: str = "4GB") -> Path:
    """Merge `adapter` into `base` and write the result to `out`, with processor, prompt set and model card.

    Args:
        base: Folder of the base model.
        adapter: Folder of the LoRA adapter. Its record of how it was trained takes precedence over the
            base's.
        out: Folder to create.
        shard: Maximum size of a safetensors file.

    Returns:
        `out`.

    Raises:
        ChatError: `adapter` is not a LoRA adapter or does not fit the base, or the base cannot be an agent.
        SettingsError: `out` exists.
        TrainingError: The checkpoint cannot be written, or the adapter's model card cannot be read.
    """
    require("peft")
    check_usable(adapter)
    check_checkpoint(base, untested=True)
    if out.exists():
        raise SettingsError(f"{str(out)!r} already exists.", "Give a folder that does not exist yet.")
    facts = read_facts(adapter)
    import torch
    from transformers import AutoConfig

    processor = load_processor(base)
    with boundary(TrainingError, f"The adapter {str(adapter)!r} cannot be merged into {str(base)!r}"):
        dtype = AutoConfig.from_pretrained(base, **LOCAL).dtype or torch.float32
        model = load_whole(base, dtype=torch.float32)
        before = set(model.state_dict())
        merged = merged_into(model, adapter)
        if set(merged.state_dict()) != before:
            raise TrainingError(
                "The merged model has different weights than the base.", "Update peft, then merge again."
            )
        for name, weight in merged.state_dict().items():
            narrowed(name, weight, dtype, WIDER)
        merged.to(dtype)
    record = trained_with(adapter).over(trained_with(base))
    saving = boundary(TrainingError, f"The merged checkpoint {str(out)!r} cannot be written")
    with saving, writing_folder(out, TrainingError, "The merged checkpoint") as temporary:
        merged.save_pretrained(temporary, safe_serialization=True, max_shard_size=shard)
        processor.save_pretrained(temporary)
        record.save(temporary)
        if facts is not None:
            write_card(temporary, facts.model_copy(update={"merged": True}))
    return out
