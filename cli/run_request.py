"""Carries out a run for a command: opens the models, shows progress, writes the page and prints the result.

`demo`, `run` and `cast sheets` share this code, so the demo shows what a run does.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..backend.core.errors import Cancelled, SettingsError
from ..backend.core.machine.counters import Counts, counting
from ..backend.core.remote.addresses import hosted_specs
from ..backend.core.shown_text import one_line, shown_text
from ..backend.core.types import CastMember, Identities, Plan, Request, RunSettings, StopReason, Trajectory
from ..backend.output.exporters import export_by_name
from ..backend.pipeline.as_published import PublishedSystem, not_as_published
from ..backend.pipeline.cast_file import PlanCast, cast_next_to, read_cast
from ..backend.pipeline.prepared import PreparedRun
from ..backend.story.agents.plan_constraints import PlanConstraints, constraints_in
from ..backend.story.agents.plan_lint import remaining
from ..backend.story.journal.journal import Journal
from ..backend.story.journal.run_files import RUN
from ..backend.story.journal.waiting import Waiting
from ..backend.story.loop.collaborators import Collaborators
from ..backend.story.loop.events import Event, Finished, PlanReady
from ..backend.story.loop.loop import GIVEN
from ..backend.story.loop.policy import max_attempts_in, max_attempts_of
from ..backend.story.outcomes import GOOD, all_accepted, lacks
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
    opened_scorer,
)
from .progress import JsonLines, Lines, plural, waiting_line, warn

if TYPE_CHECKING:
    from ..backend.core.seams.generator import Generator
    from ..backend.models.scorers import Scorer
    from ..backend.story.agents.critic import Critic
    from ..backend.story.agents.planner import Planner

SHOWN = 100
"""Characters of a model's identity in an error."""
STOPPED = 130
WAITS = 4
"""Exit code of a run that waits for the user's decision."""
WITHOUT_IMAGE = (StopReason.text_only, StopReason.skipped)


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


