"""What a node hands to the host: its own display, and outputs that have nothing.

Decision: images shown on a node live in the host's temporary folder; what must last is in the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from comfy_api.latest import io, ui
from comfy_execution.graph_utils import ExecutionBlocker


def shown_images(batches: Sequence[torch.Tensor], node: type[io.ComfyNode]) -> dict[str, Any]:
    """The node's own display of these images, kept in the host's temporary folder."""
    results = [result for batch in batches for result in ui.PreviewImage(batch, cls=node).values]
    return {"images": results, "animated": (False,)}


def nothing() -> ExecutionBlocker:
    """Value of an output that has nothing: what hangs on it is left out instead of failing."""
    return ExecutionBlocker(None)
