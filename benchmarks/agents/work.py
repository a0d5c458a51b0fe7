"""The work given to every system: plans, verdicts and answers are fixed, so that only the processing differs.

The answers are forced token by token on the logits of real forward passes. A random model then does the work
of a trained one, and all systems decode the same lengths. Differences in time come only from how the answers
are computed.
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
"""Verdicts on the attempts of every step. `guided` starts with an image of the user."""
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
"""Answer format of a critic: long reasoning, one short sentence, or the verdict before a short sentence."""


@dataclass(frozen=True)
class Work:
    """One job: the request and the agents' answers."""

    request: Request
    plan: Plan
    verdicts: dict[tuple[int, int], Verdict]
    """By step (index in the plan) and attempt, both from 0."""

    def plan_text(self) -> str:
        """Return the planner's answer."""
        return write_plan(self.plan)

    def verdict_text(self, step: int, attempt: int, form: Form = "reasoned") -> str:
        """Return the critic's answer. The formats differ in their reasoning but not in the decision."""
        verdict = self.verdicts[step, attempt]
        if form != "reasoned":
            verdict = verdict.model_copy(update={"reasoning": "" if verdict.success else SHORT_THOUGHT})
        return write_verdict(verdict, verdict_first=form == "verdict first")


def make_work(profile: str, side: int) -> Work:
    """Return the job of a profile; images are squares of `side` pixels."""
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
    """Return an image of noisy blocks that depends only on the arguments: a generator with almost no cost.

    The seed is ignored, because the systems use different ones and no prompt of the work is used twice.
    """
    drawn_from = f"{prompt}\0{source.digest if source else ''}".encode()
    cells = side // 4
    grid = Image.frombytes("RGB", (cells, cells), hashlib.shake_256(drawn_from).digest(cells * cells * 3))
    return Picture(grid.resize((side, side), Image.Resampling.BILINEAR))


class Painter:
    """`paint` as a generator of the pack; counts its images."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.drawn = 0

    @property
    def identity(self) -> str:
        """Identity of the generator."""
        return f"benchmark painter {self.side}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Paint an image."""
        self.drawn += 1
        return paint(prompt, source, self.side)


class Forced:
    """A logits processor that allows only the next token of a given answer (`say`)."""

    def __init__(self, tokenizer: Any, end: int) -> None:
        self._tokenizer = tokenizer
        self._end = end
        self._answer: Sequence[int] = ()
        self.free: list[int] = []
        """Tokens that the model would have chosen if they had not been forced."""
        self._start: int | None = None

    def say(self, text: str) -> None:
        """Set the text of the next reply."""
        self._answer = (*self._tokenizer(text, add_special_tokens=False)["input_ids"], self._end)
        self._start = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Mask `scores` `(1, vocabulary)` except for the next token of the answer."""
        if self._start is None:
            self._start = input_ids.shape[1]
        self.free.append(int(scores.argmax()))
        token = self._answer[input_ids.shape[1] - self._start]
        forced = scores.new_full(scores.shape, float("-inf"))
        forced[:, token] = scores[:, token]
        return forced
