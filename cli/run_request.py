"""Carries out a run for a command: opens the models, shows progress, writes the page and prints the result.

`demo`, `run` and `cast sheets` share this code, so the demo shows what a run does.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..backend.core.errors import Cancelled, SettingsError
from ..backend.core.machine.counters import Counts, counting
from ..backend.core.remote.addresses import hosted_specs
from ..backend.core.shown_text import one_line, shown_text
from ..backend.core.types import CastMember, Plan, Request, RunSettings, Trajectory
from ..backend.models.scorers import check_scorer, open_scorer
from ..backend.output.exporters import export_by_name
from ..backend.pipeline.as_published import PublishedSystem, not_as_published
from ..backend.pipeline.cast_file import PlanCast, cast_next_to, read_cast
from ..backend.pipeline.prepared import PreparedRun
from ..backend.story.agents.plan_constraints import PlanConstraints, constraints_in
from ..backend.story.agents.plan_lint import remaining
from ..backend.story.agents.text_writers import Translator
from ..backend.story.journal.archive import OF_ONE_STORY, copy_run
from ..backend.story.journal.journal import Journal
from ..backend.story.journal.run_files import RUN, RunRecord
from ..backend.story.journal.waiting import Waiting
from ..backend.story.loop.collaborators import Collaborators
from ..backend.story.loop.events import Event, Finished, PlanReady
from ..backend.story.loop.loop import GIVEN
from ..backend.story.loop.policy import max_attempts_of
from ..backend.story.outcomes import all_accepted, duration, spent_words, summarize, times_of
from .models import (
    NONE,
    TINY_WORLD,
    CastOptions,
    CriticOptions,
    GeneratorOptions,
    HelperOptions,
    LocalOptions,
    Opener,
    PlannerOptions,
)
from .progress import JsonLines, Lines, plural, waiting_line, warn

if TYPE_CHECKING:
    from ..backend.story.agents.critic import Critic
    from ..backend.story.agents.planner import Planner

SHOWN = 100
"""Characters of a model's identity in an error."""
STOPPED = 130
WAITS = 4
"""Exit code of a run that waits for the user's decision."""


def check_words(planner: str, text: str) -> None:
    """Check a request for the built-in planner before a model is loaded.

    Raises:
        SettingsError: The request has words that the built-in planner does not know.
    """
    from ..tinyworld.vocabulary import check_request

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
    critic: CriticOptions
    generator: GeneratorOptions
    local: LocalOptions
    constraints: PlanConstraints = field(default_factory=PlanConstraints)
    cast: CastOptions = field(default_factory=CastOptions)
    helpers: HelperOptions = field(default_factory=HelperOptions)
    published: PublishedSystem | None = None
    language: str | None = None
    """Language into which the planner's model translates the captions of a given plan."""


@dataclass(frozen=True)
class Before:
    """The last run in a folder.

    run.json records the request, the settings of the loop and the identities of the models, but not the model
    options. A run without a request therefore only continues with models whose identities are the recorded
    ones.

    Attributes:
        folder: The folder.
        request: The request with its images.
        record: What run.json records.
        named: Roles ("planner", "critic", "generator") whose models the command line names.
    """

    folder: Path
    request: Request
    record: RunRecord
    named: frozenset[str]

    @property
    def constraints(self) -> PlanConstraints:
        """Constraints on the plan."""
        return constraints_in(self.record.identities.planner)

    def check_models(self, models: Collaborators) -> None:
        """Check that the default models are those of the last run, and that its scorer is used again.

        Raises:
            SettingsError: The last run used another model, and the command line names none for its role.
        """
        identities = self.record.identities
        if identities.scorer and models.scorer is None:
            raise SettingsError(
                f"Cannot resume {str(self.folder)!r} without a scorer: the last run used "
                f"{one_line(identities.scorer)[:SHOWN]!r}.",
                "Add --set scorer=NAME, as in the first command, or another scorer.",
            )
        for role in ("planner", "critic", "generator"):
            model, recorded = getattr(models, role), getattr(identities, role)
            if role in self.named or model is None or recorded in ("", GIVEN, model.identity):
                continue
            if not recorded.startswith(f"{model.identity}|{{"):
                raise SettingsError(
                    f"Cannot resume {str(self.folder)!r} with the default {role}: "
                    f"the last run used another one ({one_line(recorded)[:SHOWN]}).",
                    f"Add --{role} and the other model options of the first command.",
                )


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
    view = JsonLines() if as_json else Lines(settings=settings)
    work = _Work(request, out, settings, models, plan, view)
    counts, stopped = Counts(), False
    try:
        with counting() as counts:
            work.open(before)
            work.follow()
            while ask is not None and (waiting := work.waiting) is not None:
                _show_waiting(view, out, waiting)
                if not ask(out, waiting):
                    break
                work.follow()
    except (KeyboardInterrupt, Cancelled):
        stopped = True
    finally:
        view.wait("")
    outcome = work.outcome(stopped)
    if isinstance(view, JsonLines):
        work.report(view, outcome, counts)
    else:
        work.show_result(view, outcome, counts)
    if outcome.code == STOPPED:
        typer.secho("Stopped. Finished work is saved. To resume, run the same command again:", err=True)
        typer.secho(f"  {shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}", err=True)
    return outcome


