"""Where a run of the host keeps its journal: one folder a request below the host's output folder.

Decision: the name is made from the request, not asked for. The same request finds its folder again, so a run continues
after a crash or a cancel, and a changed setting repeats only what it changes; nothing a workflow from a stranger says
can lead the path anywhere else.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from ..backend.types import Request

PARENT = "interleave-thinker"
LONGEST_NAME = 40


def run_folder(output: Path, request: Request) -> Path:
    """The folder of this request's runs; not created."""
    content = hashlib.blake2b(request.text.encode(), digest_size=5)
    for image in request.images:
        content.update(image.digest.encode())
    words = re.sub(r"[^a-z0-9]+", "-", request.text.lower())[:LONGEST_NAME].strip("-")
    return output / PARENT / f"{words or 'story'}-{content.hexdigest()}"
