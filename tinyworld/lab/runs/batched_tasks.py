"""Runs many stories at once, generating and judging their images in batches.

A small model on one core is dominated by overhead: sixty answers in a batch cost a third of sixty single
answers. The regular loop is used. Each story runs in its own thread, which waits when it needs an image or a
verdict. When all threads wait, the most frequent kind of question is answered in one batch. Only one thread
runs at a time and hands over explicitly: the threads share one interpreter anyway, and sixty threads waking
each other took four times as long as the work itself. The content of a batch depends only on the stories, so
a run is reproducible.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from ....backend.errors import TrainingError
from ....backend.generators.generator import Generator
from ....backend.pictures import Picture
from ....backend.types import Plan, Request, Verdict
from ....backend.types.roles import CriticLike, PlannerLike

AT_ONCE = 64
MAX_WAIT = 3600.0
"""Timeout in seconds for an answer (up to two batches away) and for the time between two questions."""

Answering = Callable[[Sequence[Any]], Sequence[Any]]
"""Maps questions of one kind to answers in order.

An answer that is an exception is raised in the asking task.
"""
Made = TypeVar("Made")


def drawing(generator: Generator) -> Answering:
    """Return what answers `draw` questions: (prompt, source, seed) each, in one batch."""

    def draw(questions: Sequence[tuple[str, Picture | None, int]]) -> list[Picture]:
        prompts, sources, seeds = zip(*questions, strict=True)
        return generator.draw_many(prompts, sources, seeds)

    return draw


class BatchedTasks:
    """Runs tasks in threads whose questions are answered together. `answering` maps kinds of questions."""

    def __init__(self, answering: Mapping[str, Answering], at_once: int = AT_ONCE) -> None:
        self.answering = answering
        self.at_once = at_once
        self._task = threading.local()

    def run(self, tasks: Sequence[Callable[[], Made]]) -> list[Made]:
        """Run all tasks and return their results in order.

        The first error of a task or of answering is raised.
        """
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
        """Return the answer to a question of this thread's task, once every task waits.

        Raises:
            TrainingError: If no answer arrives in time. Errors of answering pass through.
        """
        heard, inbox = self._task.queues
        heard.put((kind, question))
        try:
            answer = inbox.get(timeout=MAX_WAIT)
        except Empty:
            raise TrainingError(
                f"A task received no answer within {MAX_WAIT:g} s.", "Run the same command again."
            ) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _answers(self, asked: Mapping[int, tuple[str, Any]]) -> list[tuple[int, Any]]:
        """Answer the most frequent kind of question in one batch; returns task numbers with answers."""
        kinds = [kind for kind, _ in asked.values()]
        kind = max(sorted(set(kinds)), key=kinds.count)
        numbers = sorted(number for number, (one, _) in asked.items() if one == kind)
        answers = self.answering[kind]([asked[number][1] for number in numbers])
        return list(zip(numbers, answers, strict=True))


class _TaskThreads(Generic[Made]):
    """The threads of one run, of which one runs at a time.

    Attributes:
        asked: Questions of the waiting tasks, by task number.
        local: Passes each thread its queues.
    """

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
        """Raise an error in every waiting task."""
        for number in self.asked:
            self._inboxes[number].put(error)

    def results(self) -> list[Made]:
        """Return the results of all tasks in order. The error of the first failing task is raised."""
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
                f"A task neither asked nor ended within {MAX_WAIT:g} s.", "Run the same command again."
            ) from None
        if question is not None:
            self.asked[number] = question


class SharedGenerator(Generator):
    """A generator for parallel tasks; `draw` questions are (prompt, source, seed)."""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together = together
        self._identity = identity

    @property
    def identity(self) -> str:
        """Identity of the generator that answers."""
        return self._identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Generate an image in a batch with those of other tasks."""
        return self.together.ask("draw", (prompt, source, seed))


class SharedCritic(CriticLike):
    """A critic for parallel tasks; `judge` questions are (before, after, original prompt, prompt used)."""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together = together
        self._identity = identity

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._identity

    def judge(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Verdict:
        """Judge an image in a batch with those of other tasks."""
        return self.together.ask("judge", (before, after, original_prompt, prompt_used))


class SharedPlanner(PlannerLike):
    """A planner for parallel tasks; `plan` questions are requests."""

    def __init__(self, together: BatchedTasks, identity: str) -> None:
        self.together = together
        self._identity = identity

    @property
    def identity(self) -> str:
        """Identity for cache keys."""
        return self._identity

    def plan(self, request: Request) -> Plan:
        """Plan a request in a batch with those of other tasks.

        Raises:
            AnswerError: If the plan cannot be read.
        """
        return self.together.ask("plan", request)
