"""The scripted cases: a request, a plan and verdicts each, the same for both sides.

A verdict belongs to the prompt that its image was generated with, and every prompt occurs once. So a side
that generates or judges in another order still gets the verdicts of the case.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...backend.answers.reading import write_plan, write_verdict
from ...backend.pictures import Picture
from ...backend.prompts.published import ENDING
from ...backend.types import Plan, Request, Step, Verdict
from .child import paint

THINGS = ("a red fox", "a stone bridge", "a paper lantern \u706f\u7c60")
CAPTIONS = ("\u201cOnce,\u201d there was a fox. ", None, "A lantern glows: 100 % of the night. ")
"""Captions of the steps. The second step has none, so its instruction is its text."""


@dataclass(frozen=True)
class ParityCase:
    """A request with the replies of planner and critic.

    Attributes:
        name: Name of its column.
        request: The request.
        plan: The plan.
        verdicts: Verdict by the prompt of the attempt.
    """

    name: str
    request: Request
    plan: Plan
    verdicts: dict[str, Verdict]

    @property
    def plan_reply(self) -> str:
        """The planner's reply."""
        return write_plan(self.plan)

    @property
    def verdict_replies(self) -> dict[str, str]:
        """The critic's replies."""
        return {prompt: write_verdict(verdict) for prompt, verdict in self.verdicts.items()}

    def step_of(self, prompt: str) -> int:
        """Return the index of the step of a prompt; -1 if the case does not contain it."""
        return next((index for index, thing in enumerate(THINGS) if thing in prompt), -1)


def _case(name: str, verdicts: str, text: str, images: tuple[Picture, ...] = ()) -> ParityCase:
    """Return a case whose verdicts are given as one word per step: `y` accepts, `n` rejects."""
    steps: list[Step] = []
    judged: dict[str, Verdict] = {}
    for index, (thing, row) in enumerate(zip(THINGS, verdicts.split(), strict=True)):
        prompt = f'Add {thing} to the page, in "soft" water colors.'
        steps.append(
            Step(
                number=index + 1,
                name=f"Draw {thing}",
                instruction=f"Show {thing}.",
                prompt=prompt,
                auxiliary_text=CAPTIONS[index],
            )
        )
        for number, answer in enumerate(row, 1):
            refined = prompt if answer == "y" else f"Add {thing} to the page, whole. Version {number}."
            reasoning = f"{thing} is {'there' if answer == 'y' else 'cut off'}."
            judged[prompt] = Verdict(success=answer == "y", reasoning=reasoning, refined_prompt=refined)
            prompt = refined
    return ParityCase(name, Request(text=text, images=images), Plan(steps=tuple(steps)), judged)


def make_cases() -> tuple[ParityCase, ...]:
    """Return all cases. Those with images come last."""
    first, second = (Picture(paint(f"image {number} of the user", None)) for number in (1, 2))
    text = "A fox crosses a bridge by lantern light, \u00e0 pas de loup"
    return (
        _case("accepted", "y y y", f"{text}{ENDING}."),
        _case("mixed", "y ny nny", text),
        _case("rejected", "nnn nnn nnn", text),
        _case("one image", "nnn y ny", text, (first,)),
        _case("two images", "y ny nnn", f"The fox of <image> meets that of <image>. {text}", (first, second)),
    )
