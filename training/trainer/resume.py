"""Going on after a stop: the newest checkpoint that is whole, and only of the same training.

Decisions. A checkpoint is taken if everything a bit-exact continuation needs is there and readable to its
end; a process killed while writing leaves one that is not, and the one before it is taken. The trainer would
crash on the first and go on silently without an optimiser on others. What a training is made of (settings,
data, the model it starts from) is kept beside its checkpoints, and on how many devices: going on with others
bends the schedule silently, so it is refused. A training that failed without a checkpoint has nothing to go
on with, so corrected settings may take its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...backend.errors import TrainingError, boundary
from ...backend.files.atomic import remove, sweep, write_text
from ...backend.files.bounded_reader import opened, parse_json, read_json
from ...backend.prompts import FOLDER_NAME
from ..renamed_settings import with_new_names

RUN_FILE = "training.json"
NUMBER = re.compile(r"checkpoint-(\d+)")
MAX_HEADER = 256 * 1024**2
MAX_NAMED = 5
"""Settings named in a message; the others are counted."""
FAILED = "failed_without_checkpoint"
"""Mark in the note of a training whose folder another one may take."""
OF_FIRST_STEPS = ("checks.json", "before.json", "rollouts", FOLDER_NAME)
"""What a training without a checkpoint may leave, and another one must not take for its own."""


def newest_checkpoint(steps: Path) -> Path | None:
    """The newest whole checkpoint below `steps`, None if there is none."""
    if not steps.is_dir():
        return None
    numbered = [
        (int(found.group(1)), path) for path in steps.iterdir() if (found := NUMBER.fullmatch(path.name))
    ]
    return next((path for _, path in sorted(numbered, reverse=True) if is_whole(path)), None)


def step_of(checkpoint: Path) -> int:
    """The optimiser step at which it was saved."""
    found = NUMBER.fullmatch(checkpoint.name)
    assert found is not None
    return int(found.group(1))


def logged(checkpoint: Path | None) -> list[dict[str, Any]]:
    """The trainer's log up to a checkpoint, for a training that was killed when only its result was left to
    be written."""
    state = _json(checkpoint / "trainer_state.json") if checkpoint else None
    return (state or {}).get("log_history", [])


def is_whole(checkpoint: Path) -> bool:
    """Whether weights, optimiser, schedule, random states and the trainer's state are all there and not cut
    off."""
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
    # FSDP with a full state writes the gathered optimiser, and the weights once more, as .bin.
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
    """Whether the file is as long as its header says."""
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
    """16 hex digits over texts in their order, such as the rows of a data file."""
    digest = hashlib.blake2b(digest_size=8)
    for value in values:
        digest.update(len(value.encode()).to_bytes(8, "big") + value.encode())
    return digest.hexdigest()


def claim_run(out: Path, made_of: Mapping[str, Any]) -> None:
    """Note in `out` what this training is made of; raises TrainingError if another one was begun there."""
    if os.environ.get("RANK", "0") != "0":
        return
    path = out / RUN_FILE
    wanted = json.loads(json.dumps(made_of))
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    if devices > 1:
        wanted["devices"] = devices
    found = _json(path)
    if found is None and path.exists():
        raise TrainingError(f"{str(path)!r} cannot be read.", "Give another --out, or delete it to go on.")
    known = with_new_names(found or {}, wanted)
    # Another process may have gone on with the same training after this one failed.
    failed = known.pop(FAILED, False) and not _has_checkpoints(out)
    differing = sorted(name for name in {**known, **wanted} if known.get(name) != wanted.get(name))
    if found is not None and differing and not failed:
        if "stage" in differing:
            raise TrainingError(
                f"{str(out)!r} holds a training of stage {known.get('stage')!r}, and this is "
                f"{wanted.get('stage')!r}.",
                "Give another --out.",
            )
        name, more = differing[0], len(differing) - MAX_NAMED
        others = f" and {more} more settings" if more > 0 else ""
        raise TrainingError(
            f"{str(out)!r} holds a training with other {', '.join(differing[:MAX_NAMED])}{others} "
            f"({name}: {known.get(name)!r} there, {wanted.get(name)!r} here).",
            "Give another --out, or the settings it was begun with.",
        )
    if failed and differing:
        for name in OF_FIRST_STEPS:
            _remove(out / name)
    if found is None or failed:
        write_text(path, json.dumps(wanted, indent=2) + "\n", TrainingError, "The training's note")


@contextmanager
def given_back_on_failure(out: Path) -> Iterator[None]:
    """Run a training in its claimed folder `out`. If it fails before its first checkpoint, note that other
    settings may take the folder. What a killed process left half-written is removed first."""
    first, alone = os.environ.get("RANK", "0") == "0", os.environ.get("WORLD_SIZE", "1") == "1"
    if first:
        # The other ranks may be writing into the folders below.
        sweep(out, *((out / "rollouts", out / "shown") if alone else ()), files_alone=True)
    try:
        yield
    except BaseException:
        note = _json(out / RUN_FILE) if first else None
        if note is not None and not _has_checkpoints(out):
            text = json.dumps({**note, FAILED: True}, indent=2) + "\n"
            with suppress(TrainingError):  # the failure itself is what is said
                write_text(out / RUN_FILE, text, TrainingError, "The training's note")
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
