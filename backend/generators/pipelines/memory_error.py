"""The error of a pipeline that ran out of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import OutOfMemory, is_out_of_memory


def raise_if_out_of_memory(error: RuntimeError, arguments: Mapping[str, Any]) -> None:
    """Raise an error with advice if memory did not suffice, and free the cached GPU memory.

    Args:
        error: The error of torch.
        arguments: The arguments of the pipeline.

    Raises:
        OutOfMemory: The error is about memory.
    """
    import torch

    if not is_out_of_memory(error):
        return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    width, height = arguments.get("width"), arguments.get("height")
    area = f"{width}x{height}" if width else "the pipeline's own size"
    reason = " ".join(str(error).split())[:200]
    raise OutOfMemory(
        f"Out of memory while generating at {area} ({reason}).",
        "Reduce the size, set dtype=bfloat16 or device=cpu, or use a smaller model.",
    ) from error
