"""The request, and the plan of its steps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from ..pictures import Picture
from .cast import Cast, CastMember, Facts, Present, check_cast, pictures_of
from .checklist import Checklist
from .presence import members_in, without_marks
from .run_settings import MAX_ATTEMPTS, StepSettings
from .values import MAX_TEXT, Several, SparseValue, StepImage, Text, Value

MAX_STEPS = 100
MAX_STYLE = 2_000
MAX_IMAGES = 1_000
IMAGE_MARKS = re.compile("<image>", re.IGNORECASE)


class Request(Value):
    """The user's request: a text and the images (0..n) that its `<image>` marks refer to, in order.

    Marks are recognized in any capitalization and written in lower case.
    """

    text: Annotated[Text, AfterValidator(lambda text: IMAGE_MARKS.sub("<image>", text))]
    images: Several[Picture] = Field(default=(), max_length=MAX_IMAGES)


class Rewritten(Value):
    """What a step was before it was rewritten, because no attempt at it was accepted.

    Attributes:
        prompt: Its prompt.
        settings: Its settings.
        draws: Generator calls that were made with them. They count for the run's `max_draws`.
    """

    prompt: Text
    settings: StepSettings = StepSettings()
    draws: int = Field(ge=0, le=MAX_ATTEMPTS)


class Step(SparseValue):
    """One step of a plan. If `prompt` is None, the step is text-only and `auxiliary_text` is its content.

    `cast` names the members of the plan's cast that are in the step; None: its prompt tells (presence.py).
    `facts` state what is true after it. The critic answers each item of `checklist` with yes or no.
    `rewritten` is set if the run wrote the prompt, to generate the step from text.
    """

    omitted = ("facts", "checklist", "rewritten", "settings", "cast")

    number: int = Field(ge=1)
    name: Text = ""
    instruction: Text | None = None
    prompt: Text | None = None
    auxiliary_text: Text | None = None
    settings: StepSettings = StepSettings()
    cast: Present | None = None
    facts: Facts = ()
    checklist: Checklist = ()
    rewritten: Rewritten | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Step:
        if self.instruction and self.prompt is not None and not self.prompt.strip():
            raise ValueError(
                f"step {self.number} has an instruction and an empty prompt; write the prompt, or null for a "
                "text-only step"
            )
        if not self.prompt and not self.auxiliary_text:
            raise ValueError(f"step {self.number} has neither a prompt nor an auxiliary text")
        return self

    @property
    def as_planned(self) -> Step:
        """The step as it was before it was rewritten."""
        if self.rewritten is None:
            return self
        before = {"prompt": self.rewritten.prompt, "settings": self.rewritten.settings, "rewritten": None}
        return self.model_copy(update=before)

    @property
    def images(self) -> tuple[StepImage, ...]:
        """The images in its settings, also in those before it was rewritten."""
        return (*self.settings.images.values(), *self.as_planned.settings.images.values())


def wrong_sources(steps: Sequence[Step]) -> Iterator[str]:
    """Yield a sentence for each step whose source is not an earlier step with an image.

    A number below that of the first step may be a step of the story that this one continues.
    """
    drawn: set[int] = set()
    for step in steps:
        source = step.settings.source
        if isinstance(source, int) and source >= steps[0].number and source not in drawn:
            yield (
                f"step {step.number} edits the image of step {source}, but that is not an earlier step with "
                "an image"
            )
        if step.prompt:
            drawn.add(step.number)


SENTENCE_ENDS = ".,;:!?。，；：！？、"


def in_style(prompt: str, style: str) -> str:
    """Return the prompt preceded by a plan's style sentence, unless it already begins with it."""
    sentence = style.strip()
    if not sentence or prompt.startswith(sentence):
        return prompt
    return f"{sentence}{'' if sentence[-1] in SENTENCE_ENDS else '.'} {prompt}"


class Plan(SparseValue):
    """All steps, written before any image is generated.

    Step numbers increase, but need not start at 1 (a continuation). The sentence `style` precedes the prompt
    of every step when it is generated and judged. `warning` tells how the plan differs from the request.
    `cast` are the characters, props and places that look the same in every image.
    """

    omitted = ("style", "warning", "cast")

    steps: Several[Step] = Field(min_length=1, max_length=MAX_STEPS)
    reasoning: Text = ""
    style: str = Field(default="", max_length=MAX_STYLE)
    warning: Text = ""
    cast: Cast = ()

    @model_validator(mode="after")
    def _numbers_rise(self) -> Plan:
        numbers = [step.number for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
            raise ValueError(f"step numbers must increase, but are {numbers}")
        if wrong := next(wrong_sources(self.steps), None):
            raise ValueError(wrong)
        if any(len(step.prompt or "") > MAX_TEXT for step in self.drawn_steps):
            raise ValueError(f"style and prompt together exceed {MAX_TEXT} characters")
        check_cast(self.cast, ((step.number, step.cast) for step in self.steps))
        return self

    def members_in(self, number: int) -> list[CastMember]:
        """Return the members that are in a step: by its list, else by its prompt without the style."""
        step = next(one for one in self.steps if one.number == number)
        return members_in(self.cast, step.cast, step.prompt or "")

    @property
    def resolved(self) -> Plan:
        """The plan with the `@Name` marks of its prompts as the lists of their steps."""
        steps = []
        for step in self.steps:
            prompt, marked = without_marks(self.cast, step.prompt or "")
            if marked:
                listed = marked if step.cast is None else step.cast
                step = step.model_copy(update={"prompt": prompt, "cast": listed})
            steps.append(step)
        return self if tuple(steps) == self.steps else self.model_copy(update={"steps": tuple(steps)})

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Images of the cast and in the settings of the steps, without duplicates."""
        images = [image for step in self.steps for image in step.images]
        found = [*pictures_of(self.cast), *(one.picture for one in images if one.picture)]
        return tuple({one.digest: one for one in found}.values())

    @property
    def as_planned(self) -> Plan:
        """The plan as it was before steps were rewritten."""
        return self.model_copy(update={"steps": tuple(step.as_planned for step in self.steps)})

    @property
    def drawn_steps(self) -> tuple[Step, ...]:
        """The steps as they are generated and judged: with the style before every prompt."""
        return tuple(
            step.model_copy(update={"prompt": in_style(step.prompt, self.style)}) if step.prompt else step
            for step in self.steps
        )
