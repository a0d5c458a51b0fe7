"""`interleave-thinker run` carries out a request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ....backend.agents.plan_constraints import PlanConstraints
from ....backend.errors import SettingsError
from ....backend.pipeline.approval import approve_overdue
from ....backend.pipeline.as_published import PublishedSystem
from ....backend.pipeline.plan_file import read_plan_file
from ....backend.pipeline.prepared import read_request
from ....backend.types import RunSettings
from ...options.model_options import (
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    LocalOptions,
    PlannerOptions,
    RewritingOptions,
    ScorerOptions,
    StoryCheckOptions,
)
from ...options.models import typed_options, with_model_options
from ...options.panels import AUTOMATION, LIMITS, PLANNER
from ...options.teachers import TeacherOptions, run_requests
from ...run_request import ModelOptions, carry_out
from .decide import ask, is_interactive, say_approved
from .published import chosen, with_published, with_published_models
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
    choosing: ScorerOptions,
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
            "Edit Plan, or a script (Fountain, outline in Markdown or text, CSV shot list).",
            rich_help_panel=PLANNER,
        ),
    ] = None,
    published: Annotated[
        PublishedSystem | None,
        typer.Option(
            "--as",
            help="Set attempts, kept attempt, judgment of the last attempt, seeds, decoding and size as "
            "the released code or the paper does. Other options replace its values, and the run lists them.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    approve_after: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="If the run in --out has waited for approval for this many seconds, continue without it. "
            "The step is then 'approved by time', and the run ends with exit code 3.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event.", rich_help_panel=AUTOMATION)
    ] = False,
) -> None:
    """Plan, generate, judge and refine an interleaved story of images and texts.

    Results are written to --out while the run progresses. Run the same command again to resume. Edit
    plan.json in the run folder to change the steps: the next run generates only what has changed. With
    --pause the run ends with exit code 4 when it waits for your decision (see `approve`), or asks you if it
    is on a terminal.
    """
    if request is not None and requests is not None:
        raise SettingsError("A request and --requests cannot be combined.", "Remove one of them.")
    typed = typed_options(called)
    planning, judging, drawing = with_published_models(published, planning, judging, drawing, as_json)
    if requests is not None:
        own = (cast, rewriting, story_check, choosing) != (
            CastOptions(),
            RewritingOptions(),
            StoryCheckOptions(),
            ScorerOptions(),
        )
        if image or plan or as_json or own or settings.pause != "never" or approve_after is not None:
            raise SettingsError(
                "--image, --plan, --json, --pause, --approve-after, --cast, --cast-writer, --step-rewriter, "
                "--check-story, --story-checker and --scorer cannot be combined with --requests.",
                "Remove them.",
            )
        settings = with_published(published, settings, typed)
        teachers = TeacherOptions(planning, constraints, judging, (drawing,), local)
        raise typer.Exit(run_requests(requests, out, teachers, settings, parallel))
    before = None
    if request is None:
        before = last_run(out, typed, ROLES)
        if image:
            raise SettingsError("--image needs a request.", "Give the request too, or remove --image.")
        settings = before.settings.model_copy(update=chosen(settings, typed))
        constraints = before.constraints.model_copy(update=chosen(constraints, typed))
        asked = before.request
    else:
        asked = read_request(request, image or [])
    settings = with_published(published, settings, typed, as_json)
    given = read_plan_file(plan) if plan else None
    models = ModelOptions(
        planning, constraints, judging, drawing, local, cast, rewriting, story_check, choosing, published
    )
    if approve_after is not None:
        say_approved(approve_overdue(out, approve_after), as_json)
    asks = None if as_json or not is_interactive() else ask
    outcome = carry_out(asked, out, settings, models, given, as_json, before, asks)
    raise typer.Exit(outcome.code)
