"""Counts the weights in safetensors files and validates the files, from their headers alone.

The header is parsed by the library that loads the weights (`safetensors.safe_open`), so the counts match what
will be loaded. It rejects a truncated file, a file whose size differs from its header, and invalid shapes.
Only the header's length is checked first, which limits what the library reads.
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
"""Maximum size of a header in bytes. A tensor takes about a hundred."""
PICKLE_STARTS = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
Tensors = dict[str, int]
"""Number of weights by tensor name."""


def tensors_of(path: Path) -> Tensors:
    """Return the tensors of a file, or of all safetensors files in a folder.

    Raises:
        SettingsError: The folder has no such file, or a file is damaged.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise SettingsError(
            f"{str(path)!r} does not contain safetensors files.",
            "The download may be incomplete: download it again.",
        )
    # A folder may contain the same weights in several precisions. Files with plain names are the ones loaded.
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
    """Check that a file is valid safetensors and as long as its header says.

    Raises:
        ChatError: It is not.
    """
    with _weights(path):
        pass


@contextmanager
def _weights(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    # This also rejects anything but a regular file, on which the library would block.
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
            f"Cannot read the header of {str(path)!r} ({error}): the file is damaged or incomplete.",
            "Download the file again.",
        ) from error


def _no_safetensors(path: Path, start: bytes) -> ChatError:
    if start.startswith(b"version https://git-lfs"):
        return ChatError(
            f"{str(path)!r} is only a git-lfs pointer to the weights.",
            "Run `git lfs pull` in that folder, or download the file.",
        )
    kind = "damaged or incomplete"
    if start[:2] in PICKLE_STARTS:
        kind = "a pickle, which can run code when loaded"
    elif start and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in start):
        kind = "a text file"
    return ChatError(f"{str(path)!r} is not a safetensors file: it is {kind}.", "Download the file again.")
