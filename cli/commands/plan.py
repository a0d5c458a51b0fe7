"""`interleave-thinker plan`: what would be drawn, before anything is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.pipeline.request import read_request
from ..open_models import LocalOptions, Opener, PlannerOptions
from ..options.models import with_model_options
from ..progress import Lines, plan_lines
from ..run_request import check_words, constrained, warn


@with_model_options
def command(
    request: Annotated[str, typer.Argument(help="What to tell, in words.")],
    planning: PlannerOptions,
    constraints: PlanConstraints,
    local: LocalOptions,
    image: Annotated[
        list[Path] | None, typer.Option("--image", help="An image of the request; repeat in their order.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print it as `run --plan FILE` reads it, to edit and carry out.")
    ] = False,
) -> None:
    """Print the plan of a request."""
    asked = read_request(request, image or [])
    check_words(planning.planner, asked.text)
    view = Lines()
    if not as_json:
        view.wait("Planning")
    try:
        opener = Opener(local)
        planner = constrained(opener.planner(planning, view.planning), constraints)
        opener.finish()
        plan = planner.plan(asked)
    finally:
        view.wait("")
    warn(plan)
    if as_json:
        print(plan.model_dump_json(indent=2))
        return
    for line in plan_lines(plan):
        view.say(line)
