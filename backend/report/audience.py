"""A story for those who are to enjoy it: its texts and the picture that each step kept, and nothing of how it
was made.

Decision: what an audience sees is chosen here once, for every export. Verdicts, tries, prompts, names of
steps and steps that came to nothing are left out. The text of a step is what the planner wrote for the
reader; only a story without any such text is told by its instructions.
"""

from __future__ import annotations

from ..pictures import Picture
from ..types import Trajectory, Value
from .outcomes import story_steps, title_of


class Panel(Value):
    """A part of a story: a picture, a text, or both; `number` is that of its step in the plan, `name` what
    the plan calls it."""

    number: int
    name: str = ""
    picture: Picture | None = None
    text: str = ""


def panels_of(trajectory: Trajectory) -> tuple[Panel, ...]:
    """The story in order; empty if nothing of it was carried out."""
    steps = [shown for shown in story_steps(trajectory) if shown.result is not None]
    written = any(shown.step.auxiliary_text for shown in steps)
    panels = []
    for shown in steps:
        text = (shown.step.auxiliary_text or "") if written else (shown.step.instruction or "")
        picture = shown.result.image if shown.result else None
        if picture or text.strip():
            panel = Panel(
                number=shown.step.number, name=shown.step.name.strip(), picture=picture, text=text.strip()
            )
            panels.append(panel)
    return tuple(panels)


def title_for(trajectory: Trajectory, title: str = "") -> str:
    """The given title, else the beginning of the request."""
    return " ".join(title.split()) or title_of(trajectory)
