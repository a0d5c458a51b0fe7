"""Resumes an interrupted training from its newest complete checkpoint, if it is the same training.

A checkpoint is used if all files that a bit-exact continuation needs exist and are complete. A process that
was killed while writing leaves an incomplete one, and the previous one is used; the trainer itself would
crash on some of these, or silently continue without an optimizer on others. The folder also records the
settings, data, starting model and number of devices. Resuming with different ones would silently change the
schedule, so it is refused. A training that failed before its first checkpoint has nothing to resume, so
corrected settings may use its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...backend.core.errors import TrainingError, boundary
from ...backend.core.files.atomic import remove, sweep, write_text
from ...backend.core.files.bounded_reader import opened, parse_json, read_json
from ...backend.core.prompts.prompt_set import FOLDER_NAME
from .progress import number

RUN_FILE = "training.json"
NUMBER = re.compile(r"checkpoint-(\d+)")
MAX_HEADER = 256 * 1024**2
ADDED: dict[str, Any] = {"loss_type": "dapo", "mask_truncated_completions": False}
"""Settings since 0.3.0, with what trainings of earlier releases did."""
MAX_NAMED = 5
"""Number of settings named in a message; the others are counted."""
LOSS = "eval_loss"
"""Name of the held-out loss in the trainer's log."""
FAILED = "failed_without_checkpoint"
"""Key in the record of a training whose folder may be reused with other settings."""
OF_FIRST_STEPS = ("checks.json", "rollouts", FOLDER_NAME)
"""Files that a training leaves before its first checkpoint, and that another one must not use."""


def whole_checkpoints(steps: Path) -> Iterator[Path]:
    """Yield the complete checkpoints in `steps`, the newest first."""
    named = [path for path in steps.glob("checkpoint-*") if NUMBER.fullmatch(path.name)]
    yield from filter(is_whole, sorted(named, key=step_of, reverse=True))


def newest_checkpoint(steps: Path) -> Path | None:
    """Return the newest complete checkpoint in `steps`, or None."""
    return next(whole_checkpoints(steps), None)


def step_of(checkpoint: Path) -> int:
    """Return the optimizer step of a checkpoint."""
    found = NUMBER.fullmatch(checkpoint.name)
    assert found is not None
    return int(found.group(1))


def logged(checkpoint: Path | None) -> list[dict[str, Any]]:
    """Return the trainer's log up to a checkpoint, for a training killed before it wrote its result."""
    state = _json(checkpoint / "trainer_state.json") if checkpoint else None
    return (state or {}).get("log_history", [])