@dataclass(frozen=True)
class Before:
    """The last run in a folder, as run.json records it.

    run.json records the request, the settings of the loop and the identities of the models, but not the model
    options. A run without a request therefore only continues with models whose identities are the recorded
    ones.

    Attributes:
        request: The request with its images.
        settings: Settings of the loop.
        constraints: Constraints on the plan.
        identities: Identities of the models.
        named: Roles ("planner", "critic", "generator") whose models the command line names.
    """

    folder: Path
    request: Request
    settings: RunSettings
    constraints: PlanConstraints
    identities: Identities
    named: frozenset[str] = frozenset()

    def check_models(
        self,
        planner: Planner | None,
        critic: Critic | None,
        generator: Generator | None,
        scorer: Scorer | None = None,
    ) -> None:
        """Check that the default models are those of the last run, and that its scorer is used again.

        Raises:
            SettingsError: The last run used another model, and the command line names none for its role.
        """
        if self.identities.scorer and scorer is None:
            raise SettingsError(
                f"Cannot resume {str(self.folder)!r} without a scorer: the last run used "
                f"{one_line(self.identities.scorer)[:SHOWN]!r}.",
                "Add --set scorer=NAME, as in the first command, or another scorer.",
            )
        opened = {"planner": planner, "critic": critic, "generator": generator}
        for role, model in opened.items():
            recorded = getattr(self.identities, role)
            if role in self.named or model is None or recorded in ("", GIVEN):
                continue
            if recorded != model.identity and not recorded.startswith(f"{model.identity}|{{"):
                shown = one_line(recorded)
                shown = shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
                raise SettingsError(
                    f"Cannot resume {str(self.folder)!r} with the default {role}: "
                    f"the last run used another one ({shown}).",
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
    view = JsonLines() if as_json else Lines(accept_at=settings.accept_at)
    work = _Work(request, out, settings, models, plan, view)
    counts, stopped = Counts(), False
    try:
        with counting() as counts:
            work.open(before)
            work.follow()
            while ask is not None and (waiting := work.waiting) is not None:
                view.say(waiting_line(waiting), "bold")
                _show_image(view, out, waiting)
                if not ask(out, waiting):
                    break
                work.follow()
    except (KeyboardInterrupt, Cancelled):
        stopped = True
    finally:
        view.wait("")
    outcome = _outcome(work, stopped)
    _conclude(work, outcome, counts)
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
        if prepared.needs_planner:
            check_words(models.planner.planner, self.request.text)
        view.wait("Loading the models")
        has_generator = prepared.needs_generator and models.generator.generator != NONE
        generator = opener.generator(models.generator) if has_generator else None
        planner = opener.planner(models.planner, view.planning) if prepared.needs_planner else None
        critic = opener.critic(models.critic) if prepared.needs_critic and has_generator else None
        writer = opener.cast_writer(models.cast)
        rewriter = opener.step_rewriter(models.helpers)
        reviewer = opener.story_review(models.helpers, models.critic)
        opener.finish()
        if models.published:
            warn_not_as_published(models.published, planner, critic, models.generator)
        scorer = opened_scorer(models.helpers)
        if before is not None:
            before.check_models(planner, critic, generator, scorer)
        plan_cast = PlanCast(cast, writer) if cast or writer else None
        self._models = Collaborators(planner, generator, critic, plan_cast, rewriter, reviewer, scorer)
        view.wait("Planning")

    def follow(self) -> None:
        """Run the loop to its end or to a pause, and show its events."""
        self._last, prepared = None, self._prepared()
        if self._models.critic is None and prepared.needs_critic and self._models.generator is not None:
            self._models = replace(self._models, critic=self._opener.critic(self.models.critic))
        for event in _not_shown(prepared.events(self._models), self._shown):
            if isinstance(event, Finished):
                self._last = event
            self.view.show(event)
            if isinstance(event, PlanReady):
                warn_of(event.plan, self.request, self.models.constraints.step_count)
                generator, judged = self.models.generator.generator, self._models.critic is not None
                if line := cost_line(generator, self.settings, judged, event.plan):
                    typer.secho(line, err=True)

    def _prepared(self) -> PreparedRun:
        return PreparedRun(self.request, self.out, self.settings, self.models.constraints, self._plan)


def _outcome(work: _Work, stopped: bool) -> Outcome:
    """Return the exit code of a run, and write its page."""
    trajectory = work.trajectory
    ended = STOPPED if stopped or trajectory is None else exit_code(trajectory)
    code = WAITS if work.waiting and not stopped else ended
    has_page = trajectory is not None and (trajectory.results or work.waiting is None)
    return Outcome(code, export_by_name("page", trajectory, work.out) if trajectory and has_page else None)


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
    record = journal.record()
    constraints = constraints_in(record.identities.planner)
    return Before(
        folder, journal.request(), record.settings, constraints, record.identities, frozenset(named)
    )


def show_changes(view: Lines | JsonLines, folder: Path, settings: RunSettings) -> None:
    """Print which settings differ from those of the last run in the folder, if there was one.

    Raises:
        JournalError: run.json cannot be read.
    """
    if not (folder / RUN).is_file():
        return
    before = Journal(folder).record().settings
    changed = {
        name: (getattr(before, name), getattr(settings, name))
        for name in RunSettings.model_fields
        if getattr(before, name) != getattr(settings, name)
    }
    if settings.most_images is None:  # recorded as the number that the generator supports
        changed.pop("most_images", None)
    if not changed:
        return
    if isinstance(view, JsonLines):
        values = {name: {"before": old, "now": new} for name, (old, new) in changed.items()}
        view.object("settings_changed", settings=values)
        return
    named = ", ".join(f"{name} {_value(new)} (was {_value(old)})" for name, (old, new) in changed.items())
    unjudged = (
        " A single attempt is not judged." if "max_attempts" in changed and settings.max_attempts == 1 else ""
    )
    view.say(
        f"Changed since the last run: {named}.{unjudged} The result follows the new settings and reuses "
        "cached images and verdicts; the earlier settings give the earlier result again.",
        "yellow",
    )


def _value(value: object) -> str:
    return "not set" if value is None else str(value)


def most_images(plan: Plan, settings: RunSettings, judged: bool) -> int:
    """Return the maximum number of images that a run of this plan generates.

    Args:
        plan: The plan. Text-only steps have no image.
        settings: Settings of the run.
        judged: Whether there is a critic. Without one, each step is generated once.
    """
    steps = [step for step in plan.steps if step.prompt is not None]
    images = sum(max_attempts_of(step, settings) if judged else 1 for step in steps)
    return images if settings.max_draws is None else min(images, settings.max_draws)


def cost_line(generator: str, settings: RunSettings, judged: bool, plan: Plan) -> str:
    """Return how many images a hosted generator may be asked for, or an empty text for another one.

    Prices are not known here: they differ by provider, model and size, and change.
    """
    if not hosted_specs([generator]):
        return ""
    attempts = plural(max_attempts_in(plan, settings) if judged else 1, "attempt")
    images = plural(most_images(plan, settings, judged), "image")
    steps = plural(sum(step.prompt is not None for step in plan.steps), "step")
    return (
        f"{shown_text(generator)} is hosted. Its provider may charge for each image: up to {images} "
        f"({steps}, up to {attempts} each). --set max_draws=N limits the images of a run."
    )


def exit_code(trajectory: Trajectory) -> int:
    """Return 0 if the run is complete and no step was rejected, otherwise 3."""
    return 0 if all_accepted(trajectory) else 3


def _conclude(work: _Work, outcome: Outcome, counts: Counts) -> None:
    """Print the result of a run: as the last JSON object, or as lines."""
    results = work.trajectory.results if work.trajectory else ()
    images = [work.out / "pictures" / f"{result.image.digest}.png" for result in results if result.image]
    view, waiting = work.view, work.waiting
    if isinstance(view, JsonLines):
        waits = {"waiting": waiting.model_dump(mode="json", exclude={"choices"})} if waiting else {}
        view.result(
            **waits,
            exit_code=outcome.code,
            out=str(work.out),
            page=str(outcome.page) if outcome.page else None,
            pictures=[str(path) for path in images],
            prompt_tokens=counts.served_prompt_tokens,
            cached_tokens=counts.served_prompt_tokens_cached,
        )
    elif work.trajectory is not None:
        view.say(_summary(work.trajectory), "bold")
        for path in images:
            view.say(f"  {path}")
        if read := counts.served_prompt_tokens:
            cached = counts.served_prompt_tokens_cached
            view.say(f"Model servers: {read:,} prompt tokens, {cached:,} of them cached.")
        if outcome.page:
            view.say(f"Page: {outcome.page}")
        if waiting:
            view.say(waiting_line(waiting), "bold")
            _show_image(view, work.out, waiting)
            view.say(f"Approve it, then run the same command again: interleave-thinker approve {work.out}")
            view.say("Other decisions: interleave-thinker approve --help")
    if outcome.code == STOPPED:
        typer.secho("Stopped. Finished work is saved. To resume, run the same command again:", err=True)
        typer.secho(f"  {shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}", err=True)


def _summary(trajectory: Trajectory) -> str:
    """Return how many images of a story were accepted, and what is missing."""
    results = trajectory.results
    generated = [result for result in results if result.stop_reason not in WITHOUT_IMAGE]
    missing = len(trajectory.plan.steps) - len(results)
    incomplete = sum(map(len, lacks(trajectory).values())) - missing
    rest = f", {plural(missing, 'step')} not started" if missing else ""
    rest += f", {plural(incomplete, 'step')} incomplete" if incomplete else ""
    if results and not generated:
        return f"{plural(len(results), 'text-only step')}, no image generated{rest}."
    count = plural(len(generated), "image")
    if not any(result.stop_reason is not StopReason.unjudged for result in generated):
        return f"{count}, not judged{rest}."
    return f"{sum(result.stop_reason in GOOD for result in generated)} of {count} accepted{rest}."
