"""Says before the first image how many images a hosted generator may be asked for.

Prices are not known here: they differ by provider, model and size, and change.
"""

from __future__ import annotations

import typer

from ...backend.loop.policy import max_attempts_in, max_attempts_of
from ...backend.remote.addresses import hosted_specs
from ...backend.shown_text import shown_text
from ...backend.types import Plan, RunSettings
from ..progress import plural


def most_images(plan: Plan, settings: RunSettings, judged: bool) -> int:
    """Return the maximum number of images that a run of this plan generates.

    Args:
        plan: The plan. Text-only steps have no image.
        settings: Settings of the run.
        judged: Whether there is a critic. Without one, each step is generated once.
    """
    steps = [step for step in plan.steps if step.prompt is not None]
    images = sum(max_attempts_of(step, settings) if judged else 1 for step in steps)
    return images if settings.max_draws is None else min(images, settings.max_draws)


def cost_line(generator: str, settings: RunSettings, judged: bool, plan: Plan | None = None) -> str:
    """Return the line about the cost of a hosted generator, or an empty text for a generator of one's own.

    Args:
        generator: Generator as NAME:ARGUMENT.
        settings: Settings of the run.
        judged: Whether there is a critic.
        plan: The plan, if there is one already.
    """
    if not hosted_specs([generator]):
        return ""
    attempts = plural(max_attempts_in(plan, settings) if judged else 1, "attempt")
    if plan is None:
        most = f"up to {attempts} per step"
    else:
        steps = plural(sum(step.prompt is not None for step in plan.steps), "step")
        most = (
            f"up to {plural(most_images(plan, settings, judged), 'image')} ({steps}, up to {attempts} each)"
        )
    return (
        f"{shown_text(generator)} is hosted. Its provider may charge for each image: {most}. "
        "--max-draws N limits the images of a run."
    )


def say_cost(generator: str, settings: RunSettings, judged: bool, plan: Plan | None = None) -> None:
    """Print the line about the cost to stderr. The arguments are those of `cost_line`."""
    if line := cost_line(generator, settings, judged, plan):
        typer.secho(line, err=True)
