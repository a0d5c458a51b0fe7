"""`interleave-thinker run` carries out a request, `demo` a built-in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...backend.core.errors import JournalError, SettingsError
from ...backend.core.files.atomic import write_text
from ...backend.core.types import Plan, RunSettings
from ...backend.models.chat.local.base_model import EngineSettings
from ...backend.models.generators import GENERATORS
from ...backend.output.live.browser_requests import run_folder
from ...backend.pipeline.as_published import REPLY_SETTINGS, SIZES, STORY_SETTINGS, PublishedSystem
from ...backend.pipeline.models import TINY_WORLD
from ...backend.pipeline.plan_file import read_plan_file
from ...backend.pipeline.prepared import plan_of, read_request
from ...backend.story.agents.plan_constraints import PlanConstraints
from ...backend.story.journal.run_files import PICTURES, PLAN, RUN
from ...tinyworld import DEMO_REQUEST, DEMO_SEED
from ..models import (
    NONE,
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    HelperOptions,
    LocalOptions,
    PlannerOptions,
    given,
)
from ..progress import JsonLines
from ..run_request import Before, ModelOptions, carry_out, last_run
from ..settings import GIVEN, with_settings
from ..shared_options import InputImages, Json
from .decide import ask, is_interactive

STORIES = Path("interleave-stories")
"""Folder of runs without --out; `app` has the same."""
NAMES: dict[PublishedSystem, str] = {"released": "the released code", "paper": "the paper"}


@with_settings
def command(
    *,
    context: typer.Context,
    request: Annotated[
        str | None,
        typer.Argument(help="What the story is about. Without it, the run in --out is resumed."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help=f"Run folder; an existing one is resumed. Default: named by the request, in {STORIES}.",
        ),
    ] = None,
    image: InputImages = None,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    settings: RunSettings,
    constraints: PlanConstraints,
    cast: CastOptions,
    helpers: HelperOptions,
    local: LocalOptions,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            help="Carry out this plan without a planner: plan.json of a run, a planner's answer, a plan of "
            "Edit Plan, or a script (Fountain, outline in Markdown or text, CSV shot list).",
        ),
    ] = None,
    story: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Run the story of this run folder again, in --out, with another --cast, --style, --size or "
            "--language. Its plan and settings stay, and images that the change does not affect. Name its "
            "models again, or add --config FOLDER/run.yaml.",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="With --from: the planner translates the captions into this language."),
    ] = None,
    published: Annotated[
        PublishedSystem | None,
        typer.Option(
            "--as",
            help="Set attempts, kept attempt, judgment of the last attempt, seeds, decoding and size as the "
            "released code or the paper does. Other options replace its values, and the run lists them.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Plan, generate, judge and refine an interleaved story of images and texts.

    Results are written to --out while the run progresses. Run the same command again to resume. Edit
    plan.json in the run folder to change the steps: the next run generates only what has changed. With
    --pause the run ends with exit code 4 when it waits for your decision (see `approve`), or asks you if it
    is on a terminal.
    """
    before = own_plan = None
    own = given(settings)
    roles = {"planner": planning, "critic": judging, "generator": drawing}
    named = [role for role, options in roles.items() if options.model_fields_set]
    if story is not None:
        before, own_plan = _varied(context, story, out, named)
    elif language is not None:
        raise SettingsError("--language is for the story of another run.", "Add --from.")
    elif request is None:
        if out is None:
            raise SettingsError("No request is given.", "Give one, or the folder of a run with --out.")
        before = last_run(out, named)
        if image:
            raise SettingsError("--image needs a request.", "Give the request too, or remove --image.")
        constraints = before.constraints.model_copy(update=given(constraints))
    if before is None:
        asked = read_request(request or "", image or [])
    else:
        asked = before.request
        settings = before.record.settings.model_copy(update=own)
    out = out or run_folder(STORIES, asked, settings.seed)
    if published is not None:
        planning, judging, drawing = published_models(published, planning, judging, drawing, as_json)
        settings = _published_settings(published, settings, own, as_json)
    if story is not None:
        image, plan = [out / PICTURES / f"{one.digest}.png" for one in asked.images], out / PLAN
    elif plan is not None:
        own_plan = read_plan_file(plan)
    language = None if (out / RUN).is_file() else language
    models = ModelOptions(planning, judging, drawing, local, constraints, cast, helpers, published, language)
    asks = None if as_json or not is_interactive() else ask
    try:
        outcome = carry_out(asked, out, settings, models, own_plan, as_json, before, asks)
    finally:
        if (request is not None or story is not None) and (out / RUN).is_file():
            places = {
                "image": [str(one.absolute()) for one in image or ()],
                "plan": plan and str(plan.absolute()),
            }
            values = {"request": asked.text, **places, "published": published, **context.meta[GIVEN]}
            lines = [
                f"{name}: {json.dumps(value)}\n" for name, value in values.items() if value not in (None, [])
            ]
            write_text(out / "run.yaml", "".join(lines), JournalError)
    raise typer.Exit(outcome.code)


