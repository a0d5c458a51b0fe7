"""Which files an agent in GGUF is made of: the model, in one part or several, and its projector for images.

Decision: what lies in the files is for llama.cpp to read, in a process of its own; here only names, sizes and
the first bytes are looked at, so that what cannot work is said before a server is started. A projector is the
one that is named, or the one beside the model whose name fits; where two models' projectors could be meant,
none is taken. A model without one is of text alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...checkpoints.checkpoint import path_of
from ...checkpoints.digest import files_digest
from ...errors import ChatError
from ...files.bounded_reader import opened

SUFFIX = ".gguf"
PROJECTOR = "mmproj"
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
FORMATS = ("f16", "bf16", "q8_0", "f32")
"""Number formats of projectors; of several of one model the first is taken."""
FORMAT = re.compile(r"[-._]?(?:ud[-_])?(?:iq\d\w*|t?q\d\w*|mxfp4\w*|bf16|fp?16|fp?32)$", re.IGNORECASE)
HEADER = 24
"""Bytes: magic, version, number of tensors, number of values."""
MAX_PARTS = 1000


@dataclass(frozen=True)
class GgufAgent:
    """The files of one agent; `parts` are the model's, in their order."""

    parts: tuple[Path, ...]
    projector: Path | None
    """None: a model of text alone, which can plan requests without images."""

    @property
    def model(self) -> Path:
        """The file that llama.cpp is given; it finds the other parts by their names."""
        return self.parts[0]

    @property
    def digest(self) -> str:
        """16 hex digits over the contents, wherever the files lie and whatever they are called."""
        return files_digest(self._files, names=False)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(path.stat().st_size for path in self._files)

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.parts if self.projector is None else (*self.parts, self.projector)


def is_model(path: Path) -> bool:
    """Whether a file is, by its name, a model in GGUF (its first part), and not a projector."""
    if path.suffix.lower() != SUFFIX or PROJECTOR in path.name.lower():
        return False
    part = PART.fullmatch(path.name)
    return part is None or int(part.group(2)) == 1


def find_gguf(argument: str, projector: str | None = None) -> GgufAgent:
    """The agent whose model is this file; `projector` names the other file. Without one, and with none beside
    the model, it sees no images. Raises ChatError."""
    model = path_of(argument)
    if not model.is_file():
        raise ChatError(f"There is no file {argument!r}.", "Give a .gguf file: llamacpp:FILE.")
    if not is_model(model):
        raise ChatError(
            f"{argument!r} is not the model of an agent in GGUF.",
            "Give the model's .gguf, of several parts the first (-00001-of-...); the file named mmproj is "
            "found beside it.",
        )
    parts = _parts(model)
    for part in parts:
        _check(part)
    found = path_of(projector) if projector is not None else _projector_beside(model)
    if found is None:
        return GgufAgent(tuple(part.resolve() for part in parts), None)
    if not found.is_file():
        raise ChatError(f"There is no projector {str(found)!r}.", "Name the mmproj file of this model.")
    _check(found)
    return GgufAgent(tuple(part.resolve() for part in parts), found.resolve())


def _parts(model: Path) -> tuple[Path, ...]:
    match = PART.fullmatch(model.name)
    if match is None:
        return (model,)
    stem, _, of = match.groups()
    if int(of) > MAX_PARTS:
        raise ChatError(f"{model.name!r} says that it is one of {int(of)} parts.", "Is the name right?")
    parts = tuple(
        model.with_name(f"{stem}-{number:05}-of-{of}{model.suffix}") for number in range(1, int(of) + 1)
    )
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ChatError(f"{model.name!r} lacks its part {missing[0]!r}.", "Is the download complete?")
    return parts


def _projector_beside(model: Path) -> Path | None:
    beside = sorted(
        path
        for path in model.parent.iterdir()
        if path.suffix.lower() == SUFFIX and PROJECTOR in path.name.lower() and path.is_file()
    )
    if not beside:
        return None
    own = _base_name(model)
    named = [path for path in beside if _base_name(path) == own]
    unnamed = [path for path in beside if not _base_name(path)]
    candidates = named or unnamed or beside
    if len({_base_name(path) for path in candidates}) > 1:
        names = ", ".join(path.name for path in candidates[:6])
        raise ChatError(
            f"It is not clear which projector belongs to {model.name!r}: {names}.",
            "Keep each model in a folder of its own, with its projector.",
        )
    return min(candidates, key=_preference)


def _base_name(path: Path) -> str:
    """The model's name in a file's name: without the mark of a projector, part and number format."""
    part = PART.fullmatch(path.name)
    name = (part.group(1) if part else path.stem).lower()
    name = FORMAT.sub("", re.sub(rf"[-._]?{PROJECTOR}[-._]?", "-", name).strip("-._"))
    return name.strip("-._")


def _preference(path: Path) -> tuple[int, str]:
    name = path.stem.lower()
    # bf16 ends in f16 as well.
    ends = [number for number, ending in enumerate(FORMATS) if re.search(rf"(?<!b){ending}$", name)]
    return (ends[0] if ends else len(FORMATS), path.name)


def _check(path: Path) -> None:
    """Raise ChatError unless the file begins as GGUF does."""
    with opened(path, ChatError, "Weight file") as file:
        start = file.read(HEADER)
    if len(start) == HEADER and start[:4] == b"GGUF" and any(start[8:16]):
        return
    if start.startswith(b"version https://git-lfs"[:HEADER]):
        raise ChatError(
            f"{str(path)!r} is only a pointer to the weights, as git leaves them.",
            "Run `git lfs pull` there, or download the file itself.",
        )
    raise ChatError(
        f"{str(path)!r} is not a GGUF file, or it is damaged or not finished.", "Download the file again."
    )
