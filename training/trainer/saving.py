"""Saves a trained or a merged checkpoint as a folder that agents open: weights, processor, prompt set, card.

The result is what the trainer has in memory at its end, or the files of a checkpoint if the training had to
stop or was already complete. Conversion to half precision rewrites the weights file by file, so that no
second model is in memory. The folder appears by one rename.

An adapter is merged into its base for programs without adapter support. The merge is computed in float32 and
saved in the base's own dtype. The base is read from its folder and not from memory, so that an adapter
trained on a 4-bit base is merged into the full weights. The new folder appears only when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backend.core.errors import SettingsError, TrainingError, boundary
from ...backend.core.files.atomic import replace_folder, writing_folder
from ...backend.core.machine.libraries import require
from ...backend.core.prompts.agent_card import AgentCard, Role
from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.prompts.trained_with import TrainedWith, trained_with
from ...backend.core.seams.chat_model import MAX_PIXELS
from ...backend.models.chat.local.adapters import check_usable, merged_into
from ...backend.models.chat.local.base_model import load_processor
from ...backend.models.checkpoints.checkpoint import LOCAL, check_checkpoint, load_whole
from .model_card import README, CardFacts, read_facts, write_card
from .resume import step_of

# Files that a trainer writes next to the weights; the first is a pickle.
LEFT_OUT = ("training_args.bin", README)
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*config.json")
"""Files of a trainer's checkpoint that form a model or an adapter."""


@dataclass(frozen=True)
class Result:
    """Result of a training.

    Attributes:
        record: Record of how it was trained.
        save_dtype: "float16", "bfloat16" or "auto" (as trained).
        checkpoint: Checkpoint whose files are saved instead of the weights in memory.
        facts: Facts for the model card.
    """

    record: TrainedWith
    save_dtype: str
    checkpoint: Path | None = None
    facts: CardFacts | None = None


def save_trained(trainer: Any, processor: Any, folder: Path, result: Result) -> Path:
    """Save a trained model or adapter to `folder`, which appears only when it is complete.

    Args:
        trainer: Trainer whose weights, gathered from all ranks, are saved.
        processor: Processor of the model.
        folder: Folder to create.
        result: The result to save.

    Returns:
        `folder`.

    Raises:
        TrainingError: The folder cannot be written.
    """
    checkpoint, facts = result.checkpoint, result.facts
    # The name is fixed because all ranks write into the folder and must know its name.
    part = folder.with_name(f"{folder.name}.part")
    if trainer.accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    with boundary(TrainingError, f"The checkpoint {str(folder)!r} cannot be written"):
        if checkpoint is None:
            trainer.save_model(str(part))
        if trainer.accelerator.is_main_process:
            # With sharded weights, a checkpoint cannot be loaded back from its file.
            if checkpoint is not None:
                part.mkdir(parents=True)
                for path in (path for pattern in WEIGHTS for path in checkpoint.glob(pattern)):
                    shutil.copyfile(path, part / path.name)
            for name in LEFT_OUT:
                (part / name).unlink(missing_ok=True)
            if result.save_dtype != "auto":
                _convert(part, result.save_dtype)
            processor.save_pretrained(part)
            result.record.save(part)
            if facts is not None:
                steps = step_of(checkpoint) if checkpoint else trainer.state.global_step
                write_card(part, facts.model_copy(update={"steps": steps}))
            replace_folder(part, folder, TrainingError, "The checkpoint")
    trainer.accelerator.wait_for_everyone()
    return folder


def record_of(
    out: Path, prompt_set: PromptSet | None, image_pixels: int, role: Role | None = None
) -> TrainedWith:
    """Return the record of how an agent is trained.

    It is saved in the training's folder immediately, for agents that open one of its checkpoints. A `role` of
    `None` leaves the job of the agent open.
    """
    record = TrainedWith(out.name, prompt_set, min(image_pixels, MAX_PIXELS), card=AgentCard(role=role))
    if os.environ.get("RANK", "0") == "0":
        record.save(out)
    return record


def narrowed(name: str, weight: Any, kind: Any, hint: str) -> Any:
    """Return a tensor in another dtype.

    Raises:
        TrainingError: Finite values would become infinite; the error has this hint.
    """
    if not weight.is_floating_point():
        return weight
    made = weight.to(kind)
    lost = made.isinf() & weight.isfinite()
    if lost.any():
        shown = str(kind).removeprefix("torch.")
        raise TrainingError(
            f"Cannot convert the weight {name!r} to {shown}: {int(lost.sum())} values, up to "
            f"{weight.abs().max().item():g}, would become infinite.",
            hint,
        )
    return made


def _convert(folder: Path, dtype: str) -> None:
    """Convert the weight files to "float16" or "bfloat16", one at a time."""
    import torch
    from safetensors.torch import load_file, save_file

    kind = getattr(torch, dtype)
    for path in sorted(folder.glob("*.safetensors")):
        weights = {
            name: narrowed(
                name,
                weight,
                kind,
                "The training is complete; run the command again with --set save_dtype=bfloat16.",
            )
            for name, weight in load_file(path).items()
        }
        save_file(weights, path, metadata={"format": "pt"})
    path = folder / "config.json"
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
        for part in (config, *(value for value in config.values() if isinstance(value, dict))):
            if "dtype" in part:
                part["dtype"] = str(kind).removeprefix("torch.")
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


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
