"""Creates a planner's questions from a trajectory: whole plan, continuation, description and number of steps.

Every question uses the prompt template of the planner to train, like a user's request, so that training
matches use. The step at which a continuation begins, and its phrasing, are derived from the prompt's id: the
same trajectories give the same rows. A row that is too long for the planner is shortened between steps: a
continuation shows fewer finished steps, a description fewer images. A whole plan is never shortened, since
half a plan does not answer its request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from ....backend.agents.planner_question import planner_message
from ....backend.answers.reading import write_plan
from ....backend.feedback.sft_row import MARK
from ....backend.pictures import Picture
from ....backend.prompts import PromptSet
from ....backend.types import Plan, Request, Step, StepResult, Trajectory
from .settings import Kind, Think

GO_ON = (
    "So far there is this:\n{done}\nPlan the steps that follow.",
    "These steps are done:\n{done}\nWhat comes next? Plan the rest.",
    "I have got this far:\n{done}\nPlease go on from here to the end.",
    "Here is the beginning:\n{done}\nContinue it in the same manner.",
    "The first part is finished:\n{done}\nPlan what is still missing.",
)
GO_ON_EXACTLY = (
    "So far there is this:\n{done}\nPlan exactly {count} more.",
    "These steps are done:\n{done}\nFinish it in exactly {count}.",
    "Here is the beginning:\n{done}\nContinue with {count}, no more and no fewer.",
)
PUT_INTO_WORDS = (
    "Write what each of these pictures shows, one text a picture.",
    "Tell the story of these pictures in their order.",
    "Put each picture into words, in order.",
    "Explain these pictures one by one.",
)
NOT_IN_PROMPTS = re.compile(r"\bstep\s*\d+\s*:|\(\s*\d+\s*\)|\bprevious (?:image|picture)\b", re.IGNORECASE)
"""References that an image model cannot understand: step numbers and other images."""
ASKS_FOR_WORDS = re.compile(
    r"caption|describ|explain|label|write|words?\b|texts?\b|tell|story|stories|narrat|teach|guide"
    r"|how (?:to|do)|say|title|note|tutorial|instruct|annotat|comment|poem|tale|article|report|diary|why"
    r"|what",
    re.IGNORECASE,
)


class PlannerQuestion(NamedTuple):
    """A row before it has files: its question with `<image>` marks, the images, and the answer."""

    kind: Kind
    text: str
    images: tuple[Picture, ...]
    answer: str


def bad_prompt(plan: Plan) -> str | None:
    """Return the part of a prompt that no image model can follow, or None."""
    for step in plan.steps:
        found = NOT_IN_PROMPTS.search(step.prompt or "")
        if found:
            return found.group()
    return None


def has_unasked_words(trajectory: Trajectory) -> bool:
    """Return whether images have texts that the request does not seem to ask for."""
    has_words = any(step.prompt and step.auxiliary_text for step in trajectory.plan.steps)
    return has_words and not ASKS_FOR_WORDS.search(trajectory.request.text)


class TrajectoryQuestions(NamedTuple):
    """Questions of a trajectory, and how many were shortened or are too long."""

    questions: list[PlannerQuestion]
    cut: int = 0
    too_long: int = 0


@dataclass(frozen=True)
class QuestionMaker:
    """How questions are created: kinds, prompt set and reasoning.

    `fits` checks whether a question is short enough for the planner; None accepts all.
    """

    kinds: Sequence[Kind]
    prompt_set: PromptSet
    think: Think = "empty"
    fits: Callable[[PlannerQuestion], bool] | None = None

    def questions_of(self, name: str, trajectory: Trajectory) -> TrajectoryQuestions:
        """Return the questions of a trajectory in which every step was accepted, one of each suitable kind.

        Raises:
            AnswerError: A text is not allowed in an answer.
            SettingsError: A text is not allowed in a question.
        """
        made = _Maker(name, trajectory, self.prompt_set, self.think)
        questions: list[PlannerQuestion] = []
        cut = too_long = 0
        for kind in self.kinds:
            for length in made.lengths(kind):
                question = made.question(kind, length)
                if self.fits is None or self.fits(question):
                    questions.append(question)
                    cut += length != made.lengths(kind)[0]
                    break
            else:
                too_long += bool(made.lengths(kind))
        return TrajectoryQuestions(questions, cut, too_long)


class _Maker:
    def __init__(self, name: str, trajectory: Trajectory, prompt_set: PromptSet, think: Think) -> None:
        self._name, self._trajectory, self._prompt_set = name, trajectory, prompt_set
        self._think: Think = think

    def lengths(self, kind: Kind) -> range:
        """Return the possible numbers of shown steps, the best first; empty for an unsuitable kind."""
        count = len(self._trajectory.results)
        if kind == "text":
            return range(1)
        if kind == "description":
            shown = self._described()
            return range(len(shown), 1, -1) if all(words for _, words in shown) else range(0)
        return range(self._dice(kind).randint(1, count - 1), 0, -1) if count > 1 else range(0)

    def question(self, kind: Kind, length: int) -> PlannerQuestion:
        """Return the question of this kind that shows this many steps."""
        if kind == "text":
            plan = self._trajectory.plan.model_copy(update={"warning": ""})
            return self._question("text", self._trajectory.request, plan)
        if kind == "description":
            return self._description(length)
        return self._going_on(kind, length, GO_ON if kind == "continuation" else GO_ON_EXACTLY)

    def _described(self) -> list[tuple[Picture, str | None]]:
        """Return every image with its text; descriptions need stories in which every image has one."""
        results = self._trajectory.results
        return [(result.image, result.step.auxiliary_text) for result in results if result.image is not None]

    def _description(self, length: int) -> PlannerQuestion:
        shown = self._described()[:length]
        wish = self._dice("description").choice(PUT_INTO_WORDS)
        text = "".join(f"{MARK}\n" for _ in shown) + wish
        steps = tuple(
            Step(number=n, name="words", auxiliary_text=words) for n, (_, words) in enumerate(shown, 1)
        )
        request = Request(text=text, images=tuple(picture for picture, _ in shown))
        return self._question("description", request, Plan(steps=steps))

    def _going_on(self, kind: Kind, done: int, wordings: Sequence[str]) -> PlannerQuestion:
        results = self._trajectory.results
        dice = self._dice(kind)
        dice.randint(1, len(results) - 1)  # the phrasing must not depend on where a long row is shortened
        rest = self._trajectory.plan.steps[done:]
        given = self._trajectory.request
        marks = given.text.count(MARK)
        asked = given.text if marks == len(given.images) else MARK * len(given.images) + _plain(given.text)
        count = "1 step" if len(rest) == 1 else f"{len(rest)} steps"
        shown = "\n".join(_shown(result) for result in results[:done])
        wording = dice.choice(wordings).replace("{count}", count).replace("{done}", shown)
        images = [*given.images, *(result.image for result in results[:done] if result.image)]
        request = Request(text=f"{asked}\n\n{wording}", images=tuple(images))
        reasoning = self._trajectory.plan.reasoning if self._think == "own" else ""
        return self._question(kind, request, Plan(steps=rest, reasoning=reasoning))

    def _question(self, kind: Kind, request: Request, plan: Plan) -> PlannerQuestion:
        message = planner_message(self._prompt_set, request)
        # If the template has placed the images already, marks in the request are plain text.
        text = "".join(MARK if isinstance(part, Picture) else _plain(part) for part in message.content)
        images = tuple(part for part in message.content if isinstance(part, Picture))
        # A row contains only the prompt of a step; settings and style belong to the run.
        steps = tuple(Step(**step.model_dump(exclude={"settings"})) for step in plan.drawn_steps)
        return PlannerQuestion(kind, text, images, write_plan(Plan(steps=steps, reasoning=plan.reasoning)))

    def _dice(self, kind: Kind) -> Random:
        return Random(hashlib.blake2b(f"{self._name}/{kind}".encode(), digest_size=8).hexdigest())


def _shown(result: StepResult) -> str:
    """Return a finished step in the form in which a user would show it."""
    step = result.step
    words = _plain(step.auxiliary_text or "")
    if result.image is None:
        return f"{step.number}. {words}"
    title = _plain(step.instruction or step.name or step.prompt or "")
    return "\n".join(part for part in (f"{step.number}. {title}", MARK, words) if part)


def _plain(text: str) -> str:
    return text.replace(MARK, "image")
