"""What the running node shows: bar, preview image, a line of text, and messages for a front end of its own.

Decision: sampling reports to whoever listens, so that a loop shows one bar over all of its tries. Everything
goes to the browser that queued the prompt, and to no other.
"""

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

from .interrupt import stop_if_interrupted

PROGRESS_UNITS = 1000
PREVIEW_PIXELS = 512
JPEG_QUALITY = 95
"""The host's own for previews."""

Preview = tuple[str, Image.Image, int | None]
StepListener = Callable[[float, Preview | None], None]

_step_listener: ContextVar[StepListener | None] = ContextVar("interleave_step_listener", default=None)


def publish(event: str, message: dict[str, Any]) -> None:
    """Send a message to the front end; nobody gets it if the prompt came from no browser."""
    server = getattr(PromptServer, "instance", None)
    if server is not None and server.client_id is not None:
        server.send_sync(event, message, server.client_id)


def running_prompt() -> str:
    """Id of the prompt whose node is running here; empty outside of one."""
    context = get_executing_context()
    return context.prompt_id if context else ""


def is_running(prompt: str) -> bool:
    """Whether the prompt of this id is being carried out."""
    server = getattr(PromptServer, "instance", None)
    if server is None:
        return False
    queue = server.prompt_queue
    running, _ = getattr(queue, "get_current_queue_volatile", queue.get_current_queue)()
    return any(item[1] == prompt for item in running)


class NodeProgress:
    """Bar, preview image and line of text on the node that is running."""

    def __init__(self) -> None:
        context = get_executing_context()
        self._node = context.node_id if context else None
        self._bar = comfy.utils.ProgressBar(PROGRESS_UNITS, node_id=self._node)

    @property
    def node(self) -> str:
        """Id of the node as the browser knows it (inside an expansion: of the node that the user sees)."""
        if self._node is None:
            return ""
        return str(get_progress_state().dynprompt.get_display_node_id(self._node))

    def show(self, share: float, preview: Preview | None = None) -> None:
        """Set the bar to a share of 0..1."""
        try:
            self._bar.update_absolute(int(share * PROGRESS_UNITS), PROGRESS_UNITS, preview)
        except memory.InterruptProcessingException:
            # Showing is not the place to stop: the flag stays set, and the next draw or reply ends the run in
            # order.
            memory.interrupt_current_processing()

    def say(self, text: str) -> None:
        """Show a line of text on the node, replacing the one before."""
        server = getattr(PromptServer, "instance", None)
        if server is not None and self._node is not None:
            server.send_progress_text(text, self._node, server.client_id)


def as_preview(image: Image.Image) -> Preview:
    """An image as the host's progress wants it."""
    return ("JPEG", image, PREVIEW_PIXELS)


def small_preview(preview: Preview, pixels: int) -> tuple[Preview, int]:
    """The preview with its longer side cut to `pixels`, and the bytes that the host will send for it.

    Given a size, the host would enlarge a smaller one; this one is sent as it is.
    """
    image = preview[1].convert("RGB")
    image.thumbnail((pixels, pixels))
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return ("JPEG", image, None), buffer.tell()


@contextmanager
def listening_to_steps(listener: StepListener) -> Iterator[None]:
    """While inside, sampling reports its share (0..1) and preview here instead of moving the node's bar
    itself."""
    token = _step_listener.set(listener)
    try:
        yield
    finally:
        _step_listener.reset(token)


def report_step(share: float, preview: Preview | None) -> None:
    """Report to the listener how far the sampling is; raises Cancelled if the user pressed cancel."""
    listener = _step_listener.get()
    if listener is not None:
        listener(share, preview)
    stop_if_interrupted()
