"""The host's cancel button.

Interrupts are passed on as the backend's `Cancelled`, which the loop records, and become the host's own
exception again at the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import comfy.model_management as memory

from ...backend.errors import Cancelled, GeneratorError

STOPPED = "Cancelled in ComfyUI."


def interrupted() -> bool:
    """Return whether the user pressed cancel."""
    return memory.processing_interrupted()


def stop_if_interrupted() -> None:
    """Stop if the user pressed cancel. The host's flag stays set; the node clears it.

    Raises:
        Cancelled: The user pressed cancel.
    """
    if memory.processing_interrupted():
        raise Cancelled(STOPPED)


@contextmanager
def host_interrupts() -> Iterator[None]:
    """Turn Cancelled from the backend into the host's own interrupt, so that the prompt ends as cancelled."""
    try:
        yield
    except Cancelled as stopped:
        memory.throw_exception_if_processing_interrupted()
        raise memory.InterruptProcessingException() from stopped


@contextmanager
def drawing() -> Iterator[None]:
    """Turn the host's interrupt into Cancelled, and a lack of GPU memory into a helpful error.

    Raises:
        Cancelled: The user pressed cancel.
        GeneratorError: The image does not fit into memory.
    """
    try:
        yield
    except memory.InterruptProcessingException as interrupt:
        memory.interrupt_current_processing()
        raise Cancelled(STOPPED) from interrupt
    except memory.OOM_EXCEPTION as error:
        memory.soft_empty_cache()
        raise GeneratorError(
            "Step Generator: the image does not fit into the GPU's memory.",
            "Use a smaller width and height, or start ComfyUI with --lowvram.",
        ) from error
