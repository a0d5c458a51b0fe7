"""Between the bridge and the judge: how often an evaluator may ask the same, and when to give up.

Decisions. An evaluator that cannot read an answer asks again, and from the same answer it would learn nothing
new: from the third time on it gets another one, drawn. (The first two are alike, so that two items which
happen to ask the same are judged alike.) Evaluators ask on for hours where a judge is down or talks nonsense,
so after a few such questions the bridge says why it has given up, once, and refuses the rest. A judge that is
down may come back: every REST_SECONDS one question is put to it, and its answer ends the trouble. At its end
what the judge is answering is waited for, since it is paid for and kept; what still waits for its turn is
refused.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ....backend.errors import ChatError, InterleaveError, SettingsError, boundary
from ..judge import BenchmarkJudge
from .request import BridgeRequest

ALIKE = 2
MAX_ASKED = 8
MAX_FAILED = 3
REST_SECONDS = 30.0
"""Between questions to a judge that is down."""


class JudgeUnavailable(InterleaveError):
    """Why the judging cannot go on; `seconds` until it may again, None if it will not by itself."""

    def __init__(self, message: str, hint: str = "", seconds: float | None = None) -> None:
        super().__init__(message, hint)
        self.seconds = seconds


class JudgeClient:
    """Puts questions to a judge, `parallel` at a time; what it has asked is counted anew after `begin`."""

    def __init__(self, judge: BenchmarkJudge, parallel: int) -> None:
        self._judge = judge
        self._slots = threading.BoundedSemaphore(parallel)
        self._lock = threading.Condition()
        self._asked: Counter[str] = Counter()
        self._failed = 0
        self._under_way = 0
        self._last = time.monotonic()
        self._is_ending = False
        self.trouble: JudgeUnavailable | None = None
        self._ask_again_at: float | None = None
        """By the monotonic clock; None unless the trouble is a judge that is down."""

    @property
    def idle_seconds(self) -> float:
        """Since the last question was answered; 0.0 while one is under way."""
        with self._lock:
            return 0.0 if self._under_way else time.monotonic() - self._last

    def begin(self) -> None:
        """From here on an evaluator asks everything for the first time."""
        with self._lock:
            self._asked.clear()
            self._failed = 0
            self._last = time.monotonic()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around a question and the sending of its answer: `finish` waits for its end."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                self._last = time.monotonic()
                self._lock.notify_all()

    def finish(self, seconds: float) -> int:
        """Ask nothing more, and wait at most so long for what is under way; how many are then left."""
        with self._lock:
            self._is_ending = True
            self._lock.wait_for(lambda: not self._under_way, seconds)
            return self._under_way

    def answer(self, question: BridgeRequest) -> str:
        """The judge's answer; raises ChatError, JudgeUnavailable."""
        with self._slots:
            return self._answer(question)

    def _answer(self, question: BridgeRequest) -> str:
        key = self._judge.key(question.messages, question.settings)
        with self._lock:
            if self._is_ending:
                raise JudgeUnavailable(
                    "The bridge is ending.", "Start it again: answers that it has are kept."
                )
            self._check_trouble()
            times = self._asked[key]
        if times >= MAX_ASKED:
            known = self._judge.ask(question.messages, question.settings)
            raise self._give_up(
                f"The evaluator asked the same {MAX_ASKED} times and could not read any answer of the judge, "
                f"such as {known[:120]!r}.",
                "Take another judge: answers of this one are not in the form that was asked for.",
            )
        try:
            with boundary(ChatError, "The judge"):
                found = self._judge.ask(question.messages, question.settings, max(0, times + 1 - ALIKE))
        except ChatError as error:
            with self._lock:
                self._failed += 1
            if self._failed >= MAX_FAILED:
                raise self._rest(error) from error
            raise
        except SettingsError as error:
            raise self._give_up(error.message, error.hint) from error
        with self._lock:
            self._failed = 0
            if self._ask_again_at is not None:
                self.trouble = self._ask_again_at = None
            # Only now: who has asked again while an answer was on its way has not read one yet.
            self._asked[key] += 1
        return found

    def _check_trouble(self) -> None:
        """Raise the trouble there is, unless it is time to put a question to a judge that was down."""
        if self.trouble is None:
            return
        left = None if self._ask_again_at is None else self._ask_again_at - time.monotonic()
        if left is None or left > 0:
            raise _copy(self.trouble, left)
        self._ask_again_at = time.monotonic() + REST_SECONDS

    def _rest(self, error: ChatError) -> JudgeUnavailable:
        """Put no question to the judge for a while."""
        with self._lock:
            if self.trouble is None:
                self.trouble = JudgeUnavailable(f"The judge fails: {error.message}", error.hint, REST_SECONDS)
                self._ask_again_at = time.monotonic()
            if self._ask_again_at is not None:
                self._ask_again_at = time.monotonic() + REST_SECONDS
            return _copy(self.trouble)

    def _give_up(self, message: str, hint: str) -> JudgeUnavailable:
        with self._lock:
            if self.trouble is None or self._ask_again_at is not None:
                self.trouble, self._ask_again_at = JudgeUnavailable(message, hint), None
            return _copy(self.trouble)


def _copy(trouble: JudgeUnavailable, seconds: float | None = None) -> JudgeUnavailable:
    """Return a trouble to raise. If one object were raised for every question, its traceback would keep all
    of them in memory."""
    return JudgeUnavailable(trouble.message, trouble.hint, trouble.seconds if seconds is None else seconds)
