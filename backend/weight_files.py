"""How many weights lie in safetensors files, from their headers alone.

Decision: a header says the name, type and shape of every tensor in its first kilobytes, so the largest checkpoint is
counted without reading a weight, and as it really is rather than as its name promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

from .bounded_reader import opened, parse_json
from .chat.checkpoints import MAX_JSON, check_safetensors
from .errors import ChatError, SettingsError

Tensors = dict[str, int]
"""Number of weights by name of the tensor."""


def tensors_of(path: Path) -> Tensors:
    """Of one file, or of all files in a folder; raises SettingsError if there is none or one is damaged."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise SettingsError(f"{str(path)!r} has no weights in safetensors.", "Is the download complete?")
    # A folder may hold the same weights in several precisions; the plain names are those that are loaded.
    plain = [file for file in files if "." not in file.name.removesuffix(".safetensors")] or files
    return {name: count for file in plain for name, count in _header(file)}


def _header(path: Path) -> Iterator[tuple[str, int]]:
    try:
        check_safetensors(path)
        with opened(path, ChatError, "Weight file") as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_JSON)
            header = parse_json(file.read(length), ChatError, f"The header of {str(path)!r}")
        for name, tensor in header.items():
            if name != "__metadata__":
                yield name, prod(map(_side, tensor["shape"]))
    except ChatError as error:
        raise SettingsError(error.message, error.hint) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SettingsError(f"The header of {str(path)!r} cannot be read ({error}).") from error


def _side(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no side of a tensor")
    return value
