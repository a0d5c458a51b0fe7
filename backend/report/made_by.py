"""The models that made a run, as pages and reports list them."""

from __future__ import annotations

from ..prompts.versions import described
from ..types import Trajectory


def made_by(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return name and identity of every known model of the run; prompt sets by name, version and digest."""
    known = {**trajectory.identities.model_dump()}
    known["prompt_set"] = described(known["prompt_set"])
    return [(name.replace("_", " "), value) for name, value in known.items() if value]
