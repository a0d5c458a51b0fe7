"""Merges a LoRA adapter into its base: a checkpoint that every program can load without knowing of adapters.

Decision: the merge is done in float32 and saved in the base's own arithmetic, and the base is read from its
folder and not from memory, so that an adapter that was trained on a 4-bit base is merged into the full
weights. The new folder appears when it is whole.
"""

from __future__ import annotations

from pathlib import Path

from ...backend.checkpoints.checkpoint import check_adapter, check_checkpoint
from ...backend.errors import SettingsError, TrainingError, boundary
from ...backend.files.atomic import writing_folder
from ...backend.prompts import prompt_set_of
from .requirements import require


def merge(base: Path, adapter: Path, out: Path, shard: str = "4GB") -> Path:
    """Write `base` with `adapter` merged in to `out` (safetensors of at most `shard` each, processor, prompt
    set).

    The adapter's prompt set wins over the base's. Raises ChatError for a folder that is no LoRA adapter,
    SettingsError if `out` exists, TrainingError if the adapter does not fit the base.
    """
    require("peft")
    check_adapter(adapter)
    check_checkpoint(base, untested=True)
    if out.exists():
        raise SettingsError(f"{str(out)!r} exists.", "Give a folder that does not.")
    import torch
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor

    local = {"local_files_only": True, "trust_remote_code": False}
    with boundary(TrainingError, f"The adapter {str(adapter)!r} cannot be merged into {str(base)!r}"):
        dtype = AutoConfig.from_pretrained(base, **local).dtype or torch.float32
        model = AutoModelForImageTextToText.from_pretrained(
            base, use_safetensors=True, dtype=torch.float32, **local
        )
        before = {name for name, _ in model.named_parameters()}
        with_adapter = PeftModel.from_pretrained(model, str(adapter))
        if not any("lora_" in name for name, _ in with_adapter.named_parameters()):
            raise TrainingError(f"The adapter {str(adapter)!r} holds no weights for {str(base)!r}.")
        merged = with_adapter.merge_and_unload(safe_merge=True)
        if {name for name, _ in merged.named_parameters()} != before:
            raise TrainingError("Merging has left other weights than the base has.")
        merged.to(dtype)
        processor = AutoProcessor.from_pretrained(base, **local)
    prompt_set = prompt_set_of(adapter) or prompt_set_of(base)
    with writing_folder(out, TrainingError, "The merged checkpoint") as temporary:
        merged.save_pretrained(temporary, safe_serialization=True, max_shard_size=shard)
        processor.save_pretrained(temporary)
        if prompt_set is not None:
            prompt_set.save(temporary / "prompt_set")
    return out
