"""The host's cancel button.

Decision: interrupts travel as the backend's `Cancelled`, which the loop knows and journals, and become the
host's own exception again at the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import comfy.model_management as memory

from ...backend.errors import Cancelled, GeneratorError

STOPPED = "Stopped from ComfyUI."


def interrupted() -> bool:
    """Whether the user pressed cancel."""
    return memory.processing_interrupted()


def stop_if_interrupted() -> None:
    """Raise Cancelled if the user pressed cancel; the host's flag stays set for the node to clear."""
    if memory.processing_interrupted():
        raise Cancelled(STOPPED)


@contextmanager
def host_interrupts() -> Iterator[None]:
    """Inside a node: Cancelled from the backend becomes the host's own interrupt, so that the prompt ends as
    cancelled."""
    try:
        yield
    except Cancelled as stopped:
        memory.throw_exception_if_processing_interrupted()
        raise memory.InterruptProcessingException() from stopped


@contextmanager
def drawing() -> Iterator[None]:
    """Inside a draw: the host's interrupt becomes Cancelled, which the loop knows, and a full card an error
    that says what to do."""
    try:
        yield
    except memory.InterruptProcessingException as interrupt:
        memory.interrupt_current_processing()
        raise Cancelled(STOPPED) from interrupt
    except memory.OOM_EXCEPTION as error:
        memory.soft_empty_cache()
        raise GeneratorError(
            "Step Generator: the image does not fit into the memory of the card.",
            "Choose a smaller width and height, or start ComfyUI with --lowvram.",
        ) from error
