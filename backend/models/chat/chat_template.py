"""Renders a checkpoint's chat template for agents and samples, with limits on time, memory and length.

A template comes with a checkpoint from anywhere and is a program. It is rendered by the function of
transformers, in a separate process (template_worker.py) that is ended if a conversation takes too long, and
started again for the next. For training, trl renders the rows itself, without these limits.
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

from ...core.errors import ChatError
from ...core.machine.environment import for_a_child
from ...core.seams.chat_model import THOUGHT

SECONDS = 20.0
"""Time limit of one conversation in seconds; those of this package take milliseconds."""
START_SECONDS = 180.0
"""Additional time for the first conversation, which waits for the imports."""
WATCHDOG_SECONDS = 5.0
"""Time after the limit, in seconds, until the process ends itself if this process was killed."""
MAX_RENDERED_LENGTH = 16_000_000
"""Maximum length, in characters, of a rendered conversation."""
BYTES_A_CHARACTER = 12
"""Maximum number of bytes of a character in JSON: a pair of escapes."""
WORKER = Path(__file__).with_name("template_worker.py")
HINT = "Use chat_template.jinja from the base model's folder."


class TemplateRenderer:
    """A process that renders templates, started on demand. It can be called from several threads."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._owner = 0
        self._is_new = True

    def start(self) -> None:
        """Start the process unless it is running. It imports its libraries in the background.

        Raises:
            ChatError: It cannot be started.
        """
        with self._lock:
            self._running()

    def render(self, template: str, conversation: Any, asks: bool, tokens: dict[str, Any]) -> str:
        """Return the text of a conversation.

        Args:
            template: The chat template.
            conversation: Turns with `role` and `content`.
            asks: Whether the beginning of the answer follows.
            tokens: Special tokens by name.

        Raises:
            ChatError: The template fails or exceeds a limit.
        """
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
            reply = ""
            try:
                assert child.stdin is not None and child.stdout is not None
                child.stdin.write(f"{line}\n")
                child.stdin.flush()
                reply = child.stdout.readline(MAX_RENDERED_LENGTH * BYTES_A_CHARACTER)
            except OSError:
                reply = ""
            finally:
                timer.cancel()
                if not reply.endswith("\n"):
                    self._end()
            self._is_new = False
        if not reply.endswith("\n"):
            late = time.monotonic() - began >= limit
            how = f"took more than {limit:g} s" if late else "ended the process that renders it"
            raise ChatError(f"The checkpoint's chat template {how}.", HINT)
        found = json.loads(reply)
        if "text" not in found:
            raise ChatError(f"The checkpoint's chat template failed: {found['problem']}.", HINT)
        return found["text"]

    def stop(self) -> None:
        """End the process. The next conversation starts another."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[str]:
        child = self._child
        # A forked process must not read the replies of this one.
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
                # A Ctrl+C in the terminal must reach only this process.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise ChatError(
                f"Cannot start the process that renders chat templates ({error.strerror or error}).",
                "Check the Python installation.",
            ) from error
        self._child, self._owner, self._is_new = child, os.getpid(), True
        assert child.stdin is not None
        with suppress(OSError):  # if it has ended already, the first conversation reports it
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
                with suppress(OSError):  # the buffer of a process that has ended
                    pipe.close()


RENDERER = TemplateRenderer()
"""Renderer for all checkpoints of this process. Its pipe closes with this process, which ends it."""


def rendered(processor: Any, conversation: Sequence[Any], asks: bool = True) -> str:
    """Return the text of a conversation, as the processor's `apply_chat_template` returns it.

    Args:
        processor: The library's processor, with a tokenizer and a template.
        conversation: Turns with `role` and `content`.
        asks: Whether the beginning of the answer follows.

    Returns:
        The text, not tokenized.

    Raises:
        ChatError: The template fails, or exceeds a limit of time, memory or length.
    """
    template = processor.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str):
        raise ChatError("The checkpoint has several chat templates, but none is named default.", HINT)
    tokens = {
        name: [str(one) for one in token] if isinstance(token, list | tuple) else str(token)
        for name, token in processor.tokenizer.special_tokens_map.items()
    }
    return RENDERER.render(template, list(conversation), asks, tokens)


def opens_thought(prompt: str) -> bool:
    """Return whether a rendered prompt ends in a <think> that the reply has to close."""
    return prompt.rstrip().endswith(THOUGHT)


def as_read(prompt: str, text: str) -> str:
    """Return the reply to be parsed, with the <think> that the prompt had opened."""
    return f"{THOUGHT}{text}" if opens_thought(prompt) else text
