"""Display of the running node, and the host's cancel button."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import Any

import comfy.model_management as memory
import comfy.utils
from comfy_execution.progress import get_progress_state
from comfy_execution.utils import get_executing_context
from PIL import Image
from server import PromptServer

from ...backend.core.errors import Cancelled, GeneratorError

PROGRESS_UNITS = 1000
PREVIEW_PIXELS = 512
JPEG_QUALITY = 95
"""JPEG quality of the host's previews."""
Preview = tuple[str, Image.Image, int | None]
StepListener = Callable[[float, Preview | None], None]
_step_listener: ContextVar[StepListener | None] = ContextVar("interleave_step_listener", default=None)


def publish(event: str, message: dict[str, Any], to_all: bool = False) -> None:
    """Send a message to the browser of the prompt, if there is one, or to all browsers."""
    server = getattr(PromptServer, "instance", None)
    if server is not None and (to_all or server.client_id is not None):
        server.send_sync(event, message, None if to_all else server.client_id)


def running_prompt() -> str:
    """Return the id of the running prompt, "" outside of one."""
    context = get_executing_context()
    return context.prompt_id if context else ""


def running_node() -> str:
    """Return the id of the running node in the graph, "" outside of a prompt."""
    context = get_executing_context()
    return str(context.node_id) if context else ""


def is_running(prompt: str) -> bool:
    """Return whether the prompt with this id is running."""
    server = getattr(PromptServer, "instance", None)
    if server is None:
        return False
    queue = server.prompt_queue
    running, _ = getattr(queue, "get_current_queue_volatile", queue.get_current_queue)()
    return any(item[1] == prompt for item in running)


class NodeProgress:
    """Shows a bar, a preview image and a line of text on the running node."""

    def __init__(self) -> None:
        context = get_executing_context()
        self._node = context.node_id if context else None
        self._bar = comfy.utils.ProgressBar(PROGRESS_UNITS, node_id=self._node)

    @property
    def node(self) -> str:
        """Id of the node in the browser; inside an expansion, that of the visible node."""
        if self._node is None:
            return ""
        return str(get_progress_state().dynprompt.get_display_node_id(self._node))

    def show(self, share: float, preview: Preview | None = None) -> None:
        """Set the bar to a share in 0..1."""
        try:
            self._bar.update_absolute(int(share * PROGRESS_UNITS), PROGRESS_UNITS, preview)
        except memory.InterruptProcessingException:
            # Do not stop here: the flag stays set, and the next image or reply ends the run in order.
            memory.interrupt_current_processing()

    def say(self, text: str) -> None:
        """Show a line of text on the node, which replaces the previous one."""
        server = getattr(PromptServer, "instance", None)
        if server is not None and self._node is not None:
            server.send_progress_text(text, self._node, server.client_id)


def as_preview(image: Image.Image) -> Preview:
    """Return an image as a preview for the host's progress bar."""
    return ("JPEG", image, PREVIEW_PIXELS)


def small_preview(preview: Preview, pixels: int) -> tuple[Preview, int]:
    """Return the preview scaled down to `pixels` on its longer side, and its size in bytes when sent.

    No size is given to the host, which would enlarge a smaller image.
    """
    image = preview[1].convert("RGB")
    image.thumbnail((pixels, pixels))
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return ("JPEG", image, None), buffer.tell()


@contextmanager
def listening_to_steps(listener: StepListener) -> Iterator[None]:
    """Report the share (0..1) and preview of sampling to `listener` instead of moving the node's bar."""
    token = _step_listener.set(listener)
    try:
        yield
    finally:
        _step_listener.reset(token)


def report_step(share: float, preview: Preview | None) -> None:
    """Report the progress of sampling to the listener.

    Raises:
        Cancelled: The user pressed cancel.
    """
    listener = _step_listener.get()
    if listener is not None:
        listener(share, preview)
    stop_if_interrupted()


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
