"""The models that made a run, as pages and reports list them."""

from __future__ import annotations

from ..prompts.prompt_set import shown_prompt_sets
from ..types import Trajectory


def made_by(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return name and identity of every known model of the run; prompt sets by name."""
    known = {**trajectory.identities.model_dump()}
    known["prompt_set"] = shown_prompt_sets(known["prompt_set"])
    return [(name.replace("_", " "), value) for name, value in known.items() if value]
