"""`interleave-thinker run` carries out a request; `redraw` requests one more attempt at a step of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.errors import SettingsError
from ...backend.pipeline.plan_file import read_plan_file
from ...backend.pipeline.request import read_request, read_text
from ...backend.types import RunSettings
from ..options.model_options import (
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    LocalOptions,
    PlannerOptions,
    RewritingOptions,
    StoryCheckOptions,
)
from ..options.models import typed_options, with_model_options
from ..options.panels import AUTOMATION, PLANNER
from ..options.teachers import TeacherOptions, run_requests
from ..run_request import ModelOptions, carry_out
from .resume import last_run

ROLES = {
    "planner": PlannerOptions.model_fields,
    "critic": CriticOptions.model_fields,
    "generator": GeneratorOptions.model_fields,
}


@with_model_options
def command(
    called: typer.Context,
    *,
    out: Annotated[Path, typer.Option("--out", help="Run folder. Use an existing one to resume its run.")],
    planning: PlannerOptions,
    constraints: PlanConstraints,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    local: LocalOptions,
    cast: CastOptions,
    rewriting: RewritingOptions,
    story_check: StoryCheckOptions,
    request: Annotated[
        str | None,
        typer.Argument(
            help="What the story is about. Leave it out to resume the run in --out with its request."
        ),
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(
            help='JSONL file of requests, {"id", "user_input", "user_input_image"?} per line. '
            "Each is run in its own folder in --out.",
            rich_help_panel=AUTOMATION,
        ),
    ] = None,
    parallel: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Requests of --requests to run at the same time.",
            rich_help_panel=AUTOMATION,
        ),
    ] = 1,
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", help="Input image. Repeat it for several, in the order of the request."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            help="Carry out this plan without a planner: plan.json of a run, a planner's answer, a plan of "
            "Edit Plan, or a script (Fountain, Markdown outline, CSV shot list).",
            rich_help_panel=PLANNER,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event.", rich_help_panel=AUTOMATION)
    ] = False,
) -> None:
    """Plan, generate, judge and refine an interleaved story of images and texts.

    Results are written to --out while the run progresses. Run the same command again to resume. Edit
    plan.json in the run folder to change the steps: the next run generates only what has changed.
    """
    if request is not None and requests is not None:
        raise SettingsError("A request and --requests cannot be combined.", "Remove one of them.")
    if requests is not None:
        own = (cast, rewriting, story_check)
        if image or plan or as_json or own != (CastOptions(), RewritingOptions(), StoryCheckOptions()):
            raise SettingsError(
                "--image, --plan, --json, --cast, --cast-writer, --step-rewriter, --check-story and "
                "--story-checker cannot be combined with --requests.",
                "Remove them.",
            )
        teachers = TeacherOptions(planning, constraints, judging, (drawing,), local)
        raise typer.Exit(run_requests(requests, out, teachers, settings, parallel))
    before = None
    if request is None:
        typed = typed_options(called)
        before = last_run(out, typed, ROLES)
        if image:
            raise SettingsError("--image needs a request.", "Give the request too, or remove --image.")
        settings = before.settings.model_copy(update=_chosen(settings, typed))
        constraints = before.constraints.model_copy(update=_chosen(constraints, typed))
        asked = before.request
    else:
        asked = read_request(request, image or [])
    given = read_plan_file(plan) if plan else None
    models = ModelOptions(planning, constraints, judging, drawing, local, cast, rewriting, story_check)
    outcome = carry_out(asked, out, settings, models, given, as_json, before)
    raise typer.Exit(outcome.code)


def _chosen(settings: RunSettings | PlanConstraints, typed: set[str]) -> dict[str, object]:
    """Return the settings that are on the command line."""
    return {name: getattr(settings, name) for name in type(settings).model_fields if name in typed}


def redraw(
    *,
    run: Annotated[Path, typer.Argument(help="The --out folder of a run.", exists=True, file_okay=False)],
    step: Annotated[int, typer.Option(min=1, help="Number of the step in the plan.")],
    prompt: Annotated[str, typer.Option(help="Prompt for the image. Default: the prompt of the step.")] = "",
    attempt: Annotated[
        int, typer.Option("--attempt", min=0, help="Use the prompt of this attempt (counted from 1) instead.")
    ] = 0,
) -> None:
    """Request one more attempt at a step, with a new seed.

    The request is stored in choices.json in the run folder. A run that is at this step generates the image
    next. Otherwise run the same command again: it generates the image and the later steps that depend on it.
    The new image becomes the step's result, and the critic's verdict on it is recorded.
    """
    from ...backend.journal.picks import CHOICES
    from ...backend.journal.redraws import ask_redraw

    if prompt.strip() and attempt:
        raise SettingsError("--prompt and --attempt cannot be combined.", "Remove one of them.")
    new_prompt = read_text("--prompt", prompt) if prompt.strip() else None
    ask_redraw(run, step, new_prompt, _image_of(run, step, attempt) if attempt else None)
    typer.echo(f"Saved to {run / CHOICES}. Run the same command again to generate the image.")


def _image_of(run: Path, step: int, attempt: int) -> str:
    """Return the digest of the image of an attempt, counted from 1."""
    from ...backend.feedback.log import Feedback
    from ...backend.feedback.rows import find_attempt
    from ...backend.loop.replay import load_trajectory

    return find_attempt(load_trajectory(run), Feedback(step=step, attempt=attempt - 1))[2].digest
