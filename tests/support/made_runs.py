"""Handmade runs for the tests of training data: one step each, with attempts identified by gray value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from interleave_thinker import Attempt, Picture, Plan, Step, StepResult, StopReason
from interleave_thinker.backend.core.types import Identities, Request, RunSettings, Score, Trajectory, Verdict
from interleave_thinker.backend.output.feedback_log import Feedback, record_feedback
from interleave_thinker.backend.story.journal.copy import save_trajectory

PROMPT = "a light page"
Told = tuple[int, bool | None, float | None]
"""Gray value of the image (0..255), the verdict (`None`: unreadable), the overall score, if any."""


def grey_page(grey: int) -> Picture:
    """Return a small image of one shade."""
    return Picture(Image.new("RGB", (48, 48), (grey, grey, grey)))


def made_run(
    folder: Path,
    attempts: Sequence[Told],
    source: int | None = 128,
    prompt: str = PROMPT,
    prompt_set: str = "",
) -> Path:
    """Write a run's folder with one step.

    Attempt n has the prompt "PROMPT n", and its critic refined to the next.
    """
    before = None if source is None else grey_page(source)
    made = [
        Attempt(
            prompt=prompt if number == 0 else f"{prompt} {number}",
            seed=number,
            source=before,
            image=grey_page(grey),
            verdict=Verdict(success=said, refined_prompt=f"{prompt} {number + 1}", reasoning=f"seen {grey}"),
            score=None if overall is None else Score(semantics=overall, quality=overall),
        )
        for number, (grey, said, overall) in enumerate(attempts)
    ]
    return run_of(folder, made, prompt=prompt, prompt_set=prompt_set)


def run_of(
    folder: Path,
    attempts: Sequence[Attempt],
    critic: str = "hand",
    prompt: str = PROMPT,
    prompt_set: str = "",
) -> Path:
    """Write a run's folder with one step that has these attempts."""
    step = Step(number=1, prompt=prompt)
    result = StepResult(
        step=step, attempts=tuple(attempts), chosen=len(attempts) - 1, stop_reason=StopReason.attempts_used_up
    )
    return save_trajectory(
        Trajectory(
            request=Request(text="a page"),
            plan=Plan(steps=(step,)),
            results=(result,),
            settings=RunSettings(),
            identities=Identities(planner="hand", generator="hand", critic=critic, prompt_set=prompt_set),
        ),
        folder,
    )


def accepted_story(*pages: Picture) -> Trajectory:
    """Return a story of these images, each with text and accepted at the first attempt."""
    steps = tuple(
        Step(number=number, prompt=f"page {number}", auxiliary_text=f"Words {number}.")
        for number, _ in enumerate(pages, 1)
    )
    results = []
    for step, page in zip(steps, pages, strict=True):
        prompt = step.prompt or ""
        verdict = Verdict(success=True, refined_prompt=prompt)
        attempt = Attempt(prompt=prompt, seed=0, image=page, verdict=verdict)
        results.append(StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.accepted))
    request = Request(text="Tell of pages.")
    return Trajectory(request=request, plan=Plan(steps=steps), results=tuple(results))


def say(folder: Path, attempt: int, accepted: bool | None = None, **said: str) -> None:
    """Record a person's feedback on an attempt."""
    record_feedback(folder, Feedback(step=1, attempt=attempt, accepted=accepted, **said))
