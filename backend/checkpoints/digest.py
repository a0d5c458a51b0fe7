"""Identifies weight files by their content.

A digest of contents tells a model that was trained further from its predecessor of the same name, and
recognizes a model that was moved. Large files are sampled: the digest covers their size, header and evenly
spaced samples.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import ChatError
from ..files.bounded_reader import opened

MAX_HEADER = 64 * 1024 * 1024
HASHED_WHOLE = 64 * 1024 * 1024
SAMPLES = 64
SAMPLE_BYTES = 64 * 1024


def files_digest(paths: Iterable[Path], names: bool = True) -> str:
    """Return 16 hex digits over the contents of files.

    Args:
        paths: Files, in the order in which they are hashed.
        names: Whether file names are hashed too.

    Raises:
        ChatError: A file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in paths:
        with opened(path, ChatError) as file:
            size = os.fstat(file.fileno()).st_size
            digest.update(f"{path.name if names else ''}\0{size}\0".encode())
            if size <= HASHED_WHOLE:
                digest.update(file.read(HASHED_WHOLE))
                continue
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
            digest.update(file.read(length))
            for sample in range(SAMPLES):
                file.seek(sample * max(0, size - SAMPLE_BYTES) // (SAMPLES - 1))
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()
