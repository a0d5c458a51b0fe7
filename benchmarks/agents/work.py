"""The work that every system is given: plans, verdicts and answers word for word, so that only how it is done
differs.

Decision: the answers are forced token by token on the logits of real forward passes. A random model then does
the work of a trained one, every system decodes the same lengths, and what differs in time is not what was
said but how it was come by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image

from interleave_thinker.backend.answers.reading import write_plan, write_verdict
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, Step, Verdict

MAX_ATTEMPTS = 3
PROFILES: dict[str, tuple[tuple[bool, ...], ...]] = {
    "easy": ((True,), (True,), (True,)),
    "mixed": ((True,), (False, True), (False, False, False)),
    "hard": ((False, False, False),) * 3,
    "guided": ((True,), (False, True), (False, False, False)),
}
"""For every step the verdicts on its attempts; `guided` begins with an image of the user's."""
THINGS = ("a red fox", "a stone bridge", "a paper lantern")
THOUGHT = (
    "The goal asks for {thing}. In the second image {thing} is {finding}; the rest of the page is as it was."
)
REFINED = (
    "Add {thing} to the middle of the page, number {number}, large enough to be seen at once, in the same "
    "soft water colours and the same light; the ground, the sky and all that was drawn before stay exactly "
    "where they are."
)
SHORT_THOUGHT = "It is cut off at the edge."
Form = Literal["reasoned", "short", "verdict first"]
"""What a critic is trained to say: reasoning at length, one short sentence, or the verdict before a short
sentence."""


@dataclass(frozen=True)
class Work:
    """One job: what is asked, and what the agents say."""

    request: Request
    plan: Plan
    verdicts: dict[tuple[int, int], Verdict]
    """By step (index in the plan) and attempt, both from 0."""

    def plan_text(self) -> str:
        return write_plan(self.plan)

    def verdict_text(self, step: int, attempt: int, form: Form = "reasoned") -> str:
        """The critic's answer, word for word; the forms differ in their reasoning, not in what is decided."""
        verdict = self.verdicts[step, attempt]
        if form != "reasoned":
            verdict = verdict.model_copy(update={"reasoning": "" if verdict.success else SHORT_THOUGHT})
        return write_verdict(verdict, verdict_first=form == "verdict first")


def make_work(profile: str, side: int) -> Work:
    """The job of a profile; images are squares of `side` pixels."""
    steps = []
    verdicts: dict[tuple[int, int], Verdict] = {}
    for index, outcomes in enumerate(PROFILES[profile]):
        thing = THINGS[index]
        prompt = f"Add {thing} to the middle of the page, in soft water colours."
        steps.append(
            Step(
                number=index + 1,
                name=f"Draw {thing}",
                instruction=f"Show {thing}.",
                prompt=prompt,
                auxiliary_text=f"Then there was {thing}.",
            )
        )
        for number, success in enumerate(outcomes):
            finding = "there and whole" if success else "cut off at the edge"
            verdicts[index, number] = Verdict(
                success=success,
                reasoning=THOUGHT.format(thing=thing, finding=finding),
                refined_prompt=prompt
                if number == 0 and success
                else REFINED.format(thing=thing, number=number + 1),
            )
    images = (paint("the user's own page", None, side),) if profile == "guided" else ()
    plan = Plan(steps=tuple(steps), reasoning="Three things, one after another, on one page.")
    return Work(Request(text="A fox crosses a bridge by lantern light.", images=images), plan, verdicts)


def paint(prompt: str, source: Picture | None, side: int) -> Picture:
    """A picture of noisy blocks that follows from its arguments alone; stands for a generator at next to no
    cost.

    No seed goes into it: the systems do not all give out the same ones, and no prompt of the work is used
    twice.
    """
    drawn_from = f"{prompt}\0{source.digest if source else ''}".encode()
    cells = side // 4
    grid = Image.frombytes("RGB", (cells, cells), hashlib.shake_256(drawn_from).digest(cells * cells * 3))
    return Picture(grid.resize((side, side), Image.Resampling.BILINEAR))


class Painter:
    """`paint` as a generator of the pack's; counts its images."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.drawn = 0

    @property
    def identity(self) -> str:
        return f"benchmark painter {self.side}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.drawn += 1
        return paint(prompt, source, self.side)


class Forced:
    """A logits processor that leaves only the next token of the answer at hand (`say`) possible."""

    def __init__(self, tokenizer: Any, end: int) -> None:
        self._tokenizer = tokenizer
        self._end = end
        self._answer: Sequence[int] = ()
        self.free: list[int] = []
        """The tokens that would have been said, had they not been forced."""
        self._start: int | None = None

    def say(self, text: str) -> None:
        """The next reply is to be this text."""
        self._answer = (*self._tokenizer(text, add_special_tokens=False)["input_ids"], self._end)
        self._start = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._start is None:
            self._start = input_ids.shape[1]
        self.free.append(int(scores.argmax()))
        token = self._answer[input_ids.shape[1] - self._start]
        forced = scores.new_full(scores.shape, float("-inf"))
        forced[:, token] = scores[:, token]
        return forced
