"""A story for its readers: its texts and the image that each step kept, without how it was made.

What readers see is decided here, once for all exports. Verdicts, attempts, prompts, step names and steps
without a result are left out. The text of a step is the text that the planner wrote for the reader. Only a
story without any such text shows its instructions instead. If no step of the plan generates an image, the
story is about the images of its request, so these come first.
"""

from __future__ import annotations

from ..pictures import Picture
from ..types import Trajectory, Value
from .outcomes import story_steps, title_of


class Panel(Value):
    """One part of a story: an image, a text, or both.

    `number` is the number of its step in the plan, `name` the name of that step. For an image of the request,
    `number` is its place in the request.
    """

    number: int
    name: str = ""
    picture: Picture | None = None
    text: str = ""


def panels_of(trajectory: Trajectory) -> tuple[Panel, ...]:
    """Return the parts of the story in order; empty if no step was run."""
    steps = [shown for shown in story_steps(trajectory) if shown.result is not None]
    written = any(shown.step.auxiliary_text for shown in steps)
    panels = list(given_panels(trajectory)) if steps else []
    for shown in steps:
        text = (shown.step.auxiliary_text or "") if written else (shown.step.instruction or "")
        picture = shown.result.image if shown.result else None
        if picture or text.strip():
            panel = Panel(
                number=shown.step.number, name=shown.step.name.strip(), picture=picture, text=text.strip()
            )
            panels.append(panel)
    return tuple(panels)


def given_panels(trajectory: Trajectory) -> tuple[Panel, ...]:
    """Return the images of the request if the plan has only text-only steps; otherwise nothing."""
    if any(step.prompt for step in trajectory.plan.steps):
        return ()
    return tuple(Panel(number=place, picture=one) for place, one in enumerate(trajectory.request.images, 1))


def title_for(trajectory: Trajectory, title: str = "") -> str:
    """Return the given title, else the beginning of the request."""
    return " ".join(title.split()) or title_of(trajectory)
