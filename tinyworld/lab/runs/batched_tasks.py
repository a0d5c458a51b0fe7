"""Many stories at once: what their loops ask for is drawn and judged in batches.

Decisions. A small model on one core spends most of its time between the numbers, and sixty answers at once
cost a third of sixty answers one by one. The loop stays everybody's: each story runs in a thread of its own,
which waits when it asks for a page or a verdict; when all of them wait, what is asked most is answered in one
batch. One thread runs at a time and hands over when it asks: they would have to share one interpreter anyway,
and sixty threads that wake one another took four times as long as what they asked for. What stands in a batch
follows from the stories alone, so that a run is repeated exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from ....backend.errors import TrainingError
from ....backend.pictures import Picture
from ....backend.types import Plan, Request, Verdict

AT_ONCE = 64
MAX_WAIT = 3600.0
"""Seconds that a task waits for an answer, which may be a batch or two away, and that a task may take from
one question to the next."""

Answering = Callable[[Sequence[Any]], Sequence[Any]]
"""Questions of a kind to their answers, in order; an answer that is an exception is raised where it was
asked for."""
Made = TypeVar("Made")


class BatchedTasks:
    """Tasks in threads whose questions are answered together; `answering` by kind of question."""

    def __init__(self, answering: Mapping[str, Answering], at_once: int = AT_ONCE) -> None:
        self.answering = answering
        self.at_once = at_once
        self._task = threading.local()

    def run(self, tasks: Sequence[Callable[[], Made]]) -> list[Made]:
        """The results of all tasks, in order. Raises what the first of them raised, or what answering
        did."""
        threads = _TaskThreads(tasks, self._task)
        numbers = iter(range(len(tasks)))
        try:
            while True:
                while len(threads.asked) < self.at_once and (number := next(numbers, None)) is not None:
                    threads.begin(number)
                if not threads.asked:
                    break
                for number, answer in self._answers(threads.asked):
                    threads.resume(number, answer)
        except BaseException as error:
            threads.fail(error)
            raise
        return threads.results()

    def ask(self, kind: str, question: Any) -> Any:
        """The answer to a question of the task in this thread, once every task waits. Raises what answering
        raised."""
        heard, inbox = self._task.queues
        heard.put((kind, question))
        try:
            answer = inbox.get(timeout=MAX_WAIT)
        except Empty:
            raise TrainingError(
                f"No answer came within {MAX_WAIT:g} s.", "Run the same command again."
            ) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _answers(self, asked: Mapping[int, tuple[str, Any]]) -> list[tuple[int, Any]]:
        """What is asked most, answered in one batch: the tasks' numbers with their answers."""
        kinds = [kind for kind, _ in asked.values()]
        kind = max(sorted(set(kinds)), key=kinds.count)
        numbers = sorted(number for number, (one, _) in asked.items() if one == kind)
        answers = self.answering[kind]([asked[number][1] for number in numbers])
        return list(zip(numbers, answers, strict=True))


class _TaskThreads(Generic[Made]):
    """The threads of one run, of which one runs at a time: `asked` are the questions of those that wait, by
    the task's number; `local` passes each thread its queues."""

    def __init__(self, tasks: Sequence[Callable[[], Made]], local: threading.local) -> None:
        self.tasks, self.local = tasks, local
        self.asked: dict[int, tuple[str, Any]] = {}
        self._results: dict[int, Made] = {}
        self._errors: dict[int, BaseException] = {}
        self._inboxes: dict[int, SimpleQueue[Any]] = {}
        self._heard: SimpleQueue[tuple[str, Any] | None] = SimpleQueue()

    def begin(self, number: int) -> None:
        """Start a task and wait until it asks or ends."""
        self._inboxes[number] = SimpleQueue()
        threading.Thread(target=self._work, args=(number,), daemon=True).start()
        self._listen(number)

    def resume(self, number: int, answer: Any) -> None:
        """Pass a task its answer and wait until it asks again or ends."""
        del self.asked[number]
        self._inboxes[number].put(answer)
        self._listen(number)

    def fail(self, error: BaseException) -> None:
        """Raise an error in every task that waits."""
        for number in self.asked:
            self._inboxes[number].put(error)

    def results(self) -> list[Made]:
        """The results of all tasks, in order. Raises what the first of them raised."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return [self._results[number] for number in range(len(self.tasks))]

    def _work(self, number: int) -> None:
        self.local.queues = self._heard, self._inboxes[number]
        try:
            self._results[number] = self.tasks[number]()
        except BaseException as error:  # noqa: BLE001 - raised again by `results`, in the caller's thread
            self._errors[number] = error
        self._heard.put(None)

    def _listen(self, number: int) -> None:
        try:
            question = self._heard.get(timeout=MAX_WAIT)
        except Empty:
            raise TrainingError(
                f"No question came within {MAX_WAIT:g} s.", "Run the same command again."
            ) from None
        if question is not None:
            self.asked[number] = question


class SharedGenerator:
    """A generator for tasks side by side: `draw` questions are (prompt, source, seed)."""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together = together
        self.identity = identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """A page, drawn with those of the other tasks."""
        return self.together.ask("draw", (prompt, source, seed))


class SharedCritic:
    """A critic for tasks side by side: `judge` questions are (before, after, original prompt, prompt
    used)."""

    prompt_set_digest = ""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
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

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together = together
        self.identity = identity

    def plan(self, request: Request) -> Plan:
        """A plan, written with those of the other tasks. Raises AnswerError."""
        return self.together.ask("plan", request)
