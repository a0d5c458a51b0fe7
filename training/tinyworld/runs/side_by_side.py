"""Many stories at once: what their loops ask for is drawn and judged in batches.

Decision: a small model on one core spends most of its time between the numbers, and sixty answers at once
cost a third of sixty answers one by one. The loop stays everybody's: each story runs in a thread of its own,
which waits when it asks for a page or a verdict; when all of them wait, what is asked most is answered in one
batch. What stands in a batch follows from the stories alone and not from how fast threads are, so that a run
is repeated exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ....backend.errors import TrainingError
from ....backend.pictures import Picture
from ....backend.types import Plan, Request, Verdict

AT_ONCE = 64
LONGEST_WAIT = 3600.0
"""Seconds that a thread waits for an answer: all other threads have to come to their next question, and a
batch or two be answered."""

Answering = Callable[[Sequence[Any]], Sequence[Any]]
"""Questions of a kind to their answers, in order; an answer that is an exception is raised where it was
asked for."""
Made = TypeVar("Made")


class SideBySide:
    """Tasks in threads whose questions are answered together; `answering` by kind of question."""

    def __init__(self, answering: Mapping[str, Answering], at_once: int = AT_ONCE) -> None:
        self.answering = answering
        self.at_once = at_once
        self._changed = threading.Condition()
        self._asked: dict[int, tuple[str, Any]] = {}
        self._answered: dict[int, Any] = {}
        self._busy = 0
        self._failure: BaseException | None = None
        self._task = threading.local()

    def run(self, tasks: Sequence[Callable[[], Made]]) -> list[Made]:
        """The results of all tasks, in order. Raises what the first of them raised, or what answering
        did."""
        results: dict[int, Made] = {}
        errors: dict[int, BaseException] = {}
        numbers = iter(range(len(tasks)))
        self._asked, self._answered = {}, {}
        self._failure, self._busy = None, min(self.at_once, len(tasks))

        def work() -> None:
            while True:
                with self._changed:
                    number = next(numbers, None) if self._failure is None else None
                    if number is None:
                        self._busy -= 1
                        self._changed.notify_all()
                        return
                self._task.number = number
                try:
                    results[number] = tasks[number]()
                except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
                    errors[number] = error

        threads = [threading.Thread(target=work, daemon=True) for _ in range(self._busy)]
        for thread in threads:
            thread.start()
        try:
            self._answer_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            raise
        finally:
            for thread in threads:
                thread.join(LONGEST_WAIT)
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in range(len(tasks))]

    def ask(self, kind: str, question: Any) -> Any:
        """The answer to a question of the task in this thread, once every task waits. Raises what answering
        raised."""
        number = self._task.number
        with self._changed:
            self._asked[number] = kind, question
            self._busy -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: number in self._answered or self._failure, LONGEST_WAIT)
            if number not in self._answered:
                raise self._failure or TrainingError(
                    f"No answer came within {LONGEST_WAIT:g} s.", "Run the same command again."
                )
            answer = self._answered.pop(number)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _answer_all(self) -> None:
        """Answer batch after batch until no task is left."""
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._busy == 0, LONGEST_WAIT):
                    raise TrainingError(
                        f"No question came within {LONGEST_WAIT:g} s.", "Run the same command again."
                    )
                kinds = [kind for kind, _ in self._asked.values()]
                if not kinds:
                    return
                kind = max(sorted(set(kinds)), key=kinds.count)
                numbers = sorted(number for number, (one, _) in self._asked.items() if one == kind)
                questions = [self._asked[number][1] for number in numbers]
            answers = self.answering[kind](questions)
            with self._changed:
                for number, answer in zip(numbers, answers, strict=True):
                    del self._asked[number]
                    self._answered[number] = answer
                self._busy += len(numbers)
                self._changed.notify_all()


class SharedGenerator:
    """A generator for tasks side by side: `draw` questions are (prompt, source, seed)."""

    def __init__(self, together: SideBySide, identity: str) -> None:
        self.together = together
        self.identity = identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """A page, drawn with those of the other tasks."""
        return self.together.ask("draw", (prompt, source, seed))


class SharedCritic:
    """A critic for tasks side by side: `judge` questions are (before, after, original prompt, prompt
    used)."""

    prompt_set_digest = ""

    def __init__(self, together: SideBySide, identity: str) -> None:
        self.together = together
        self.identity = identity

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """A verdict, given with those of the other tasks."""
        return self.together.ask("judge", (before, after, original_prompt, prompt_used))


class SharedPlanner:
    """A planner for tasks side by side: `plan` questions are requests."""

    prompt_set_digest = ""

    def __init__(self, together: SideBySide, identity: str) -> None:
        self.together = together
        self.identity = identity

    def plan(self, request: Request) -> Plan:
        """A plan, written with those of the other tasks. Raises AnswerError."""
        return self.together.ask("plan", request)
