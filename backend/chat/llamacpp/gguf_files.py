"""Finds the files of a GGUF agent: the model, in one or several parts, and its projector for images.

The contents of the files are read only by llama.cpp, in its own process. Here only names, sizes and the first
bytes are checked, so that errors are reported before a server is started. The projector is the given one, or
the one next to the model with a matching name. If it could belong to several models, none is used. A model
without a projector cannot see images.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...checkpoints.checkpoint import files_digest, path_of
from ...errors import ChatError
from ...files.bounded_reader import opened

SUFFIX = ".gguf"
PROJECTOR = "mmproj"
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
FORMATS = ("f16", "bf16", "q8_0", "f32")
"""Dtypes of projectors. If a model has several projectors, the first one in this order is used."""
FORMAT = re.compile(r"[-._]?(?:ud[-_])?(?:iq\d\w*|t?q\d\w*|mxfp4\w*|bf16|fp?16|fp?32)$", re.IGNORECASE)
HEADER = 24
"""Length of the header in bytes: magic, version, number of tensors, number of values."""
MAX_PARTS = 1000


@dataclass(frozen=True)
class GgufAgent:
    """The files of one agent; `parts` are those of the model, in order."""

    parts: tuple[Path, ...]
    projector: Path | None
    """`None` for a text-only model, which can plan requests without images."""

    @property
    def model(self) -> Path:
        """The file that is passed to llama.cpp, which finds the other parts by their names."""
        return self.parts[0]

    @property
    def digest(self) -> str:
        """16 hex digits over the contents, independent of folder and file names."""
        return files_digest(self._files, names=False)

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(path.stat().st_size for path in self._files)

    @property
    def _files(self) -> tuple[Path, ...]:
        return self.parts if self.projector is None else (*self.parts, self.projector)


def is_model(path: Path) -> bool:
    """Return whether a file name is that of a GGUF model (or its first part) and not of a projector."""
    if path.suffix.lower() != SUFFIX or PROJECTOR in path.name.lower():
        return False
    part = PART.fullmatch(path.name)
    return part is None or int(part.group(2)) == 1


def find_gguf(argument: str, projector: str | None = None) -> GgufAgent:
    """Return the agent with this model file.

    Args:
        argument: The model file.
        projector: The projector file. Default: the one next to the model. Without one the agent cannot see
            images.

    Raises:
        ChatError: A file is missing, damaged or of another kind.
    """
    model = path_of(argument)
    if not model.is_file():
        raise ChatError(f"File {argument!r} does not exist.", "Give a .gguf file: llamacpp:FILE.")
    if not is_model(model):
        raise ChatError(
            f"{argument!r} is not a GGUF model.",
            "Give the model's .gguf file; if it has several parts, the first one (-00001-of-...). The mmproj "
            "file is found next to it.",
        )
    parts = _parts(model)
    for part in parts:
        _check(part)
    found = path_of(projector) if projector is not None else _projector_beside(model)
    if found is None:
        return GgufAgent(tuple(part.resolve() for part in parts), None)
    if not found.is_file():
        raise ChatError(f"Projector {str(found)!r} does not exist.", "Give the mmproj file of this model.")
    _check(found)
    return GgufAgent(tuple(part.resolve() for part in parts), found.resolve())


def _parts(model: Path) -> tuple[Path, ...]:
    match = PART.fullmatch(model.name)
    if match is None:
        return (model,)
    stem, _, of = match.groups()
    if int(of) > MAX_PARTS:
        raise ChatError(
            f"{model.name!r} has {int(of)} parts by its name; the maximum is {MAX_PARTS}.",
            "Check the file name.",
        )
    parts = tuple(
        model.with_name(f"{stem}-{number:05}-of-{of}{model.suffix}") for number in range(1, int(of) + 1)
    )
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ChatError(
            f"Part {missing[0]!r} of {model.name!r} is missing.", "Download all parts into one folder."
        )
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
            f"Several projectors could belong to {model.name!r}: {names}.",
            "Put each model into its own folder, with its projector.",
        )
    return min(candidates, key=_preference)


def _base_name(path: Path) -> str:
    """Return the model's name in a file name: without the projector mark, the part and the dtype."""
    part = PART.fullmatch(path.name)
    name = (part.group(1) if part else path.stem).lower()
    name = FORMAT.sub("", re.sub(rf"[-._]?{PROJECTOR}[-._]?", "-", name).strip("-._"))
    return name.strip("-._")


def _preference(path: Path) -> tuple[int, str]:
    name = path.stem.lower()
    # bf16 also ends in f16.
    ends = [number for number, ending in enumerate(FORMATS) if re.search(rf"(?<!b){ending}$", name)]
    return (ends[0] if ends else len(FORMATS), path.name)


def _check(path: Path) -> None:
    """Check that a file starts like a GGUF file.

    Raises:
        ChatError: It does not.
    """
    with opened(path, ChatError, "Weight file") as file:
        start = file.read(HEADER)
    if len(start) == HEADER and start[:4] == b"GGUF" and any(start[8:16]):
        return
    if start.startswith(b"version https://git-lfs"[:HEADER]):
        raise ChatError(
            f"{str(path)!r} is a git LFS pointer and does not contain the weights.",
            "Run `git lfs pull` there, or download the file itself.",
        )
    raise ChatError(
        f"{str(path)!r} is not a GGUF file, or it is damaged or incomplete.", "Download the file again."
    )
