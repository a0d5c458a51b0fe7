"""`interleave-thinker demo`: runs a built-in story in the tiny world, without downloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...backend.agents.plan_constraints import PlanConstraints
from ...backend.pipeline.prepared import read_request
from ...backend.types import RunSettings
from ...tinyworld.runtime import DEMO_REQUEST, DEMO_SEED
from ..options.model_options import CriticOptions, GeneratorOptions, LocalOptions, PlannerOptions
from ..options.models import with_model_options
from ..options.panels import AUTOMATION
from ..run_request import ModelOptions, carry_out


@with_model_options
def command(
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    local: LocalOptions,
    out: Annotated[Path, typer.Option("--out", help="Run folder; the page is index.html in it.")] = Path(
        "interleave-demo"
    ),
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**48, help="Base seed of the images.")
    ] = DEMO_SEED,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event.", rich_help_panel=AUTOMATION)
    ] = False,
) -> None:
    """Run a built-in story and write its page, index.html.

    With the default models it needs neither a network nor a GPU.
    """
    request, settings = read_request(DEMO_REQUEST, []), RunSettings(seed=seed)
    models = ModelOptions(planning, PlanConstraints(), judging, drawing, local)
    outcome = carry_out(request, out, settings, models, as_json=as_json)
    if show and outcome.page:
        typer.launch(str(outcome.page))
    raise typer.Exit(outcome.code)
