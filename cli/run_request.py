"""Carries out a run for a command: opens the models, shows progress, writes the page and prints the result.

`demo` and `run` share this code, so the demo shows what a run does.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..backend.agents.plan_constraints import PlanConstraints
from ..backend.agents.plan_lint.lint import remaining
from ..backend.errors import Cancelled
from ..backend.exporters import export_by_name
from ..backend.journal.waiting import Waiting
from ..backend.loop.collaborators import Collaborators
from ..backend.loop.events import Event, Finished, PlanReady
from ..backend.machine.counters import Counts, counting
from ..backend.pipeline.as_published import PublishedSystem, not_as_published
from ..backend.pipeline.cast_file import PlanCast, cast_next_to, read_cast
from ..backend.pipeline.prepared import PreparedRun
from ..backend.report.outcomes import GOOD, all_accepted, lacks
from ..backend.types import CastMember, Plan, Request, RunSettings, StopReason, Trajectory
from .commands.run.resume import Before, show_changes
from .open_models import Opener, opened_scorer
from .options.image_cost import say_cost
from .options.model_options import (
    NONE,
    TINY_WORLD,
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    LocalOptions,
    PlannerOptions,
    RewritingOptions,
    ScorerOptions,
    StoryCheckOptions,
)
from .progress import JsonLines, Lines, plural, waiting_line, warn

if TYPE_CHECKING:
    from ..backend.agents.critic import Critic
    from ..backend.agents.plan_constraints import ConstrainedPlanner
    from ..backend.agents.planner import Planner

WAITS = 4
"""Exit code of a run that waits for the user's decision."""
WITHOUT_IMAGE = (StopReason.text_only, StopReason.skipped)


def check_words(planner: str, text: str) -> None:
    """Check a request for the built-in planner before a model is loaded.

    Raises:
        SettingsError: The request has words that the built-in planner does not know.
    """
    from ..tinyworld.runtime.vocabulary import check_request

    if planner.partition(":")[0] == TINY_WORLD:
        check_request(text)


@dataclass(frozen=True)
class Outcome:
    """Result of a run: the exit code and the page, if one was written."""

    code: int
    page: Path | None


@dataclass(frozen=True)
class ModelOptions:
    """The models that a command opens, and the constraints on the plan."""

    planner: PlannerOptions
    constraints: PlanConstraints
    critic: CriticOptions
    generator: GeneratorOptions
    local: LocalOptions
    cast: CastOptions = field(default_factory=CastOptions)
    rewriting: RewritingOptions = field(default_factory=RewritingOptions)
    story_check: StoryCheckOptions = field(default_factory=StoryCheckOptions)
    choosing: ScorerOptions = field(default_factory=ScorerOptions)
    published: PublishedSystem | None = None


def carry_out(
    request: Request,
    out: Path,
    settings: RunSettings,
    models: ModelOptions,
    plan: Plan | None = None,
    as_json: bool = False,
    before: Before | None = None,
    ask: Callable[[Path, Waiting], bool] | None = None,
) -> Outcome:
    """Carry out a request in a folder, print its progress and write its page.

    Args:
        request: The request.
        out: Run folder; an existing run is resumed.
        settings: Settings of the loop.
        models: The models, and the constraints on the plan.
        plan: Plan to carry out instead of asking a planner.
        as_json: Print JSON objects instead of lines.
        before: What the last run in the folder was like, if the request comes from it.
        ask: Asks the user for a decision when the run pauses, and returns whether to continue. Default: the
            command ends at a pause.

    Returns:
        The exit code (130 after Ctrl-C, 4 at a pause) and the page.

    Raises:
        InterleaveError: As `PreparedRun` and the models do.
    """
    view = JsonLines() if as_json else Lines(accept_at=settings.accept_at)
    last: Finished | None = None
    stopped = False
    counts = Counts()
    try:
        with counting() as counts:
            cast = _read_cast(view, models.cast.cast, out)
            prepared = PreparedRun(request, out, settings, models.constraints, plan)
            show_changes(view, out, settings)
            if prepared.needs_planner:
                check_words(models.planner.planner, request.text)
            view.wait("Loading the models")
            opener = Opener(models.local)
            needs_generator = prepared.needs_generator and models.generator.generator != NONE
            generator = opener.generator(models.generator) if needs_generator else None
            planner = opener.planner(models.planner, view.planning) if prepared.needs_planner else None
            needs_critic = prepared.needs_critic and generator is not None
            critic = opener.critic(models.critic) if needs_critic else None
            writer = opener.cast_writer(models.cast)
            rewriter = opener.step_rewriter(models.rewriting)
            reviewer = opener.story_review(models.story_check, models.critic)
            opener.finish()
            if models.published:
                warn_not_as_published(models.published, planner, critic, models.generator)
            scorer = opened_scorer(models.choosing)
            if before is not None:
                before.check_models(planner, critic, generator, scorer)
            view.wait("Planning")
            completed = PlanCast(cast, writer) if cast or writer else None
            shown: list[Event] = []
            while True:
                models_of_run = Collaborators(
                    planner, generator, critic, completed, rewriter, reviewer, scorer
                )
                for event in _not_shown(prepared.events(models_of_run), shown):
                    if isinstance(event, Finished):
                        last = event
                    view.show(event)
                    if isinstance(event, PlanReady):
                        warn_of(event.plan, request, models.constraints.step_count)
                        say_cost(models.generator.generator, settings, critic is not None, event.plan)
                if last is None or last.waiting is None or ask is None:
                    break
                view.say(waiting_line(last.waiting), "bold")
                _show_image(view, out, last.waiting)
                if not ask(out, last.waiting):
                    break
                last, prepared = None, PreparedRun(request, out, settings, models.constraints, plan)
                if critic is None and prepared.needs_critic:
                    critic = opener.critic(models.critic)
    except (KeyboardInterrupt, Cancelled):
        stopped = True
    finally:
        view.wait("")
    trajectory, waiting = (last.trajectory, last.waiting) if last else (None, None)
    code = 130 if stopped or trajectory is None else WAITS if waiting else exit_code(trajectory)
    has_page = trajectory is not None and (trajectory.results or waiting is None)
    page = export_by_name("page", trajectory, out) if trajectory and has_page else None
    outcome = Outcome(code, page)
    _conclude(view, outcome, trajectory, waiting, out, counts)
    return outcome


