"""How many weights lie in safetensors files, and whether these files are what they say, from their headers
alone.

Decision: the library that loads the weights reads the header too (`safetensors.safe_open`), so what is
counted here is what will be loaded: it refuses a file that is cut off, that has other bytes than its header
lists, or whose shapes do not fit. Only the header's length is looked at before, which bounds what the library
reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from ..errors import ChatError, SettingsError
from ..files.bounded_reader import opened

MAX_HEADER = 16 * 1024 * 1024
"""Bytes of a header; a tensor takes about a hundred."""
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
    found: Tensors = {}
    try:
        for file in plain:
            with _weights(file) as weights:
                found |= {name: prod(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    except ChatError as error:
        raise SettingsError(error.message, error.hint) from error
    return found


def check_safetensors(path: Path) -> None:
    """Raise ChatError unless the file holds weights in safetensors, as many bytes as its header lists."""
    with _weights(path):
        pass


@contextmanager
def _weights(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    # Also refuses what is no regular file, on which the library would wait.
    with opened(path, ChatError, "Weight file") as file:
        start, size = file.read(64), os.fstat(file.fileno()).st_size
    length = int.from_bytes(start[:8], "little")
    if start[8:9] != b"{" or not 2 <= length <= min(MAX_HEADER, size - 8):
        raise _no_safetensors(path, start)
    try:
        with safe_open(path, framework="np") as weights:
            yield weights
    except (SafetensorError, OSError) as error:
        raise ChatError(
            f"The header of {str(path)!r} cannot be read ({error}): it is damaged or not finished.",
            "Download the file again.",
        ) from error


def _no_safetensors(path: Path, start: bytes) -> ChatError:
    if start.startswith(b"version https://git-lfs"):
        return ChatError(
            f"{str(path)!r} is only a pointer to the weights, as git leaves them.",
            "Run `git lfs pull` there, or download the file itself.",
        )
    kind = "damaged or not finished"
    if start[:2] in PICKLE_STARTS:
        kind = "a pickle, which can run code when loaded"
    elif start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        kind = "a text file"
    return ChatError(
        f"{str(path)!r} does not hold weights in safetensors: it is {kind}.", "Download the file again."
    )