@with_settings
def demo(
    *,
    out: Annotated[Path, typer.Option(help="Run folder; the page is index.html in it.")] = Path(
        "interleave-demo"
    ),
    seed: Annotated[int, typer.Option(min=0, max=2**48, help="Base seed of the images.")] = DEMO_SEED,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    local: LocalOptions,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Run a built-in story and write its page, index.html.

    With the default models it needs neither a network nor a GPU.
    """
    if TINY_WORLD in (planning.planner, judging.critic):
        # By default these agents read every question whole, for equal rounding.
        local = local.model_copy(update={"engine": EngineSettings(**local.engine.model_dump())})
    models = ModelOptions(planning, judging, drawing, local)
    outcome = carry_out(read_request(DEMO_REQUEST, []), out, RunSettings(seed=seed), models, as_json=as_json)
    if show and outcome.page:
        typer.launch(str(outcome.page))
    raise typer.Exit(outcome.code)


def _varied(context: typer.Context, story: Path, out: Path | None, named: list[str]) -> tuple[Before, Plan]:
    """Return the run whose story is varied, and its plan; that of the new run, once it has begun."""
    if out is None or out.resolve() == story.resolve():
        raise SettingsError("The new story needs a folder of its own.", "Add --out.")
    sources = [context.get_parameter_source(name) for name in ("request", "image", "plan")]
    if any(one is not None and one.name == "COMMANDLINE" for one in sources):
        raise SettingsError("--from has a request and a plan already.", "Remove yours.")
    plan = plan_of(out if (out / RUN).is_file() else story)
    return last_run(story, named), plan


def published_models(
    system: PublishedSystem,
    planning: PlannerOptions,
    judging: CriticOptions,
    drawing: GeneratorOptions,
    as_json: bool = False,
) -> tuple[PlannerOptions, CriticOptions, GeneratorOptions]:
    """Return the options of the models with the published decoding and size where none is set; print them.

    A generator whose size cannot be set keeps its size, which `not_as_published` reports.
    """
    replies = {name: value for name, value in REPLY_SETTINGS[system].items() if value is not None}
    has_size = drawing.generator != NONE and "size" in GENERATORS.option_names(drawing.generator)
    size = {"size": SIZES[system]} if has_size and SIZES[system] else {}
    added: dict[str, Any] = {}
    found: list[Any] = []
    for options, prefix, values in (
        (planning, "planner.", replies),
        (judging, "critic.", replies),
        (drawing, "", size),
    ):
        unset = {name: value for name, value in values.items() if getattr(options, name) is None}
        added |= {f"{prefix}{name}": value for name, value in unset.items()}
        found.append(options.model_copy(update=unset))
    if added and as_json:
        JsonLines().object("published_models", system=system, settings=added)
    elif added:
        typer.echo(f"Models as in {NAMES[system]}: {_listed(added)}.")
    return found[0], found[1], found[2]


def _published_settings(
    system: PublishedSystem, settings: RunSettings, own: dict[str, Any], as_json: bool
) -> RunSettings:
    """Return the settings as in the published system except the user's `own`, and print them."""
    published = STORY_SETTINGS[system]
    other = {name: value for name, value in own.items() if name in published and value != published[name]}
    if as_json:
        JsonLines().object("published_settings", system=system, settings=published, replaced=other)
    else:
        fields = RunSettings.model_fields
        changed = {name: value for name, value in published.items() if value != fields[name].default}
        typer.echo(f"Settings as in {NAMES[system]}: {_listed(changed | other)}.")
    if other and not as_json:
        instead = _listed({name: published[name] for name in other})
        typer.secho(
            f"Not as in {NAMES[system]}, as you asked: {_listed(other)} (not {instead}).", fg="yellow"
        )
    return settings.model_copy(update=published | own)


def _listed(settings: dict[str, Any]) -> str:
    shown = {
        name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()
    }
    return ", ".join(f"{name} {value}" for name, value in shown.items())
