"""The run: plan, generate, judge and try again, as a stream of typed events.

A run is a Python generator. Its consumer (command line, node, service, test) sets the pace and stops it by
closing it. Everything that is finished by then is in the store, so the same call resumes the run. The plan
comes from `RunPlan`, a step is run by step_run.py, the rules are in policy.py, and the records in the
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

from ...core.errors import Cancelled, SettingsError
from ...core.seams.adoption import adopt, returned
from ...core.seams.generator import Generator, NoGenerator, check_text_only
from ...core.types import Identities, Plan, Request, RunSettings, Step, StepResult, StopReason, Trajectory
from ...core.types.roles import CriticLike, PlannerLike
from ..journal.run_files import plan_digest
from ..journal.store import InMemoryStore, PlanKey, RunStore
from ..journal.waiting import Waiting
from .cached_draws import CachedDraws
from .collaborators import Collaborators
from .events import Event, Finished, PlanReady, StepFinished, StepRewritten
from .judgements import CachedJudgements, MissingVerdicts, spending
from .policy import (
    draws_left,
    ends_run,
    from_text,
    max_attempts_in,
    may_be_rewritten,
    user_selected,
    waits_at,
    waits_for_plan,
)
from .scores import CachedScores
from .setting_checks import (
    check_source,
    check_steps,
    unused_cast_images,
    unused_checklist,
    unused_from_start,
    with_loras,
    with_most_images,
    with_seed_rule,
)
from .step_run import StepContext, StepRun


class RunPlan:
    """The plan of a run. `find` is called first.

    Attributes:
        plan: The plan, with its cast.
        planned: Whether it is recorded as the planner's plan.
        reused: Whether it came from the store.
    """

    plan: Plan

    def __init__(
        self,
        request: Request,
        store: RunStore,
        generator: Generator,
        collaborators: Collaborators,
    ) -> None:
        self._request, self._store, self._generator = request, store, generator
        self._planner = collaborators.planner
        self._cast, self._rewriter = collaborators.cast, collaborators.rewriter
        self._key: PlanKey | None = None
        self.planned = self.reused = False

    def find(self, given: Plan | None, critic: CriticLike | None) -> Plan:
        """Return the plan of the run, which is stored.

        Args:
            given: Plan of the caller.
            critic: The critic. If it has the planner's weights, they stay in VRAM.

        Raises:
            AnswerError: The planner's reply could not be parsed.
            ChatError: The planner failed.
            JournalError: The plan in the store is damaged.
            SettingsError: Planner and plan are both missing, or the generator does not have a step's LoRA.
            Cancelled: The run was cancelled.
        """
        written = self._store.written_plan()
        if given is not None:
            self.planned = self._planner is not None
            self.plan = self._given(self._complete(given), written)
        elif written is not None:
            self.reused = True
            self.plan = self._stored(written)
        elif self._planner is not None:
            self.planned = True
            self.plan = self._from_planner(self._planner, critic)
        else:
            raise SettingsError(
                "The run has neither a planner nor a plan.", "Choose a planner, or give a plan."
            )
        return self.plan

    def rewrite(self, result: StepResult) -> Step | None:
        """Rewrite a step whose attempts are used up, so that it is generated from text.

        Returns:
            The step with the plan's style. `None` if the step was not rewritten: there is no rewriter or
            prompt, the step does not edit an image, or the user decided about it or edited the plan.

        Raises:
            ChatError: The rewriter failed.
            Cancelled: The run was cancelled.
        """
        if self._rewriter is None or not may_be_rewritten(result):
            return None
        verdicts = [attempt.verdict for attempt in result.attempts if attempt.verdict]
        prompt = self._rewriter(self.plan, result.step, verdicts[-1].reasoning if verdicts else "")
        step = from_text(result, self.plan, prompt or "")
        if step is None or self._user_decided(result):
            return None
        steps = tuple(step if one.number == step.number else one for one in self.plan.steps)
        self.plan = self.plan.model_copy(update={"steps": steps})
        self._store.keep_plan(self.plan, self._key)
        return next(one for one in self.plan.drawn_steps if one.number == step.number)

    def _given(self, given: Plan, written: Plan | None) -> Plan:
        """Store a given plan, unless the stored plan is the same one with rewritten steps."""
        if written is not None and plan_digest(written) == plan_digest(given):
            return written
        # If another run rewrote steps of it, that run's generator calls do not count for this one.
        steps = tuple(step.model_copy(update={"rewritten": None}) for step in given.steps)
        given = given.model_copy(update={"steps": steps})
        self._store.keep_plan(given, None)
        return given

    def _from_planner(self, planner: PlannerLike, critic: CriticLike | None) -> Plan:
        self._key = PlanKey.of(planner.identity, self._request)
        known = self._store.plan(self._key)
        if known is not None:
            self.reused = True
            return self._stored(known)
        with spending() as spent:
            plan = self._complete(returned(planner.plan(self._request), Plan, "planner", "Return a Plan."))
            needed = spent()
        planner.offload(critic)
        self._store.keep_plan(plan, self._key, needed)
        return plan

    def _stored(self, stored: Plan) -> Plan:
        """Return a stored plan with its cast, marks as lists, and LoRAs."""
        plan = self._complete(stored)
        if plan != stored:
            self._store.keep_plan(plan, self._key)
        return plan

    def _complete(self, plan: Plan) -> Plan:
        with_cast = plan if self._cast is None else self._cast(self._request, plan)
        return with_loras(with_cast.resolved, self._generator)

    def _user_decided(self, result: StepResult) -> bool:
        """Return whether the user decided about a step, or edited the plan, while it was run."""
        step = result.step
        choices, style = self._store.choices(), self.plan.style
        picked = user_selected(result.attempts, choices.steps.get(step.number)) is not None
        asked = any(request.by == "user" for request in choices.requests(step, style).values())
        written = self._store.written_plan()
        edited = written is not None and plan_digest(written) != plan_digest(self.plan)
        return picked or asked or edited or choices.skipped(step, style)


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
        self.generator = NoGenerator() if given is None else adopt(given, Generator)
        self.several = self.generator.draws_several
        self.run_plan = RunPlan(request, store, self.generator, collaborators)
        self.draws = CachedDraws(self.generator, store)
        self.results: list[StepResult] = []
        self.waiting: Waiting | None = None

    def events(self, given: Plan | None) -> EventStream[Event, None, None]:
        self._appoint_critic(given)
        written = given if given is not None else self.store.written_plan()
        self.settings = with_most_images(self.settings, written, self.generator)
        self.settings = with_seed_rule(self.settings, self.generator)
        deadline = time.monotonic() + (self.settings.time_budget or float("inf"))
        self.store.begin(self.request, self.settings, self._identities(self.given.planner is not None))
        try:
            plan = self.run_plan.find(given, self.critic)
            self._prepare(plan, deadline)
            yield PlanReady(plan, self.run_plan.reused)
            yield from self._unused_from_start(plan)
            if self.run_plan.planned:
                self.waiting = waits_for_plan(plan, self.settings, self.store.choices().approved_plan)
            while self.waiting is None and (yield from self._steps()):
                reopened = yield from self._review()
                if reopened is None:
                    break
                del self.results[reopened:]
            yield self._finish()
        finally:
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
        return self.waiting is not None or ends_run(result, self.settings)

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
            planning=self.store.planning(),
            choices=self.store.choices(),
        )
        waiting = self.store.keep_waiting(self.waiting)
        self.store.finish(trajectory)
        return Finished(self.store.with_clips(trajectory), waiting)
