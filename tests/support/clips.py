"""Small stories of plain colors, and clips that blend from one image to the next."""

from __future__ import annotations

from PIL import Image

from interleave_thinker import Attempt, Picture, Plan, Request, Step, StepResult, StopReason, Trajectory
from interleave_thinker.backend.core.files.video import clip_of
from interleave_thinker.backend.core.types.clip import ClipPair, Footage
from interleave_thinker.backend.story.clips import clip_pairs, with_clips

COLORS = ("red", "blue", None, "green")


def plain(color: str, side: int = 32) -> Picture:
    return Picture(Image.new("RGB", (side, side), color))


def story(*colors: str | None, side: int = 32) -> Trajectory:
    """Return a story with one step per color; a step without a color has only text."""
    results = []
    for number, color in enumerate(colors, 1):
        if color is None:
            step = Step(number=number, auxiliary_text="Then it rained.")
            results.append(StepResult(step=step, stop_reason=StopReason.text_only))
            continue
        step = Step(number=number, prompt=f"All is {color}.")
        attempt = Attempt(prompt=step.prompt or "", seed=0, image=plain(color, side))
        results.append(StepResult(step=step, attempts=(attempt,), chosen=0, stop_reason=StopReason.unjudged))
    plan = Plan(steps=tuple(result.step for result in results))
    return Trajectory(request=Request(text="colors"), plan=plan, results=tuple(results))


def blend(pair: ClipPair, frames: int = 5) -> Footage:
    steps = [at / (frames - 1) for at in range(frames)]
    return Footage([Picture(Image.blend(pair.first.image, pair.last.image, at)) for at in steps], 8)


def with_blends(trajectory: Trajectory) -> Trajectory:
    """Return a story with a clip for each pair of images."""
    pairs = clip_pairs(trajectory)
    return with_clips(trajectory, [clip_of(pair, blend(pair), "blend") for pair in pairs])
