"""Whole stories of the tiny world, run through the loop with given plans, alone or many at once.

A story counts only if every image shows exactly what the request asked for. A wrong plan or an uncorrected
mistake therefore fails the story. Runs with different numbers of attempts share their images, which are equal
until the runs diverge.

A small model on one core is dominated by overhead: sixty answers in a batch cost a third of sixty single
answers. With `BatchedTasks` each story runs in its own thread, which waits when it needs an image or a
verdict. When all threads wait, the most frequent kind of question is answered in one batch. Only one thread
runs at a time and hands over explicitly. The content of a batch depends only on the stories, so a run is
reproducible. `BatchedAgent` processes questions and answers as the regular agents do. Only decoding differs:
it is greedy as in use, but batched by the library, so rounding differs from single decoding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from ...backend.core.answers.reading import read_plan
from ...backend.core.errors import AnswerError, ScorerError, TrainingError
from ...backend.core.pictures import Picture
from ...backend.core.prompts.prompt_set import default_prompt_set, prompt_set_of
from ...backend.core.seams.chat_model import ChatModel, Message, ReplySettings
from ...backend.core.seams.generator import Generator
from ...backend.core.types import Plan, Request, RunSettings, StopReason, Trajectory, Verdict
from ...backend.core.types.roles import CriticLike
from ...backend.models.chat import open_chat
from ...backend.models.chat.local.base_model import load_processor
from ...backend.models.checkpoints.checkpoint import load_whole
from ...backend.story.agents.critic import Critic, critic_message, next_prompt
from ...backend.story.agents.planner import Planner, planner_message
from ...backend.story.journal.store import InMemoryStore
from ...backend.story.loop.collaborators import Collaborators
from ...backend.story.loop.events import Finished
from ...backend.story.loop.loop import run
from ...tinyworld.drawing import draw
from ...tinyworld.scorer import TinyWorldScorer, faults, read_image
from ...training.gate.held_out import greedy_answers
from ...training.reward.terms import read_answer
from ...training.rows.rl import CriticRlRow, as_conversation, before_of
from .world.requests import TinyStory

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


BATCH = 64

Judging = tuple[Picture | None, Picture, str, str]
"""Image before (`None`: blank), image after, prompt of the step, prompt of the attempt."""


def judging_of(row: CriticRlRow, images: Path) -> Judging:
    """Return the question of a row whose images are below `images`.

    Raises:
        PictureError: If an image cannot be read.
    """
    after = Picture.open(images / row.edited_image_path)
    return before_of(row, images), after, row.origin_prompt, row.rewritten_prompt


class BatchedAgent:
    """The agent in a checkpoint folder, with limits for its verdicts and plans in tokens."""

    def __init__(self, folder: Path, verdict_tokens: int, plan_tokens: int) -> None:
        self.folder = folder
        self.verdict_tokens = verdict_tokens
        self.plan_tokens = plan_tokens
        self.prompt_set = prompt_set_of(folder) or default_prompt_set()

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import torch

        return load_whole(self.folder, dtype=torch.float32), load_processor(self.folder)

    def answers(self, messages: Sequence[Message], tokens: int, temperature: float = 0.0) -> list[str]:
        """Answer each message with at most `tokens` tokens.

        Decoding is greedy at temperature 0; above, it samples with torch's global random state.
        """
        model, processor = self._loaded
        questions = [
            {
                "prompt": as_conversation(message),
                "images": [part for part in message.content if isinstance(part, Picture)],
            }
            for message in messages
        ]
        return greedy_answers(model, processor, questions, tokens, BATCH, temperature)[0]

    def question(self, judging: Judging) -> Message:
        """Return the question about an image."""
        before, after, original, used = judging
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original, used)

    def verdicts(self, pages: Sequence[Judging]) -> list[Verdict | None]:
        """Return the first verdict on each image; `None` if it cannot be read."""
        answers = self.answers([self.question(one) for one in pages], self.verdict_tokens)
        return [read_answer(answer) for answer in answers]

    def verdicts_of(self, rows: Sequence[CriticRlRow], images: Path) -> list[Verdict | None]:
        """Return the verdicts on the images of rows, like `verdicts`."""
        return self.verdicts([judging_of(row, images) for row in rows])

    def judge(self, pages: Sequence[Judging]) -> list[Verdict]:
        """Return verdicts like a regular critic.

        `success` is `None` if the second reply is unreadable too.
        """
        verdicts = []
        for page, verdict in zip(pages, self.verdicts(pages), strict=True):
            if verdict is None:
                verdicts.append(self.critic.judge(*page))
                continue
            refined = next_prompt(verdict, prompt_used=page[3])
            verdicts.append(verdict.model_copy(update={"refined_prompt": refined}))
        return verdicts

    def plan(self, requests: Sequence[Request], again: bool = True) -> list[Plan | AnswerError]:
        """Plan each request.

        Args:
            requests: The requests.
            again: Request unreadable plans a second time.

        Returns:
            A plan per request, or the error of reading it.
        """
        messages = [planner_message(self.prompt_set, request) for request in requests]
        plans: list[Plan | AnswerError] = []
        for request, answer in zip(requests, self.answers(messages, self.plan_tokens), strict=True):
            try:
                try:
                    plans.append(read_plan(answer))
                except AnswerError:
                    if not again:
                        raise
                    plans.append(self._planner.plan(request))
            except AnswerError as error:
                plans.append(error)
        return plans

    @cached_property
    def critic(self) -> Critic:
        """The regular critic."""
        settings = ReplySettings(max_tokens=self.verdict_tokens, watch_verdict=True)
        return Critic(self._chat(), settings=settings)

    @cached_property
    def _planner(self) -> Planner:
        settings = ReplySettings(max_tokens=self.plan_tokens)
        return Planner(self._chat(), settings=settings)

    def _chat(self) -> ChatModel:
        """Open the regular agent's model in float32, as in batches.

        In the checkpoint's 16 bits, a CPU takes eight times as long to read a question.
        """
        return open_chat(f"transformers:{self.folder}", dtype="float32", device="cpu")


def request_of(story: TinyStory) -> Request:
    """Return the request as a user would make it."""
    return Request(text=story.text, images=(draw(story.before),) if story.before else ())


class StoryOutcome(BaseModel):
    """Outcome of one story.

    Attributes:
        right: Whether every image is correct.
        steps: For each step with an image, whether it is correct.
        accepted: Number of steps whose image the critic accepted.
        draws: Number of generated images.
        seconds: Time of generating them.
    """

    right: bool
    steps: list[bool]
    accepted: int = 0
    draws: int = 0
    seconds: float = 0.0


def run_story(
    number: int,
    story: TinyStory,
    plan: Plan | None,
    generator: Generator,
    critic: CriticLike | None,
    counts: Sequence[int],
) -> dict[int, StoryOutcome]:
    """Run one story with every number of attempts.

    Args:
        number: Base seed.
        story: The story.
        plan: Its plan; `None` loses the story.
        generator: The generator.
        critic: The critic; without one, each step has one attempt.
        counts: Numbers of attempts.

    A story whose verdict cannot be read is lost.
    """
    store, outcomes = InMemoryStore(), {}
    for attempts in counts:
        if plan is None:
            outcomes[attempts] = lost(story)
            continue
        settings = RunSettings(max_attempts=attempts, seed=number)
        try:
            trajectory = _run_story(request_of(story), plan, generator, critic, settings, store)
        except AnswerError:
            outcomes[attempts] = lost(story)
            continue
        made = [attempt for result in trajectory.results for attempt in result.attempts]
        outcomes[attempts] = StoryOutcome(
            right=_is_right(trajectory, story),
            steps=right_steps(trajectory),
            accepted=sum(result.stop_reason is StopReason.accepted for result in trajectory.results),
            draws=len(made),
            seconds=sum(attempt.seconds for attempt in made),
        )
    return outcomes


def lost(story: TinyStory) -> StoryOutcome:
    """Return the outcome of a lost story: it and all its steps are wrong."""
    return StoryOutcome(right=False, steps=[False] * len(story.pages))


def _run_story(
    request: Request,
    plan: Plan,
    generator: Generator,
    critic: CriticLike | None,
    settings: RunSettings,
    store: InMemoryStore,
) -> Trajectory:
    for event in run(request, Collaborators(None, generator, critic), settings, store, plan):
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("a run ends with Finished")


def _is_right(trajectory: Trajectory, story: TinyStory) -> bool:
    pages = [result.image for result in trajectory.results if result.step.prompt]
    return len(pages) == len(story.pages) and all(
        page is not None and not faults(scene, read_image(page))
        for page, scene in zip(pages, story.pages, strict=True)
    )


def right_steps(trajectory: Trajectory) -> list[bool]:
    """Return for each step with an image whether it is what its prompt makes of its source."""
    outcomes = []
    for result in trajectory.results:
        if not result.step.prompt:
            continue
        try:
            attempt = result.attempts[result.chosen] if result.chosen is not None else None
            outcomes.append(
                attempt is not None
                and attempt.image is not None
                and TinyWorldScorer().success(attempt.source, attempt.image, result.step.prompt)
            )
        except ScorerError:
            outcomes.append(False)
    return outcomes
