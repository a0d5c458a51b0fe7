"""Handmade finished runs for tests, with every possible end of an attempt and a step."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from PIL import Image, ImageDraw

from interleave_thinker import Attempt, Picture, Plan, RunSettings, StepResult, StopReason
from interleave_thinker.backend.core.types import Fault, Identities, Request, Score, Step, Trajectory, Verdict

REQUEST = (
    "Tell the story of a little sailing boat that leaves the harbour at dawn, meets a fish, and is home "
    "before the moon rises. Draw every step and tell me in one sentence what happens."
)
SCENES = (
    (
        "The harbour at dawn",
        "Draw the empty bay with a small red boat.",
        "a calm bay at dawn, one red sailing boat",
    ),
    ("The sun comes up", "Add the sun to the upper right.", "add a yellow sun in the upper right corner"),
    (
        "A fish says hello",
        "Add an orange fish under the boat.",
        "add an orange fish in the water below the boat",
    ),
    ("Night falls", "Make it night, with a moon.", "change the sky to night and the sun to a pale moon"),
)
TELLINGS = (
    "Very early, when the bay was as smooth as glass, the little boat hoisted its sail.",
    "The sun came up behind the hills and painted a golden road on the water.",
    None,
    "When the moon looked over the hills, the boat was already dreaming of tomorrow.",
)


def drawing(stage: int, fault: int = 0, size: int = 96) -> Picture:
    """Return the bay after `stage` scenes (1..4).

    A `fault` above 0 moves and recolors what the stage added.
    """
    night = stage >= 4
    image = Image.new("RGB", (100, 100), (28, 34, 74) if night else (255, 214, 170))
    draw = ImageDraw.Draw(image)
    draw.rectangle([0, 62, 100, 100], fill=(38, 76, 120) if night else (104, 176, 196))
    if stage >= 2:
        x = 22 if fault and stage == 2 else 78
        sun = (120, 190, 90) if fault == 2 and stage == 2 else (250, 196, 60)
        draw.ellipse([x - 10, 10, x + 10, 30], fill=(238, 238, 220) if night else sun)
    boat = (70, 110, 200) if fault and stage == 1 else (212, 62, 52)
    draw.polygon([(30, 60), (70, 60), (62, 72), (38, 72)], fill=boat)
    draw.polygon([(50, 25), (50, 57), (68, 57)], fill=(252, 250, 244))
    if stage >= 3:
        y = 45 if fault and stage == 3 else 85
        draw.ellipse([40, y - 5, 60, y + 5], fill=(240, 140, 50))
    return Picture(image.resize((size, size), Image.Resampling.LANCZOS))


def assert_apart(size: tuple[int, int], boxes: Sequence[tuple[int, int, int, int]]) -> None:
    """Assert that the boxes (left, top, right, bottom) are on a page of this size and do not overlap."""
    assert all(0 <= one[0] < one[2] <= size[0] and 0 <= one[1] < one[3] <= size[1] for one in boxes)
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def make_trajectory(
    steps: int = 4,
    *,
    size: int = 96,
    request: str = REQUEST,
    request_images: int = 0,
    text_step: bool = True,
    failures: bool = True,
    cut_short: bool = False,
    decorate: str = "",
) -> Trajectory:
    """Return a run with `steps` steps with images and, with `text_step`, a text-only step at the end.

    Step 1 is accepted at attempt 2, step 2 at attempt 1, step 3 uses up its attempts (with `failures`: one
    image failed and one verdict was unreadable), step 4 is not judged, and so on in turn. `cut_short` leaves
    the last step unreached and cancels the one before it; `decorate` is put into every text field.
    """
    images = tuple(drawing(1 + index % 4, size=size) for index in range(request_images))
    plan: list[Step] = []
    results: list[StepResult] = []
    before = images[-1] if images else None
    for index in range(steps):
        name, instruction, prompt = SCENES[index % 4]
        step = Step(
            number=index + 1,
            name=name + decorate,
            instruction=instruction + decorate,
            prompt=prompt + decorate,
            auxiliary_text=(TELLINGS[index % 4] or None) and f"{TELLINGS[index % 4]}{decorate}",
        )
        plan.append(step)
        result = _result(step, index, before, size, failures, decorate)
        before = result.image or before
        results.append(result)
    if text_step:
        step = Step(
            number=steps + 1, name="The end" + decorate, auxiliary_text="And so ended a long day." + decorate
        )
        plan.append(step)
        results.append(StepResult(step=step, stop_reason=StopReason.text_only))
    if cut_short:
        results = results[:-1]
        results[-1] = results[-1].model_copy(update={"stop_reason": StopReason.cancelled})
    return Trajectory(
        request=Request(text=request + decorate, images=images),
        plan=Plan(
            steps=tuple(plan), reasoning="Four scenes, from dawn to night, each a small change." + decorate
        ),
        results=tuple(results),
        settings=RunSettings(max_attempts=3, seed=7),
        identities=Identities(
            planner="scripted planner" + decorate,
            generator="painted 96x96" + decorate,
            critic="scripted critic" + decorate,
            prompt_set="5f2a9c31d07be844",
        ),
    )


def _result(
    step: Step, index: int, before: Picture | None, size: int, failures: bool, decorate: str
) -> StepResult:
    stage, prompt = 1 + index % 4, step.prompt or ""
    refined = f"{prompt}, exactly there, and keep everything else unchanged"
    refused = Verdict(
        success=False,
        refined_prompt=refined,
        reasoning=f"What was asked for is not where it should be.\nEverything else was kept.{decorate}",
        probability=0.08,
    )
    passed = Verdict(
        success=True, refined_prompt=refined, reasoning=f"All is as asked.{decorate}", probability=0.964
    )
    unread = Verdict(success=None, reasoning=f"I like boats.{decorate}")
    good, bad = drawing(stage, size=size), drawing(stage, 1, size)
    first = Attempt(
        prompt=prompt, seed=191_210_664_021_337 + index, source=before, image=bad, verdict=refused,
        seconds=1.31,
    )  # fmt: skip
    second = first.model_copy(
        update={
            "prompt": refined,
            "seed": 77_120_993 + index,
            "image": good,
            "verdict": passed,
            "seconds": 1.12,
        }
    )
    if stage == 1:
        return StepResult(step=step, attempts=(first, second), chosen=1, stop_reason=StopReason.accepted)
    if stage == 2:
        only = second.model_copy(update={"prompt": prompt, "score": Score(semantics=9.0, quality=8.0)})
        return StepResult(step=step, attempts=(only,), chosen=0, stop_reason=StopReason.accepted)
    if stage == 3:
        attempts = [
            first,
            second.model_copy(update={"verdict": refused.model_copy(update={"probability": 0.41})}),
        ]
        if failures:
            fault = Fault(where="generator", message=f"Out of memory while generating.{decorate}")
            failed = first.model_copy(update={"image": None, "verdict": None, "error": fault, "seconds": 0.2})
            unreadable = first.model_copy(update={"verdict": unread})
            attempts = [failed, unreadable, attempts[1]]
        return StepResult(
            step=step,
            attempts=tuple(attempts),
            chosen=len(attempts) - 1,
            stop_reason=StopReason.attempts_used_up,
        )
    only = second.model_copy(update={"prompt": prompt, "verdict": None})
    return StepResult(step=step, attempts=(only,), chosen=0, stop_reason=StopReason.unjudged)