def _not_shown(events: Iterable[Event], shown: list[Event]) -> Iterator[Event]:
    """Yield the events that were not shown before this run, and add them to `shown`.

    A run that continues after a pause repeats its events from the journal.
    """
    before = list(shown)
    for event in events:
        plain = replace(event, reused=False) if hasattr(event, "reused") else event
        if plain not in before or isinstance(event, Finished):
            shown.append(plain)
            yield event


def _show_image(view: Lines | JsonLines, out: Path, waiting: Waiting) -> None:
    """Print where the image is that the user decides about."""
    if waiting.step is not None and waiting.digest is not None:
        view.say(f"  {out / 'pictures' / f'{waiting.digest}.png'}")


def _read_cast(view: Lines | JsonLines, given: str | None, out: Path) -> tuple[CastMember, ...]:
    """Return the cast in a file, or in the cast.yaml next to the run folder."""
    path = cast_next_to(out) if given is None else None if given == NONE else Path(given)
    if path is None:
        return ()
    if given is None and isinstance(view, Lines):
        view.say(f"Cast: {path}")
    return read_cast(path)


def constrained(planner: Planner, constraints: PlanConstraints) -> ConstrainedPlanner:
    """Return the planner with the constraints applied to its plans."""
    from ..backend.agents.plan_constraints import ConstrainedPlanner

    return ConstrainedPlanner(planner, constraints)


def warn_of(plan: Plan, request: Request, step_count: int = 0) -> None:
    """Print to stderr how a plan differs from what was requested, and what the plan check finds."""
    if plan.warning:
        warn(plan.warning)
    for one in remaining(plan, request, step_count):
        warn(one.sentence)


def warn_not_as_published(
    system: PublishedSystem, planner: Planner | None, critic: Critic | None, generator: GeneratorOptions
) -> None:
    """Print to stderr what is not as in the published system although its settings are used."""
    agents = {"planner": planner, "critic": critic}
    prompts = {role: agent.prompt_set_digest for role, agent in agents.items() if agent is not None}
    for line in not_as_published(system, prompts, generator.size is not None or generator.generator == NONE):
        warn(line)


def exit_code(trajectory: Trajectory) -> int:
    """Return 0 if the run is complete and no step was rejected, otherwise 3."""
    return 0 if all_accepted(trajectory) else 3


def _conclude(
    view: Lines | JsonLines,
    outcome: Outcome,
    trajectory: Trajectory | None,
    waiting: Waiting | None,
    out: Path,
    counts: Counts,
) -> None:
    results = trajectory.results if trajectory else ()
    images = [out / "pictures" / f"{result.image.digest}.png" for result in results if result.image]
    if isinstance(view, JsonLines):
        page = str(outcome.page) if outcome.page else None
        waits = {"waiting": waiting.model_dump(mode="json", exclude={"choices"})} if waiting else {}
        view.result(
            **waits,
            exit_code=outcome.code,
            out=str(out),
            page=page,
            pictures=[str(path) for path in images],
            prompt_tokens=counts.served_prompt_tokens,
            cached_tokens=counts.served_prompt_tokens_cached,
        )
    elif trajectory is not None:
        generated = [result for result in results if result.stop_reason not in WITHOUT_IMAGE]
        good = sum(result.stop_reason in GOOD for result in generated)
        judged = any(result.stop_reason is not StopReason.unjudged for result in generated)
        missing = len(trajectory.plan.steps) - len(results)
        rest = f", {plural(missing, 'step')} not started" if missing else ""
        incomplete = sum(map(len, lacks(trajectory).values())) - missing
        rest += f", {plural(incomplete, 'step')} incomplete" if incomplete else ""
        count = plural(len(generated), "image")
        line = f"{good} of {count} accepted" if judged else f"{count}, not judged"
        if results and not generated:
            line = f"{plural(len(results), 'text-only step')}, no image generated"
        view.say(f"{line}{rest}.", "bold")
        for path in images:
            view.say(f"  {path}")
        if read := counts.served_prompt_tokens:
            cached = counts.served_prompt_tokens_cached
            view.say(f"Model servers: {read:,} prompt tokens, {cached:,} of them cached.")
        if outcome.page:
            view.say(f"Page: {outcome.page}")
        if waiting:
            view.say(waiting_line(waiting), "bold")
            _show_image(view, out, waiting)
            view.say(f"Approve it, then run the same command again: interleave-thinker approve {out}")
            view.say("Other decisions: interleave-thinker approve --help")
    if outcome.code == 130:
        typer.secho("Stopped. Finished work is saved. To resume, run the same command again:", err=True)
        typer.secho(f"  {shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}", err=True)
