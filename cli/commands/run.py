"""`interleave-thinker run`: a request from plan to page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.types import RunSettings
from ..model_options import with_model_options
from ..open_models import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ..run_request import ModelOptions, carry_out, read_plan_file, read_request


@with_model_options
def command(
    request: Annotated[str, typer.Argument(help="What to tell, in plain words.")],
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the run; the same again goes on where it was.")
    ],
    planning: PlannerOptions,
    wishes: PlanConstraints,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    local: LocalOptions,
    image: Annotated[
        list[Path] | None, typer.Option("--image", help="An image of the request; repeat in their order.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Carry out this plan (as in plan.json) and ask no planner.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False,
) -> None:
    """Plan a request, draw every step, have the critic judge it and redraw until it is right.

    Everything goes into the --out folder as it happens. Stop it, kill it, edit plan.json in it: the same
    command again repeats only what is missing or changed.
    """
    asked = read_request(request, image or [])
    given = read_plan_file(plan) if plan else None
    models = ModelOptions(planning, wishes, judging, drawing, local)
    outcome = carry_out(asked, out, settings, models, given, as_json)
    raise typer.Exit(outcome.code)