class _Work:
    """A run of a command: its models, and the last event of its loop."""

    def __init__(
        self,
        request: Request,
        out: Path,
        settings: RunSettings,
        models: ModelOptions,
        plan: Plan | None,
        view: Lines | JsonLines,
    ) -> None:
        self.request, self.out, self.settings, self.models = request, out, settings, models
        self.view = view
        self._plan = plan
        self._opener = Opener(models.local)
        self._models = Collaborators()
        self._shown: list[Event] = []
        self._last: Finished | None = None

    @property
    def trajectory(self) -> Trajectory | None:
        """The story, if the loop came to its end."""
        return self._last.trajectory if self._last else None

    @property
    def waiting(self) -> Waiting | None:
        """What the user has to decide, if the run paused."""
        return self._last.waiting if self._last else None

    def open(self, before: Before | None) -> None:
        """Check the folder and open the models that the run needs."""
        models, view, opener = self.models, self.view, self._opener
        cast = _read_cast(view, models.cast.cast, self.out)
        prepared = self._prepared()
        show_changes(view, self.out, self.settings)
        has_generator = prepared.needs_generator and models.generator.generator != NONE
        judged = prepared.needs_critic and has_generator
        helpers = models.helpers
        others = helpers.step_rewriter, helpers.story_checker, models.cast.cast_writer
        opener.check(
            models.planner if prepared.needs_planner or models.language else None,
            models.critic if judged else None,
            models.generator if has_generator else None,
            others,
            ask=not (self.out / RUN).is_file(),
        )
        if helpers.scorer is not None:
            check_scorer(helpers.scorer)
        if prepared.needs_planner:
            check_words(models.planner.planner, self.request.text)
        view.wait("Loading the models")
        generator = opener.generator(models.generator) if has_generator else None
        planner = opener.planner(models.planner, view.planning) if prepared.needs_planner else None
        critic = opener.critic(models.critic) if judged else None
        writer = opener.cast_writer(models.cast)
        rewriter = opener.step_rewriter(helpers)
        reviewer = opener.story_review(helpers, models.critic)
        opener.finish()
        if models.published:
            warn_not_as_published(models.published, planner, critic, models.generator)
        scorer = open_scorer(helpers.scorer) if helpers.scorer is not None else None
        plan_cast = PlanCast(cast, writer) if cast or writer else None
        self._models = Collaborators(planner, generator, critic, plan_cast, rewriter, reviewer, scorer)
        if before is not None:
            before.check_models(self._models)
        if self._plan is not None and models.language:
            view.wait("Translating the captions")
            self._plan = Translator(opener.planner(models.planner).chat)(self._plan, models.language)
        if before is not None and not (self.out / RUN).is_file():
            copy_run(before.folder, self.out, OF_ONE_STORY)
        view.wait("Planning")

    def follow(self) -> None:
        """Run the loop to its end or to a pause, and show its events.

        A run that continues after a pause repeats its events from the journal; they are not shown again.
        """
        self._last, prepared = None, self._prepared()
        if self._models.critic is None and prepared.needs_critic and self._models.generator is not None:
            self._models = replace(self._models, critic=self._opener.critic(self.models.critic))
        before = list(self._shown)
        for event in prepared.events(self._models):
            plain = replace(event, reused=False) if hasattr(event, "reused") else event
            if plain in before and not isinstance(event, Finished):
                continue
            self._shown.append(plain)
            if isinstance(event, Finished):
                self._last = event
            self.view.show(event)
            if isinstance(event, PlanReady):
                self._warn_of(event.plan)

    def _warn_of(self, plan: Plan) -> None:
        warn_of(plan, self.request, self.models.constraints.step_count)
        generator = self.models.generator.generator
        if line := cost_line(generator, self.settings, self._models.critic is not None, plan):
            typer.secho(line, err=True)

    def outcome(self, stopped: bool) -> Outcome:
        """Return the exit code of the run, and write its page."""
        trajectory = self.trajectory
        if trajectory is None:
            return Outcome(STOPPED, None)
        has_page = trajectory.results or self.waiting is None
        page = export_by_name("page", trajectory, self.out) if has_page else None
        ended = WAITS if self.waiting else exit_code(trajectory)
        return Outcome(STOPPED if stopped else ended, page)

    @property
    def _images(self) -> list[Path]:
        results = self.trajectory.results if self.trajectory else ()
        return [self.out / "pictures" / f"{result.image.digest}.png" for result in results if result.image]

    def report(self, view: JsonLines, outcome: Outcome, counts: Counts) -> None:
        """Print the result of the run as the last JSON object."""
        times = times_of(self.trajectory) if self.trajectory else {}
        waits = {"waiting": self.waiting.model_dump(mode="json", exclude={"choices"})} if self.waiting else {}
        view.result(
            **waits,
            exit_code=outcome.code,
            out=str(self.out),
            page=str(outcome.page) if outcome.page else None,
            pictures=[str(path) for path in self._images],
            loading_seconds=round(counts.loading_seconds, 3),
            times={name: dict(spent) for name, spent in times.items()},
        )

    def show_result(self, view: Lines, outcome: Outcome, counts: Counts) -> None:
        """Print the result of the run as lines."""
        if self.trajectory is None:
            return
        view.say(f"{summarize(self.trajectory).sentence}.", "bold")
        for path in self._images:
            view.say(f"  {path}")
        times = [f"{name} {spent_words(spent)}" for name, spent in times_of(self.trajectory).items()]
        if counts.loading_seconds >= 1:
            times.append(f"loading models {duration(counts.loading_seconds)}")
        if times:
            view.say(f"Time: {', '.join(times)}.", "dim")
        if outcome.page:
            view.say(f"Page: {outcome.page}")
        if self.waiting:
            _show_waiting(view, self.out, self.waiting)
            view.say(f"Approve it, then run the same command again: interleave-thinker approve {self.out}")
            view.say("Other decisions: interleave-thinker approve --help")

    def _prepared(self) -> PreparedRun:
        return PreparedRun(self.request, self.out, self.settings, self.models.constraints, self._plan)


