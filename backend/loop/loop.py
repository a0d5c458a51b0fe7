"""The run: plan, generate, judge and try again, as a stream of typed events.

A run is a Python generator. Its consumer (command line, node, service, test) sets the pace and stops it by
closing it. Everything that is finished by then is in the store, so the same call resumes the run. The plan
comes from run_plan.py, a step is run by step_run.py, the rules are in policy.py, and the records in the
store. This file only decides the order.

`Finished` is the last event. A run that ends early (time budget, `max_draws`, `on_failure=stop`, `pause`,
cancelled) has fewer results than its plan has steps, and the stop reason of its last result gives the cause.
`Finished` also has what a paused run waits for. After `Cancelled` or Ctrl-C the run still yields
`StepFinished` and a `Finished` with the results so far, and then raises the exception again. So a consumer
that only iterates cannot mistake a cancelled run for a complete one.
"""

from __future__ import annotations

import time
from collections.abc import Generator as EventStream

from ..errors import Cancelled, SettingsError
from ..generators.generator import NoGenerator, as_generator, check_text_only
from ..journal.store import InMemoryStore, RunStore
from ..journal.waiting import Waiting
from ..scorers.run_scores import CachedScores
from ..types import Identities, Plan, Request, RunSettings, Step, StepResult, StopReason, Trajectory
from .collaborators import Collaborators
from .events import Event, Finished, PlanReady, StepFinished, StepRewritten
from .images.cached_draws import CachedDraws
from .images.earlier_images import unused_cast_images, with_most_images
from .judgements import CachedJudgements, MissingVerdicts
from .policy import (
    check_source,
    draws_left,
    unused_checklist,
    unused_from_start,
    waits_at,
    waits_for_plan,
)
from .run_plan import RunPlan
from .step_attempts import StepContext
from .step_rules import check_steps, max_attempts_in
from .step_run import StepRun

GIVEN = "given"
"""Identity of the planner in a trajectory whose plan was written by the user."""


def run(
    request: Request,
    collaborators: Collaborators,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    journal: RunStore | None = None,
    plan: Plan | None = None,
) -> EventStream[Event, None, None]:
    """Run a request and yield what happens; the last event is `Finished` with the trajectory.

    A generator call or judgement that fails becomes the `error` of its attempt, and the next attempt follows.

    Args:
        request: The request.
        collaborators: The models, and what completes and checks the plan.
        settings: The run's settings.
        journal: Stores plan, images and verdicts. Default: in memory.
        plan: The plan. Default: the plan that the user wrote into the journal, else the cached plan of the
            same planner and request, else a new one from the planner.

    Raises:
        AnswerError: The planner's reply, or two verdicts in a row, could not be parsed.
        ChatError: The planner or the rewriter failed, or two judgements in a row failed.
        JournalError: The journal cannot be used.
        SettingsError: Planner and plan are both missing, a setting needs an image or a feature that is
            missing, or a step generates an image without a generator.
        Cancelled: The run was cancelled.
    """
    check_source(request, settings)
    if settings.pause != "never" and journal is None:
        raise SettingsError(
            f"The run pauses ({settings.pause}), but without a run folder it cannot continue.",
            "Give a run folder, or use pause=never.",
        )
    if collaborators.reviewer is not None and settings.max_draws is not None:
        raise SettingsError(
            "max_draws cannot be combined with a story check, which generates steps again.",
            "Remove one of them.",
        )
    return _Run(request, collaborators, settings, journal or InMemoryStore()).events(plan)


