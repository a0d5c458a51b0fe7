"""`interleave-thinker run`: a request from plan to page; `redraw`: one more try at a step of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.errors import SettingsError
from ...backend.pipeline.request import read_request, read_text
from ...backend.types import RunSettings
from ..open_models import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ..options.models import with_model_options
from ..options.teachers import Parallel, TeacherOptions, run_requests
from ..run_request import ModelOptions, carry_out, read_plan_file


@with_model_options
def command(
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the run; the same again goes on where it was.")
    ],
    planning: PlannerOptions,
    constraints: PlanConstraints,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    local: LocalOptions,
    request: Annotated[str | None, typer.Argument(help="What to tell, in plain words.")] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            help='Carry out a file of requests instead, {"id", "user_input", "user_input_image"?} a line, '
            "each in a folder of its own below --out."
        ),
    ] = None,
    parallel: Parallel = 1,
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
    if (request is None) == (requests is None):
        raise SettingsError("There is no request, or there are two.", "Give a text, or --requests FILE.")
    if requests is not None:
        if image or plan or as_json:
            raise SettingsError("--image, --plan and --json are for a single request.", "Leave them out.")
        teachers = TeacherOptions(planning, constraints, judging, (drawing,), local)
        raise typer.Exit(run_requests(requests, out, teachers, settings, parallel))
    asked = read_request(request or "", image or [])
    given = read_plan_file(plan) if plan else None
    models = ModelOptions(planning, constraints, judging, drawing, local)
    outcome = carry_out(asked, out, settings, models, given, as_json)
    raise typer.Exit(outcome.code)


def redraw(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    prompt: Annotated[str, typer.Option(help="What to draw with; empty: the step's own prompt.")] = "",
    attempt: Annotated[
        int, typer.Option("--attempt", min=0, help="Draw with the prompt of this try, from 1, instead.")
    ] = 0,
) -> None:
    """Ask for one more try at a step, with another seed (choices.json in the run's folder).

    A run that is at that step draws it next. Otherwise the same run command again draws it and what depends
    on it. It becomes the step's result; the critic's verdict on it is recorded, too.
    """
    from ...backend.journal.picks import CHOICES
    from ...backend.journal.redraws import ask_redraw

    if prompt.strip() and attempt:
        raise SettingsError("There are two prompts to draw with.", "Give --prompt or --attempt.")
    asked = read_text("--prompt", prompt) if prompt.strip() else None
    ask_redraw(run, step, asked, _picture(run, step, attempt) if attempt else None)
    typer.echo(f"written to {run / CHOICES}; run the same command again to draw it")


def _picture(run: Path, step: int, attempt: int) -> str:
    """Digest of the image of a try, from 1."""
    from ...backend.feedback.log import Feedback
    from ...backend.feedback.rows import find_attempt
    from ...backend.loop.replay import load_trajectory

    return find_attempt(load_trajectory(run), Feedback(step=step, attempt=attempt - 1))[2].digest
