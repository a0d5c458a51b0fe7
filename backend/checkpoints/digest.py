"""Names files of weights by their content.

Decision: a digest of contents, so that a model that was trained further under the same name is another one
and one that was moved is the same. Of files too large to read whole, size, beginning and samples are taken.
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
    """16 hex digits over the contents of files in this order, and their names unless `names` is False. Raises
    ChatError for a file that cannot be read."""
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
