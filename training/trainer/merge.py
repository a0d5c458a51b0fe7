"""Merges a LoRA adapter into its base: a checkpoint that every program can load without knowing of adapters.

Decision: the merge is done in float32 and saved in the base's own arithmetic, and the base is read from its
folder and not from memory, so that an adapter that was trained on a 4-bit base is merged into the full
weights. The new folder appears when it is whole.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.chat.local.adapters import check_usable, merged_into
from ...backend.chat.local.loading import load_processor
from ...backend.checkpoints.checkpoint import check_checkpoint
from ...backend.checkpoints.loaded import LOCAL, load_whole
from ...backend.errors import SettingsError, TrainingError, boundary
from ...backend.files.atomic import writing_folder
from ...backend.machine.requirements import require
from ...backend.prompts.trained_with import trained_with
from .saving import narrowed

WIDER = "Set dtype to bfloat16 in the base's config.json, and merge again."


def merge(base: Path, adapter: Path, out: Path, shard: str = "4GB") -> Path:
    """Write `base` with `adapter` merged in to `out` (safetensors of at most `shard` each, processor, prompt
    set).

    The adapter's record of what it was trained with wins over the base's. Raises ChatError for a folder that
    is not a LoRA adapter or does not fit the base, and for a base that an agent could not be; SettingsError
    if `out` exists, TrainingError for what cannot be written.
    """
    require("peft")
    check_usable(adapter)
    check_checkpoint(base, untested=True)
    if out.exists():
        raise SettingsError(f"{str(out)!r} exists.", "Give a folder that does not.")
    import torch
    from transformers import AutoConfig

    processor = load_processor(base)
    with boundary(TrainingError, f"The adapter {str(adapter)!r} cannot be merged into {str(base)!r}"):
        dtype = AutoConfig.from_pretrained(base, **LOCAL).dtype or torch.float32
        model = load_whole(base, dtype=torch.float32)
        before = set(model.state_dict())
        merged = merged_into(model, adapter)
        if set(merged.state_dict()) != before:
            raise TrainingError("Merging has left other weights than the base has.", "Update peft.")
        for name, weight in merged.state_dict().items():
            narrowed(name, weight, dtype, WIDER)
        merged.to(dtype)
    record = trained_with(adapter).over(trained_with(base))
    saving = boundary(TrainingError, f"The merged checkpoint {str(out)!r} cannot be written")
    with saving, writing_folder(out, TrainingError, "The merged checkpoint") as temporary:
        merged.save_pretrained(temporary, safe_serialization=True, max_shard_size=shard)
        processor.save_pretrained(temporary)
        record.save(temporary)
    return out
