"""A judge: a chat backend that answers each question once, with a file of cached answers.

The key of an answer covers everything that determines it: the judge, the settings, all text and pixels, and
its number among answers to the same question (`repeat`). A question that several threads ask at the same time
is sent once. An attempt ends at a deadline even if the backend keeps generating. If its answer is unusable,
there is a second attempt; if that fails too, the error is raised and not cached. Server failures are retried
by the client (remote/call.py) and not again here.

Judging a benchmark takes about ten thousand questions, so each is asked once. Scoring again with the same
judge costs nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from ...backend.core.errors import ChatError, ServerError, boundary
from ...backend.core.pictures import Picture
from ...backend.core.remote.call import check_seconds
from ...backend.core.seams.chat_model import ChatModel, Message, ReplySettings
from ...backend.models.chat import CHAT_BACKENDS, open_chat
from ...training.content_cache import ContentCache, key_of

DEADLINE = 180.0
MAX_ATTEMPTS = 2
THOUGHT = re.compile(r"^\s*(?:<think>)?.*?</think>\s*", re.DOTALL)


class BenchmarkJudge:
    """Answers questions about texts and images. It can be used by several threads.

    Attributes:
        deadline: Timeout of an attempt, in seconds.
        asked: Number of questions sent to the model, including failed attempts.
        remembered: Number of cached answers that were used.
    """

    def __init__(self, chat: ChatModel, answers: Path, deadline: float = DEADLINE) -> None:
        """Open the cache of answers.

        Args:
            chat: The model.
            answers: File of the cache.
            deadline: Timeout of an attempt, in seconds.

        Raises:
            SettingsError: If the file cannot be used.
        """
        check_seconds(deadline=deadline)
        self._chat, self.deadline = chat, deadline
        self._answers = ContentCache(answers, "The judge's answers")
        self._under_way: dict[str, Future[str]] = {}
        self._lock = threading.Lock()
        self.asked = self.remembered = 0

    @property
    def identity(self) -> str:
        """Name of the judge that is stored with figures."""
        return self._chat.identity

    def ask(self, messages: Sequence[Message], settings: ReplySettings, repeat: int = 0) -> str:
        """Return the answer, without the model's reasoning.

        Args:
            messages: The question.
            settings: Sampling settings.
            repeat: 0 for the first answer; each higher number samples another answer, with that seed.

        Raises:
            ChatError: If MAX_ATTEMPTS attempts gave no usable answer.
            ServerError: If the server does not respond.
            SettingsError: If the answer cannot be stored.
        """
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
        """Return the cache key of an answer, which covers everything that determines it."""
        parts: list[str | None] = [self.identity, settings.key()]
        for message in messages:
            parts.append(None)
            parts.append(message.role)
            for part in message.content:
                parts += ("picture", part.digest) if isinstance(part, Picture) else ("text", part)
        return key_of(*parts)

    def _answer(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        remaining = MAX_ATTEMPTS
        while True:
            remaining -= 1
            with self._lock:
                self.asked += 1
            try:
                return self._attempt(messages, settings)
            except ServerError:
                raise  # its client has already retried
            except ChatError:
                if not remaining:
                    raise

    def _attempt(self, messages: Sequence[Message], settings: ReplySettings) -> str:
        until = time.monotonic() + self.deadline

        def look_up(_: str) -> None:
            if time.monotonic() > until:
                raise ChatError(
                    f"The judge did not finish its answer within {self.deadline:g} s.",
                    "Increase the deadline, ask fewer questions in parallel, or use a faster judge.",
                )

        with boundary(ChatError, "The judge"):
            reply = self._chat.reply(messages, settings, look_up)
        answer = THOUGHT.sub("", reply.text, count=1).strip()
        thinks = answer.startswith("<think>") or (reply.thinking and "</think>" not in reply.text)
        if thinks or not answer:
            raise ChatError(
                f"The judge wrote {reply.tokens} tokens without "
                f"{'an answer after its reasoning' if thinks else 'an answer'}.",
                "Start its server with reasoning disabled, or allow more tokens.",
            )
        return answer


def open_judge(spec: str, answers: Path, deadline: float = DEADLINE, **options: object) -> BenchmarkJudge:
    """Open a judge.

    Args:
        spec: `openai:MODEL@URL`, `transformers:FOLDER`, ...
        answers: File of the cached answers.
        deadline: Timeout of one attempt to answer, in seconds.
        options: Options of the backend; `None` if not set.

    Raises:
        SettingsError: If the name or an option is invalid.
        ChatError: If the backend cannot be opened.
    """
    if "deadline" in CHAT_BACKENDS.option_names(spec):
        options = {"deadline": deadline, **options}
    return BenchmarkJudge(open_chat(spec, **options), answers, deadline)
