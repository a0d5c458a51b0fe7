"""Recognizes sharded checkpoint folders of other trainers and says how to convert them.

Such a folder contains only pickles, or no file that a library loads. The general message would tell its owner
to download it again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..errors import ChatError

VERL_SHARD = "model_world_size_*_rank_*.pt"
ZERO_SCRIPT = "zero_to_fp32.py"
ZERO_SHARDS = ("zero_pp_rank_*", "mp_rank_*", "bf16_zero_pp_rank_*")
FSDP_FOLDERS = ("pytorch_model_fsdp_*", "__*_*.distcp", "*.distcp")
STEP = re.compile(r"global_step_?(\d+)")
COPY = "then copy the base model's other files (*.json, *.jinja, *.txt) next to the weights"


def refuse_foreign(folder: Path) -> None:
    """Reject checkpoint folders of verl, EasyR1, DeepSpeed ZeRO and FSDP.

    Raises:
        ChatError: The folder is one of these; the hint is the command that converts it.
    """
    whole = _has(folder, "*.safetensors")
    if not whole:
        for place in _verl_places(folder):
            if _has(place, VERL_SHARD):
                raise _verl(folder, place)
    zero = folder.parent if any(_has(folder, name) for name in ZERO_SHARDS) else folder
    is_zero = zero != folder or (folder / ZERO_SCRIPT).exists() or any(_steps(folder))
    if is_zero and whole:
        raise ChatError(
            f"{str(folder)!r} contains DeepSpeed files next to its weights ({ZERO_SCRIPT} is a program). "
            "Folders with code are not opened.",
            "Give a copy that contains only *.safetensors, *.json, *.jinja, *.txt and prompt_set.",
        )
    if is_zero:
        command = ["python", "-m", "deepspeed.utils.zero_to_fp32", str(zero), f"{zero}-whole"]
        raise ChatError(
            f"{str(folder)!r} is a DeepSpeed ZeRO checkpoint: its weights are in shards.",
            f"Convert it: {shlex.join([*command, '--safe_serialization'])}, {COPY}.",
        )
    if not whole and (shards := next((name for name in FSDP_FOLDERS if _has(folder, name)), None)):
        place = folder if shards.endswith(".distcp") else next(iter(folder.glob(shards)))
        command = ["accelerate", "merge-weights", str(place), f"{folder}-whole"]
        raise ChatError(
            f"{str(folder)!r} is an FSDP checkpoint: its weights are in shards.",
            f"Convert it: {shlex.join(command)}, {COPY}.",
        )


def _verl(folder: Path, place: Path) -> ChatError:
    made = place / "huggingface"
    what = f"{str(folder)!r} is a verl or EasyR1 checkpoint: its weights are in shards ({str(place)!r})"
    if _has(made, "*.safetensors"):
        return ChatError(f"{what}, which are already converted.", f"Give {str(made)!r}.")
    verl = ["python", "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(place)]
    easy_r1 = ["python", "scripts/model_merger.py", "--local_dir", str(place)]
    return ChatError(
        f"{what}.",
        f"Convert it with verl: {shlex.join([*verl, '--target_dir', str(made)])}; or, in the folder of "
        "EasyR1: "
        f"{shlex.join(easy_r1)}. Then give {str(made)!r}.",
    )


def _verl_places(folder: Path) -> Iterator[Path]:
    """Yield the folders that may contain verl's shards, for a folder that the user named."""
    yield from (folder, folder / "actor")
    if folder.name == "huggingface":
        yield folder.parent
    for step in sorted(_steps(folder), key=lambda path: -int(STEP.fullmatch(path.name)[1])):  # pyright: ignore[reportOptionalSubscript]
        yield step / "actor"


def _steps(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in islice(folder.glob("global_step*"), 1000) if STEP.fullmatch(path.name))


def _has(folder: Path, pattern: str) -> bool:
    return folder.is_dir() and next(iter(folder.glob(pattern)), None) is not None
