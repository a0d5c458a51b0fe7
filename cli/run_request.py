"""Carrying out a run for a command: open what it needs, show it going on, write the page, say how it ended.

Decision: `demo` and `run` are this one function with different defaults, so what the demo shows is what a run
does.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..backend.agents.plan_constraints import PlanConstraints
from ..backend.errors import Cancelled, SettingsError
from ..backend.exporters import export_by_name
from ..backend.files.bounded_reader import parse_json, read_text
from ..backend.files.step_images import with_step_images
from ..backend.loop.events import Finished, PlanReady
from ..backend.pictures import Picture
from ..backend.pipeline.prepared import PreparedRun
from ..backend.plan_editor.edited_plan import PlanTextError
from ..backend.plan_editor.json_form import STEPS
from ..backend.plan_editor.merge import apply_edits, read_edits
from ..backend.report.completeness import GOOD, all_accepted, lacks
from ..backend.shown_text import shown_text
from ..backend.types import Plan, Request, RunSettings, StopReason, Trajectory
from .open_models import TINY_WORLD, CriticOptions, GeneratorOptions, LocalOptions, Opener, PlannerOptions
from .progress import JsonLines, Lines, plural

if TYPE_CHECKING:
    from ..backend.agents.constrained_planner import ConstrainedPlanner
    from ..backend.agents.planner import Planner

MAX_PLAN_FILE = 16 * 1024 * 1024


def read_plan_file(path: Path) -> Plan:
    """Read a plan and the image files that its steps name, which are next to it.

    Args:
        path: A run's plan.json, or a plan as planners and Edit Plan write it (`{"execution_plan": [...]}` or
            the list alone).

    Raises:
        SettingsError: The file is not a plan; the message names the first wrong field or step.
    """
    from pydantic import ValidationError

    from ..backend.journal.files import RunFiles, first_fault

    text = read_text(path, MAX_PLAN_FILE, SettingsError, "Plan")
    content = parse_json(text, SettingsError, f"Plan {str(path)!r}")
    if isinstance(content, list) or (isinstance(content, dict) and STEPS in content):
        try:
            plan = apply_edits(read_edits(text), None).plan
        except PlanTextError as error:
            raise SettingsError(f"Plan {str(path)!r}: {error.message}", error.hint) from error
        return with_step_images(plan, path.parent)
    beside = RunFiles(path.parent)

    def picture(digest: str) -> Picture:
        found = beside.read_picture(digest)
        if found is None:
            raise SettingsError(
                f"Plan {str(path)!r} names a picture {digest!r}, which is not beside it.",
                "Give the plan.json in its run's folder, or write the name of an image file alone.",
            )
        return found

    try:
        plan = Plan.model_validate(content, context={"pictures": picture})
    except ValidationError as error:
        raise SettingsError(f"Plan {str(path)!r}{first_fault(error)}") from error
    return with_step_images(plan, path.parent)


def check_words(planner: str, text: str) -> None:
    """Raise SettingsError for a request that the built-in planner cannot plan, before anything is loaded."""
    from ..tinyworld.runtime.vocabulary import check_request

    if planner.partition(":")[0] == TINY_WORLD:
        check_request(text)


@dataclass(frozen=True)
class Outcome:
    """How a run ended: the exit code, and the page if one was written."""

    code: int
    page: Path | None


@dataclass(frozen=True)
class ModelOptions:
    """Which models a command opens, and how."""

    planner: PlannerOptions
    constraints: PlanConstraints
    critic: CriticOptions
    generator: GeneratorOptions
    local: LocalOptions


def carry_out(
    request: Request,
    out: Path,
    settings: RunSettings,
    models: ModelOptions,
    plan: Plan | None = None,
    as_json: bool = False,
) -> Outcome:
    """Run the request in folder `out`, show it, and write its page; Ctrl-C ends it with code 130. Raises
    InterleaveError."""
    view = JsonLines() if as_json else Lines()
    trajectory: Trajectory | None = None
    stopped = False
    try:
        prepared = PreparedRun(request, out, settings, models.constraints, plan)
        if prepared.needs_planner:
            check_words(models.planner.planner, request.text)
        view.wait("Opening the models")
        opener = Opener(models.local)
        generator = opener.generator(models.generator)
        planner = opener.planner(models.planner, view.planning) if prepared.needs_planner else None
        critic = opener.critic(models.critic) if prepared.needs_critic else None
        opener.finish()
        view.wait("Planning")
        for event in prepared.events(planner, generator, critic):
            if isinstance(event, Finished):
                trajectory = event.trajectory
            view.show(event)
            if isinstance(event, PlanReady):
                warn(event.plan)
    except (KeyboardInterrupt, Cancelled):
        stopped = True
    finally:
        view.wait("")
    outcome = Outcome(
        code=130 if stopped or trajectory is None else exit_code(trajectory),
        page=export_by_name("page", trajectory, out) if trajectory else None,
    )
    _conclude(view, outcome, trajectory, out)
    return outcome


def constrained(planner: Planner, constraints: PlanConstraints) -> ConstrainedPlanner:
    """The planner, held to the constraints."""
    from ..backend.agents.constrained_planner import ConstrainedPlanner

    return ConstrainedPlanner(planner, constraints)


def warn(plan: Plan) -> None:
    """Say on stderr where a plan is not as it was asked for."""
    if plan.warning:
        typer.secho(f"Warning: {shown_text(plan.warning)}", err=True)


def exit_code(trajectory: Trajectory) -> int:
    """0 if the run is complete and no step was rejected, else 3."""
    return 0 if all_accepted(trajectory) else 3


def _conclude(view: Lines | JsonLines, outcome: Outcome, trajectory: Trajectory | None, out: Path) -> None:
    results = trajectory.results if trajectory else ()
    pictures = [out / "pictures" / f"{result.image.digest}.png" for result in results if result.image]
    if isinstance(view, JsonLines):
        page = str(outcome.page) if outcome.page else None
        view.result(
            exit_code=outcome.code, out=str(out), page=page, pictures=[str(path) for path in pictures]
        )
    elif trajectory is not None:
        drawn = [result for result in results if result.stop_reason is not StopReason.text_only]
        good = sum(result.stop_reason in GOOD for result in drawn)
        judged = any(result.stop_reason is not StopReason.unjudged for result in drawn)
        missing = len(trajectory.plan.steps) - len(results)
        rest = f", {plural(missing, 'step')} not begun" if missing else ""
        incomplete = sum(map(len, lacks(trajectory).values())) - missing
        rest += f", {plural(incomplete, 'step')} not complete" if incomplete else ""
        pictures_line = plural(len(drawn), "picture")
        line = f"{good} of {pictures_line} accepted" if judged else f"{pictures_line}, not judged"
        view.say(f"{line}{rest}.", "bold")
        for path in pictures:
            view.say(f"  {path}")
        if outcome.page:
            view.say(f"Page: {outcome.page}")
    if outcome.code == 130:
        typer.secho("Stopped. What was finished is kept; to go on, run the same again:", err=True)
        typer.secho(f"  {shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}", err=True)
