"""What a node hands to the host: its own display, and outputs that have nothing.

Decision: images shown on a node live in the host's temporary folder; what must last is in the journal, and
what is in the journal is shown from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from comfy_api.latest import io, ui
from comfy_execution.graph_utils import ExecutionBlocker

from .folders import output_folder


def shown_images(batches: Sequence[torch.Tensor], node: type[io.ComfyNode]) -> dict[str, Any]:
    """The node's own display of these images, in the host's temporary folder."""
    results = [result for batch in batches for result in ui.PreviewImage(batch, cls=node).values]
    return {"images": results, "animated": (False,)}


def shown_files(files: Sequence[Path]) -> dict[str, Any]:
    """The node's own display of image files that lie below the host's output folder."""
    folders = [file.parent.relative_to(output_folder()).as_posix() for file in files]
    results = [
        {"filename": file.name, "subfolder": folder, "type": "output"}
        for file, folder in zip(files, folders, strict=True)
    ]
    return {"images": results, "animated": (False,)}


def nothing() -> ExecutionBlocker:
    """Value of an output that has nothing: what hangs on it is left out instead of failing."""
    return ExecutionBlocker(None)
