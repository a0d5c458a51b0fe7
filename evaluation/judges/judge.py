"""A judge: a chat backend that is asked each question once, with the answers in a file.

Decisions. An answer's key is all that determines it: the judge, the settings, every word and pixel that it is
shown, and its number among answers to the same question (`repeat`). What is asked by several at the same
moment is asked once. A try ends at a deadline, whatever the backend does meanwhile, and one without a usable
answer is followed by a second; what fails then is an error and is not kept. A server that does not answer is
asked again by its client (remote/retrying.py), and not a second time here.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from ...backend.chat.protocol import ChatModel, Message, ReplySettings
from ...backend.errors import ChatError, ServerError, boundary
from ...backend.pictures import Picture
from ...training.content_cache import ContentCache, key_of

DEADLINE = 180.0
MAX_ATTEMPTS = 2
THOUGHT = re.compile(r"^\s*(?:<think>)?.*?</think>\s*", re.DOTALL)


class BenchmarkJudge:
    """Answers questions of texts and pictures; safe to call from several threads. `asked`: questions put to
    the model, failed tries among them; `remembered`: answers that were known."""

    def __init__(self, chat: ChatModel, answers: Path, deadline: float = DEADLINE) -> None:
        """`answers`: the file in which they are kept; `deadline`: seconds of a try. Raises SettingsError."""
        self._chat, self.deadline = chat, deadline
        self._answers = ContentCache(answers, "The judge's answers")
        self._under_way: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self.asked = self.remembered = 0

    @property
    def identity(self) -> str:
        """The judge's name, as it stands beside figures."""
        return self._chat.identity

    def ask(self, messages: Sequence[Message], settings: ReplySettings, repeat: int = 0) -> str:
        """The answer, without its reasoning. Each `repeat` above 0 is another answer, drawn with that seed.
        Raises ChatError after MAX_ATTEMPTS attempts, ServerError, SettingsError where the answers cannot be
        kept."""
        settings = settings.seeded(repeat)
        key = self.key(messages, settings)
        with self._lock:
            known = self._answers.text(key)
            if known is not None:
                self.remembered += 1
                return known
            waited_for = self._under_way.get(key)
            mine: Future[str] = Future()
            if waited_for is None:
                self._under_way[key] = mine
        if waited_for is not None:
            return waited_for.result()
        try:
            answer = self._answer(messages, settings)
            self._answers.keep_text(key, answer)
            mine.set_result(answer)
            return answer
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._under_way[key]

    def close(self) -> None:
        """Close the file of answers."""
        self._answers.close()

    def key(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        """What names the answer: all that determines it."""
        parts: list[str | None] = [self.identity, settings.key()]
        for message in messages:
            parts.append(None)
            parts.append(message.role)
            for part in message.content:
                parts += ("picture", part.digest) if isinstance(part, Picture) else ("text", part)
        return key_of(*parts)

    def _answer(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        tries = MAX_ATTEMPTS
        while True:
            tries -= 1
            with self._lock:
                self.asked += 1
            try:
                return self._tried(messages, settings)
            except ServerError:
                raise  # its client has asked it again where that can help
            except ChatError:
                if not tries:
                    raise

    def _tried(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        until = time.monotonic() + self.deadline

        def look_up(_: str) -> None:
            if time.monotonic() > until:
                raise ChatError(
                    f"The judge did not finish its answer within {self.deadline:g} s.",
                    "Give it more time, fewer questions at once, or take a faster one.",
                )

        with boundary(ChatError, "The judge"):
            reply = self._chat.reply(messages, settings, look_up)
        answer = THOUGHT.sub("", reply.text, count=1).strip()
        thinks = answer.startswith("<think>") or (reply.thinking and "</think>" not in reply.text)
        if thinks or not answer:
            raise ChatError(
                f"The judge gave no answer{' but thoughts' * bool(thinks)} in {reply.tokens} tokens.",
                "Start its server without thinking, or let it write more.",
            )
        return answer
