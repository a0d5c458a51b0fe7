"""Renders a checkpoint's chat template for agents and samples, with limits on time, memory and length.

Reason: a template comes with a checkpoint from anywhere and is a program. It is rendered by transformers' own
function, in a process of its own (template_worker.py) that is ended when a conversation takes too long, and
started again for the next. trl renders the rows of a training itself, without these limits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ChatError
from ..machine.environment import for_a_child

SECONDS = 20.0
"""Longest time for one conversation; those of this package take milliseconds."""
START_SECONDS = 180.0
"""The first conversation waits for the libraries too."""
WATCHDOG_SECONDS = 5.0
"""Time that the process has beyond the limit, to end itself if this process was killed."""
MAX_RENDERED_LENGTH = 16_000_000
"""Characters of a rendered conversation."""
BYTES_A_CHARACTER = 12
"""Of JSON: a pair of escapes."""
WORKER = Path(__file__).with_name("template_worker.py")
HINT = "Take chat_template.jinja from the base model's own folder."


class TemplateRenderer:
    """A process that renders templates, started when it is first needed. Safe to call from several
    threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._owner = 0
        self._is_new = True

    def start(self) -> None:
        """Start the process, unless it runs; it reads its libraries while the caller goes on. Raises
        ChatError."""
        with self._lock:
            self._running()

    def render(self, template: str, conversation: Any, asks: bool, tokens: dict[str, Any]) -> str:
        """The text of a conversation. Raises ChatError for a template that fails or goes beyond a limit."""
        asked = {"template": template, "conversation": conversation, "asks": asks, "tokens": tokens}
        limits = {"longest": MAX_RENDERED_LENGTH, "seconds": self._seconds + WATCHDOG_SECONDS}
        line = json.dumps({**asked, **limits}, default=lambda one: f"<{type(one).__name__}>")
        with self._lock:
            child = self._running()
            limit = START_SECONDS + self._seconds if self._is_new else self._seconds
            began = time.monotonic()
            timer = threading.Timer(limit, child.kill)
            timer.daemon = True
            timer.start()
            said = ""
            try:
                assert child.stdin is not None and child.stdout is not None
                child.stdin.write(f"{line}\n")
                child.stdin.flush()
                said = child.stdout.readline(MAX_RENDERED_LENGTH * BYTES_A_CHARACTER)
            except OSError:
                said = ""
            finally:
                timer.cancel()
                if not said.endswith("\n"):
                    self._end()
            self._is_new = False
        if not said.endswith("\n"):
            late = time.monotonic() - began >= limit
            how = f"takes more than {limit:g} s" if late else "ended the process that renders it"
            raise ChatError(f"The checkpoint's chat template {how}.", HINT)
        found = json.loads(said)
        if "text" not in found:
            raise ChatError(f"The checkpoint's chat template failed: {found['problem']}.", HINT)
        return found["text"]

    def stop(self) -> None:
        """End the process; the next conversation starts another."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[str]:
        child = self._child
        # A process that was forked must not read what this one is answered.
        if child is not None and child.poll() is None and self._owner == os.getpid():
            return child
        if self._owner == os.getpid():
            self._end()
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env=for_a_child("HF_", TRANSFORMERS_VERBOSITY="error"),
                # A Ctrl+C in the terminal is for us.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise ChatError(f"Chat templates cannot be rendered ({error.strerror or error}).") from error
        self._child, self._owner, self._is_new = child, os.getpid(), True
        assert child.stdin is not None
        with suppress(OSError):  # it has ended already, which the first conversation tells
            child.stdin.write(json.dumps([str(path) for path in sys.path]) + "\n")
            child.stdin.flush()
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not yet written to a process that has ended
                    pipe.close()


RENDERER = TemplateRenderer()
"""For all checkpoints of this process; its pipe closes with this process, and that ends it."""


def rendered(processor: Any, conversation: Sequence[Any], asks: bool = True) -> str:
    """The text of a conversation by a processor's chat template, as its `apply_chat_template` gives it.

    Args:
        processor: The library's processor, with a tokenizer and a template.
        conversation: Turns with `role` and `content`.
        asks: Whether the beginning of the answer follows.

    Returns:
        The text, not tokenized.

    Raises:
        ChatError: The template fails, or goes beyond a limit of time, memory or length.
    """
    template = processor.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str):
        raise ChatError("The checkpoint has several chat templates and none is the default one.", HINT)
    tokens = {
        name: [str(one) for one in token] if isinstance(token, list | tuple) else str(token)
        for name, token in processor.tokenizer.special_tokens_map.items()
    }
    return RENDERER.render(template, list(conversation), asks, tokens)