def _show_waiting(view: Lines | JsonLines, out: Path, waiting: Waiting) -> None:
    """Print what the user decides about, and where the image is."""
    view.say(waiting_line(waiting), "bold")
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


def last_run(folder: Path, named: Collection[str]) -> Before:
    """Read the run in a folder.

    Args:
        folder: Run folder.
        named: Roles whose models the command line names.

    Raises:
        SettingsError: The folder does not contain a run.
        JournalError: run.json or an image of the request cannot be read.
    """
    if not (folder / RUN).is_file():
        raise SettingsError(
            f"No request is given, and {str(folder)!r} does not contain a run to resume.",
            "Give a request, or the --out folder of a run.",
        )
    journal = Journal(folder)
    return Before(folder, journal.request(), journal.record(), frozenset(named))


def show_changes(view: Lines | JsonLines, folder: Path, settings: RunSettings) -> None:
    """Print which settings differ from those of the last run in the folder, if there was one.

    Raises:
        JournalError: run.json cannot be read.
    """
    if not (folder / RUN).is_file():
        return
    before, now = dict(Journal(folder).record().settings), dict(settings)
    if settings.most_images is None:  # recorded as the number that the generator supports
        before["most_images"] = None
    changed = {name: (old, now[name]) for name, old in before.items() if old != now[name]}
    if not changed:
        return
    if isinstance(view, JsonLines):
        values = {name: {"before": old, "now": new} for name, (old, new) in changed.items()}
        view.object("settings_changed", settings=values)
        return
    named = ", ".join(f"{name} {_value(new)} (was {_value(old)})" for name, (old, new) in changed.items())
    view.say(
        f"Changed since the last run: {named}. The result follows the new settings and reuses cached images "
        "and verdicts; the earlier settings give the earlier result again.",
        "yellow",
    )


def _value(value: object) -> str:
    return "not set" if value is None else str(value)


def cost_line(generator: str, settings: RunSettings, judged: bool, plan: Plan) -> str:
    """Return how many images a hosted generator may be asked for, or an empty text for another one.

    Prices are not known here: they differ by provider, model and size, and change.

    Args:
        generator: The generator.
        settings: Settings of the run.
        judged: Whether there is a critic. Without one, each step is generated once.
        plan: The plan. Text-only steps have no image.
    """
    if not hosted_specs([generator]):
        return ""
    steps = [step for step in plan.steps if step.prompt is not None]
    images = sum(max_attempts_of(step, settings) if judged else 1 for step in steps)
    images = images if settings.max_draws is None else min(images, settings.max_draws)
    return (
        f"{shown_text(generator)} is hosted. Its provider may charge for each image: up to "
        f"{plural(images, 'image')} for {plural(len(steps), 'step')}. --set max_draws=N limits them."
    )


def exit_code(trajectory: Trajectory) -> int:
    """Return 0 if the run is complete and no step was rejected, otherwise 3."""
    return 0 if all_accepted(trajectory) else 3