class _Run:
    """The state of one run: its plan and the results of the steps so far."""

    def __init__(
        self, request: Request, collaborators: Collaborators, settings: RunSettings, store: RunStore
    ) -> None:
        self.request, self.settings, self.store = request, settings, store
        self.given = collaborators
        self.critic = collaborators.critic
        given = collaborators.generator
        self.generator = NoGenerator() if given is None else as_generator(given)
        self.several = self.generator.draws_several
        self.run_plan = RunPlan(request, store, self.generator, collaborators)
        self.draws = CachedDraws(self.generator, store)
        self.results: list[StepResult] = []
        self.waiting: Waiting | None = None

    def events(self, given: Plan | None) -> EventStream[Event, None, None]:
        self._appoint_critic(given)
        written = given if given is not None else self.store.written_plan()
        self.settings = with_most_images(self.settings, written, self.generator)
        deadline = time.monotonic() + (self.settings.time_budget or float("inf"))
        self.store.begin(self.request, self.settings, self._identities(self.given.planner is not None))
        try:
            plan = self.run_plan.find(given, self.critic)
            self._prepare(plan, deadline)
            yield PlanReady(plan, self.run_plan.reused)
            yield from self._unused_from_start(plan)
            if self.run_plan.planned:
                self.waiting = waits_for_plan(plan, self.settings, self.store.approved_plan())
            while self.waiting is None and (yield from self._steps()):
                reopened = yield from self._review()
                if reopened is None:
                    break
                del self.results[reopened:]
            yield self._finish()
        finally:
            self.draws.close()
            self.store.end()

    def _prepare(self, plan: Plan, deadline: float) -> None:
        """Check that the plan can be run, and prepare what its steps are run with."""
        settings = with_most_images(self.settings, plan, self.generator)
        if settings != self.settings:
            self.settings = settings
            self.store.keep_settings(settings)
        if isinstance(self.generator, NoGenerator):
            check_text_only(plan)
        check_steps(plan, self.request, self.generator)
        self._appoint_critic(plan)
        self.identities = self._identities(self.run_plan.planned)
        self.context = StepContext(
            self.request,
            self.settings,
            self.store,
            self.generator,
            self.draws,
            self.critic,
            CachedJudgements(self.store),
            MissingVerdicts(self.critic.identity if self.critic else ""),
            deadline,
            CachedScores(self.store, self.given.scorer) if self.given.scorer and self.critic else None,
        )

    def _unused_from_start(self, plan: Plan) -> EventStream[Event, None, None]:
        agents = (self.given.planner if self.run_plan.planned else None, self.critic)
        yield from self.context.report_unused(unused_from_start(self.generator, agents))
        yield from self.context.report_unused(unused_cast_images(plan, self.generator))
        yield from self.context.report_unused(unused_checklist(plan, self.critic, self.settings))

    def _steps(self) -> EventStream[Event, None, bool]:
        """Run the steps that have no result yet. Return whether all steps have one then."""
        for step in self.run_plan.plan.drawn_steps[len(self.results) :]:
            if step.prompt and not draws_left(self.results, self.settings, step):
                return False
            yield from self._step(step)
            if self._ends_after(self.results[-1]):
                return False
        return True

    def _step(self, step: Step) -> EventStream[Event, None, None]:
        """Run one step, and run it once more if it is rewritten. Its result is then the last of `results`."""
        running = StepRun(step, self.run_plan.plan, self.results, self.context)
        try:
            result = yield from running.events()
            can_draw = draws_left([*self.results, result], self.settings)
            rewritten = self.run_plan.rewrite(result) if can_draw else None
            if rewritten is not None:
                yield StepRewritten(rewritten)
                running = StepRun(rewritten, self.run_plan.plan, self.results, self.context)
                result = yield from running.events()
        except (Cancelled, KeyboardInterrupt):
            yield self._close(running.result(StopReason.cancelled))
            yield self._finish()
            raise
        yield self._close(result)

    def _close(self, result: StepResult) -> StepFinished:
        self.results.append(result)
        return StepFinished(result)

    def _ends_after(self, result: StepResult) -> bool:
        self.waiting = waits_at(result, self.settings)
        failed = result.stop_reason in (
            StopReason.attempts_used_up,
            StopReason.unchecked,
            StopReason.error,
        )
        stops = failed and self.settings.on_failure == "stop"
        return self.waiting is not None or result.stop_reason is StopReason.budget or stops

    def _review(self) -> EventStream[Event, None, int | None]:
        """Return the index of the step that the story check reopened, if it reopened one."""
        if self.given.reviewer is None:
            return None
        try:
            return (
                yield from self.given.reviewer(
                    self.store, self.request, self.run_plan.plan, self.results, self.context.deadline
                )
            )
        except (Cancelled, KeyboardInterrupt):
            yield self._finish()
            raise

    def _appoint_critic(self, plan: Plan | None) -> None:
        """Use the critic only if a step has several attempts or several images."""
        needed = self.several or max_attempts_in(plan, self.settings) > 1
        self.critic = self.given.critic if needed else None

    def _identities(self, planned: bool) -> Identities:
        planner = self.given.planner if planned else None
        agents = [agent for agent in (self.given.planner, self.critic) if agent]
        digests = [agent.prompt_set_digest for agent in agents if agent.prompt_set_digest]
        return Identities(
            planner=planner.identity if planner else GIVEN,
            generator=self.generator.identity,
            critic=self.critic.identity if self.critic else "",
            prompt_set="+".join(dict.fromkeys(digests)),
            scorer=self.given.scorer.identity if self.given.scorer and self.critic else "",
        )

    def _finish(self) -> Finished:
        trajectory = Trajectory(
            request=self.request,
            plan=self.run_plan.plan,
            results=tuple(self.results),
            settings=self.settings,
            identities=self.identities,
            unused=tuple(self.context.unused),
            checks=self.store.story_checks(),
        )
        waiting = self.store.keep_waiting(self.waiting)
        self.store.finish(trajectory)
        return Finished(self.store.with_clips(trajectory), waiting)