def measured_losses(history: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Return the held-out loss per training step, ordered by step. Non-finite values are dropped."""
    found: dict[int, float] = {}
    for entry in history:
        step, loss = number(entry, "step"), number(entry, LOSS)
        if step is not None and loss is not None:
            found[int(step)] = loss
    return dict(sorted(found.items()))


def lowest(losses: Mapping[int, float]) -> int | None:
    """Return the first step with the lowest loss."""
    return min(losses, key=lambda step: (losses[step], step), default=None)


def is_to_stop(losses: Mapping[int, float], patience: int | None) -> bool:
    """Return whether at least `patience` measurements follow the lowest one."""
    best = lowest(losses)
    return patience is not None and best is not None and sum(step > best for step in losses) >= patience


def best_checkpoint(steps: Path, losses: Mapping[int, float]) -> Path | None:
    """Return the complete checkpoint in `steps` with the lowest held-out loss, or None."""
    available = {step: loss for step, loss in losses.items() if is_whole(steps / f"checkpoint-{step}")}
    best = lowest(available)
    return None if best is None else steps / f"checkpoint-{best}"


def is_whole(checkpoint: Path) -> bool:
    """Return whether weights, optimizer, scheduler, random states and trainer state are complete."""
    weights = list(checkpoint.glob("*.safetensors"))
    index = checkpoint / "model.safetensors.index.json"
    state = _json(checkpoint / "trainer_state.json")
    if state is None or not weights or not all(map(_is_whole_safetensors, weights)):
        return False
    if index.is_file():
        shards = set(((_json(index) or {}).get("weight_map") or {"": ""}).values())
        if not shards <= {path.name for path in weights}:
            return False
    sharded = any(path.is_dir() and any(path.iterdir()) for path in checkpoint.glob("*optimizer*")) or any(
        checkpoint.glob("global_step*")
    )
    # FSDP with a full state dict writes the gathered optimizer, and the weights once more, as .bin files.
    gathered = list(checkpoint.glob("*.bin"))
    optimizers = [checkpoint / "optimizer.pt", checkpoint / "optimizer.bin"]
    if not sharded and not any(map(zipfile.is_zipfile, optimizers)):
        return False
    if not all(map(zipfile.is_zipfile, gathered)):
        return False
    random_states = list(checkpoint.glob("rng_state*.pth"))
    files = [checkpoint / "scheduler.pt", *random_states]
    return bool(random_states) and all(zipfile.is_zipfile(path) for path in files)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        value = read_json(path, TrainingError)
    except TrainingError:
        return None
    return value if isinstance(value, dict) else None


def _is_whole_safetensors(path: Path) -> bool:
    """Return whether the file is as long as its header states."""
    try:
        with opened(path, TrainingError) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size, MAX_HEADER):
                return False
            header = parse_json(file.read(length), TrainingError, str(path))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (TrainingError, KeyError, TypeError, AttributeError):
        return False
    return size == 8 + length + max(ends, default=0)


def digest_of(values: Iterable[str]) -> str:
    """Return 16 hex digits that identify a sequence of texts, such as the rows of a data file."""
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        digest.update(len(value.encode()).to_bytes(8, "big") + value.encode())
    return digest.hexdigest()


def claim_run(out: Path, made_of: Mapping[str, Any], only_saved: bool = False) -> None:
    """Record in `out` what this training consists of.

    Args:
        out: Folder of the training.
        made_of: Model, data and settings.
        only_saved: Whether no further step is made, so that the number of devices may differ.

    Raises:
        TrainingError: `out` contains a different training, or its record cannot be read.
    """
    if os.environ.get("RANK", "0") != "0":
        return
    current, is_new, is_other = check_run(out, made_of, only_saved)
    if is_other:
        for name in OF_FIRST_STEPS:
            _remove(out / name)
    if is_new:
        path = out / RUN_FILE
        write_text(path, json.dumps(current, indent=2) + "\n", TrainingError, "The training record")


def check_run(
    out: Path, made_of: Mapping[str, Any], only_saved: bool = False
) -> tuple[dict[str, Any], bool, bool]:
    """Check that a training may use the folder `out`, as `claim_run` does, without writing.

    Returns:
        (record of the training, whether it must be written, whether it replaces a failed one of other
        settings).

    Raises:
        TrainingError: `out` contains a different training, or its record cannot be read.
    """
    path = out / RUN_FILE
    current = json.loads(json.dumps(made_of))
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    if devices > 1:
        current["devices"] = devices
    found = _json(path)
    if found is None and path.exists():
        raise TrainingError(
            f"Cannot read the training record {str(path)!r}.", "Give another --out, or delete this file."
        )
    known = {name: value for name, value in ADDED.items() if name in current} | dict(found or {})
    if only_saved:
        known.pop("devices", None)
        current.pop("devices", None)
    # Another process may have resumed the same training after this one failed.
    failed = known.pop(FAILED, False) and not _has_checkpoints(out)
    differing = sorted(name for name in {**known, **current} if known.get(name) != current.get(name))
    if found is not None and differing and not failed:
        if "stage" in differing:
            raise TrainingError(
                f"{str(out)!r} contains a training of stage {known.get('stage')!r}, but this one is "
                f"{current.get('stage')!r}.",
                "Give another --out.",
            )
        name, more = differing[0], len(differing) - MAX_NAMED
        others = f" and {more} more settings" if more > 0 else ""
        raise TrainingError(
            f"{str(out)!r} contains a training with different {', '.join(differing[:MAX_NAMED])}{others} "
            f"({name}: {known.get(name)!r} there, {current.get(name)!r} here).",
            "Give another --out, or use the same settings to resume.",
        )
    return current, found is None or bool(failed), bool(failed and differing)


@contextmanager
def given_back_on_failure(out: Path) -> Iterator[None]:
    """Run a training in its claimed folder `out`.

    If it fails before its first checkpoint, the record states that the folder may be reused. Files that a
    killed process left half-written are removed first.
    """
    first, alone = os.environ.get("RANK", "0") == "0", os.environ.get("WORLD_SIZE", "1") == "1"
    if first:
        # Other ranks may be writing to these folders.
        sweep(out, *((out / "rollouts", out / "shown") if alone else ()), files_alone=True)
    try:
        yield
    except BaseException:
        note = _json(out / RUN_FILE) if first else None
        if note is not None and not _has_checkpoints(out):
            text = json.dumps({**note, FAILED: True}, indent=2) + "\n"
            with suppress(TrainingError):  # report the original failure, not this one
                write_text(out / RUN_FILE, text, TrainingError, "The training record")
        raise


def _has_checkpoints(out: Path) -> bool:
    return any((out / "steps").glob("checkpoint-*"))


def _remove(path: Path) -> None:
    """Remove a file or folder of a failed training, if it is there."""
    if path.is_dir() and not path.is_symlink():
        with boundary(TrainingError, f"{str(path)!r} of a failed training cannot be removed"):
            shutil.rmtree(path)
    else:
        remove(path, TrainingError)
