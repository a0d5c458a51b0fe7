"""How many weights lie in safetensors files, from their headers alone.

Decision: a header says the name, type and shape of every tensor in its first kilobytes, so the largest
checkpoint is counted without reading a weight, and as it really is rather than as its name promises.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path

from ..errors import ChatError, SettingsError
from ..files.bounded_reader import opened, parse_json

MAX_HEADER = 64 * 1024 * 1024
PICKLE_STARTS = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
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


def check_safetensors(path: Path) -> None:
    """Raise ChatError unless the file begins as safetensors do: 8 bytes of length, then a JSON header of that
    length."""
    with opened(path, ChatError, "Weight file") as file:
        start, size = file.read(64), os.fstat(file.fileno()).st_size
    if start.startswith(b"version https://git-lfs"):
        raise ChatError(
            f"{str(path)!r} is only a pointer to the weights, as git leaves them.",
            "Run `git lfs pull` there, or download the file itself.",
        )
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:9] != b"{" or not 2 <= length <= min(MAX_HEADER, size - 8):
        kind = (
            "a pickle, which can run code when loaded"
            if start[:2] in PICKLE_STARTS
            else "damaged or not finished"
        )
        if start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
            kind = "a text file"
        raise ChatError(
            f"{str(path)!r} does not hold weights in safetensors: it is {kind}.", "Download the file again."
        )


def _header(path: Path) -> Iterator[tuple[str, int]]:
    try:
        check_safetensors(path)
        with opened(path, ChatError, "Weight file") as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
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
