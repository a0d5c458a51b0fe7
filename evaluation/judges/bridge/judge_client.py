"""Connects the bridge to the judge: decides when to repeat a question, and when to give up.

An evaluator that cannot read an answer asks again, and the same answer would not help it. From the third time
on it gets a newly sampled answer. The first two answers are equal, so that two items with the same question
are judged alike. Evaluators keep asking for hours if a judge is down or answers nonsense. After a few such
questions the bridge therefore gives up with one explanation and rejects the rest. A judge that is down can
recover: every REST_SECONDS one question is sent to it, and an answer ends the outage. On shutdown the bridge
waits for running answers, because they are paid for and cached, and rejects questions that still wait.
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
"""Pause between questions to a judge that is down, in seconds."""


class JudgeUnavailable(InterleaveError):
    """The judge cannot be used.

    Attributes:
        seconds: Time until a retry can help; `None` if it cannot.
    """

    def __init__(self, message: str, hint: str = "", seconds: float | None = None) -> None:
        super().__init__(message, hint)
        self.seconds = seconds


class JudgeClient:
    """Sends questions to a judge, `parallel` at a time, and counts repetitions since the last `begin`."""

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
        """Time of the next attempt on the monotonic clock; `None` unless the judge is down."""

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last answer; 0.0 while a question is being answered."""
        with self._lock:
            return 0.0 if self._under_way else time.monotonic() - self._last

    def begin(self) -> None:
        """Reset the counts before an evaluator starts."""
        with self._lock:
            self._asked.clear()
            self._failed = 0
            self._last = time.monotonic()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Mark a question as running until its answer is sent; `finish` waits for it."""
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
        """Reject new questions, wait at most `seconds` for running ones, and return how many still run."""
        with self._lock:
            self._is_ending = True
            self._lock.wait_for(lambda: not self._under_way, seconds)
            return self._under_way

    def answer(self, question: BridgeRequest) -> str:
        """Ask the judge.

        Raises:
            ChatError: If the judge fails.
            JudgeUnavailable: If the bridge has given up, waits for the judge to recover, or is ending.
        """
        with self._slots:
            return self._answer(question)

    def _answer(self, question: BridgeRequest) -> str:
        key = self._judge.key(question.messages, question.settings)
        with self._lock:
            if self._is_ending:
                raise JudgeUnavailable(
                    "The judge bridge is shutting down.",
                    "Start it again to continue; its answers are cached.",
                )
            self._check_trouble()
            times = self._asked[key]
        if times >= MAX_ASKED:
            known = self._judge.ask(question.messages, question.settings)
            raise self._give_up(
                f"The evaluator asked the same question {MAX_ASKED} times because it could not read the "
                f"judge's answers, such as {known[:120]!r}.",
                "Use another judge: this one does not answer in the requested format.",
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
            # Count only now: an evaluator that repeats a question while it is being answered has not read an
            # answer yet.
            self._asked[key] += 1
        return found

    def _check_trouble(self) -> None:
        """Raise the current error, unless it is time to ask a judge that was down again."""
        if self.trouble is None:
            return
        left = None if self._ask_again_at is None else self._ask_again_at - time.monotonic()
        if left is None or left > 0:
            raise _copy(self.trouble, left)
        self._ask_again_at = time.monotonic() + REST_SECONDS

    def _rest(self, error: ChatError) -> JudgeUnavailable:
        """Stop asking the judge for a while."""
        with self._lock:
            if self.trouble is None:
                self.trouble = JudgeUnavailable(
                    f"The judge failed: {error.message}", error.hint, REST_SECONDS
                )
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
    """Copy an error before raising it.

    If one object were raised for every question, its traceback would keep all of them in memory.
    """
    return JudgeUnavailable(trouble.message, trouble.hint, trouble.seconds if seconds is None else seconds)
