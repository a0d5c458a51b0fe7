"""What a training leaves: a folder that agents open, with weights, processor and prompt set, which appears by
one rename.

Decision: what comes out is what the trainer holds at its end or, where a training had to stop or was only to
be finished, the files of a checkpoint; in half precision if asked, rewritten file by file, so
that no second model is held.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ...backend.chat.image_limits import MAX_PIXELS
from ...backend.errors import TrainingError, boundary
from ...backend.files.atomic import replace_folder
from ...backend.prompts import PromptSet
from ...backend.prompts.trained_with import TrainedWith

# What a trainer leaves beside the weights; the first is a pickle.
LEFT_OUT = ("training_args.bin", "README.md")
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*config.json")
"""The files of a trainer's checkpoint that make a model or an adapter."""


def save_trained(
    trainer: Any,
    processor: Any,
    record: TrainedWith,
    folder: Path,
    save_dtype: str,
    checkpoint: Path | None = None,
) -> Path:
    """Save what a trainer holds (a model or an adapter, gathered from all ranks), or what it wrote into
    `checkpoint`, with processor and the record of what it was trained with, into `folder`, which appears when
    it is whole."""
    # A fixed name: all ranks write into it, and a rank cannot know what another one would draw.
    part = folder.with_name(f"{folder.name}.part")
    if trainer.accelerator.is_main_process:
        shutil.rmtree(part, ignore_errors=True)
    trainer.accelerator.wait_for_everyone()
    with boundary(TrainingError, f"The checkpoint {str(folder)!r} cannot be written"):
        if checkpoint is None:
            trainer.save_model(str(part))
        if trainer.accelerator.is_main_process:
            # Where weights are spread over devices, a checkpoint is not loaded back by its file.
            if checkpoint is not None:
                part.mkdir(parents=True)
                for path in (path for pattern in WEIGHTS for path in checkpoint.glob(pattern)):
                    shutil.copyfile(path, part / path.name)
            for name in LEFT_OUT:
                (part / name).unlink(missing_ok=True)
            if save_dtype != "auto":
                _convert(part, save_dtype)
            processor.save_pretrained(part)
            record.save(part)
            replace_folder(part, folder, TrainingError, "The checkpoint")
    trainer.accelerator.wait_for_everyone()
    return folder


def record_of(out: Path, prompt_set: PromptSet | None, image_pixels: int) -> TrainedWith:
    """What a training trains with. It is saved in the training's folder at once, for agents that open one of
    its steps."""
    record = TrainedWith(out.name, prompt_set, min(image_pixels, MAX_PIXELS))
    if os.environ.get("RANK", "0") == "0":
        record.save(out)
    return record


def narrowed(name: str, weight: Any, kind: Any, hint: str) -> Any:
    """A weight in another precision. Raises TrainingError with this hint if it has values that would become
    infinite."""
    if not weight.is_floating_point():
        return weight
    made = weight.to(kind)
    lost = made.isinf() & weight.isfinite()
    if lost.any():
        shown = str(kind).removeprefix("torch.")
        raise TrainingError(
            f"The weight {name!r} has {int(lost.sum())} values, up to {weight.abs().max().item():g}, that "
            f"would become infinite in {shown}.",
            hint,
        )
    return made


def _convert(folder: Path, dtype: str) -> None:
    """Rewrite the weight files in half precision ("float16" or "bfloat16"), one at a time."""
    import torch
    from safetensors.torch import load_file, save_file

    kind = getattr(torch, dtype)
    for path in sorted(folder.glob("*.safetensors")):
        weights = {
            name: narrowed(
                name, weight, kind, "The training is complete: run it again with --save-dtype bfloat16."
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
