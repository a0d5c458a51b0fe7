"""`interleave-thinker plan`: prints the plan of a request without generating images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.pipeline.request import read_request
from ..open_models import LocalOptions, Opener, PlannerOptions
from ..options.models import with_model_options
from ..progress import Lines, plan_lines
from ..run_request import check_words, constrained, warn_of


@with_model_options
def command(
    request: Annotated[str, typer.Argument(help="What the story is about.")],
    planning: PlannerOptions,
    constraints: PlanConstraints,
    local: LocalOptions,
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", help="Input image. Repeat it for several, in the order of the request."),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the plan as JSON. Save it, edit it and carry it out with `run --plan FILE`."
        ),
    ] = False,
) -> None:
    """Print the plan of a request without generating images."""
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
    warn_of(plan)
    if as_json:
        print(plan.model_dump_json(indent=2))
        return
    for line in plan_lines(plan):
        view.say(line)
