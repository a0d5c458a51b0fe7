"""The run: plan, generate, judge and try again, as a stream of typed events.

A run is a Python generator. Its consumer (command line, node, service, test) sets the pace and stops it by
closing it. Everything that is finished by then is in the store, so the same call resumes the run. The rules
are in policy.py, the attempts of one step in step_attempts.py, and the records in the store. This file only
decides the order.

`Finished` is the last event. A run that ends early (time budget, `max_draws`, `on_failure=stop`, `pause`,
cancelled) has fewer results than its plan has steps, and the stop reason of its last result gives the cause.
`Finished` also has what a paused run waits for. After `Cancelled` or Ctrl-C the run still yields
`StepFinished` and a `Finished` with the results so far, and then raises the exception again. So a consumer
that only iterates cannot mistake a cancelled run for a complete one.
"""

from __future__ import annotations

import time
from collections.abc import Generator as EventStream
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial

from ..errors import Cancelled, SettingsError, SourceMissing
from ..generators.no_generator import NoGenerator, check_text_only
from ..generators.protocol import DrawsSeveral, FollowsAnchor, Generator
from ..journal.store import InMemoryStore, PlanKey, RunStore
from ..journal.waiting import Waiting
from ..types import (
    Attempt,
    Fault,
    Identities,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    UnusedSetting,
    in_style,
)
from .cached_calls import CachedCalls, DrawnFrom
from .earlier_images import drawn_settings, unused_cast_images, with_most_images
from .events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    SettingUnused,
    StepFinished,
    StepRewritten,
)
from .missing_verdicts import MissingVerdicts
from .policy import (
    accepted,
    check_source,
    checklist_of,
    choose,
    draws_left,
    first_image,
    next_prompt,
    unused_at,
    unused_checklist,
    unused_from_start,
    user_selected,
    waits_at,
    waits_for_plan,
)
from .protocols import (
    CastOfPlan,
    ContinuesRuns,
    CriticLike,
    KnowsUnused,
    Offloadable,
    PlannerLike,
    RewritesSteps,
    StoryReviewer,
)
from .step_attempts import StepAttempts, StepContext
from .step_rules import check_steps, max_attempts_in, max_attempts_of, step_seed, step_source

__all__ = ["GIVEN", "CriticLike", "PlannerLike", "run"]

GIVEN = "given"
"""Identity of the planner in a trajectory whose plan was written by the user."""


def run(
    request: Request,
    planner: PlannerLike | None,
    generator: Generator | None,
    critic: CriticLike | None,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    journal: RunStore | None = None,
    plan: Plan | None = None,
    cast: CastOfPlan | None = None,
    rewriter: RewritesSteps | None = None,
    reviewer: StoryReviewer | None = None,
) -> EventStream[Event, None, None]:
    """Run a request and yield what happens; the last event is `Finished` with the trajectory.

    A generator call or judgement that fails becomes the `error` of its attempt, and the next attempt follows.

    Args:
        request: The request.
        planner: The planner. Next to a given `plan` it is recorded as the planner of that plan, and not
            called.
        generator: The image generator. `None` if the plan has only text-only steps.
        critic: The critic. With `None` or `max_attempts` 1 every step is generated once and not judged,
            unless one generator call returns several images: then the critic chooses the best.
        settings: The run's settings.
        journal: Stores plan, images and verdicts. Default: in memory.
        plan: The plan. Default: the plan that the user wrote into the journal, else the cached plan of the
            same planner and request, else a new one from the planner.
        cast: Returns the plan with its cast, before it is stored. Called for every plan, also a cached one.
        rewriter: Writes a prompt for the whole image of a step whose attempts are used up. The step is then
            generated from text, with new attempts, and stored so in the plan.
        reviewer: Checks the finished story, and may have one of its steps and those after it run again.

    Raises:
        AnswerError: The planner's reply, or two verdicts in a row, could not be parsed.
        ChatError: The planner failed, or two judgements in a row failed.
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
    if reviewer is not None and settings.max_draws is not None:
        raise SettingsError(
            "max_draws cannot be combined with a story check, which generates steps again.",
            "Remove one of them.",
        )
    store = journal or InMemoryStore()
    return _Run(request, planner, generator, critic, settings, store, cast, rewriter, reviewer).events(plan)


class _Run:
    """The state of one run: the finished steps, and the attempts of the current step."""

    def __init__(
        self,
        request: Request,
        planner: PlannerLike | None,
        generator: Generator | None,
        critic: CriticLike | None,
        settings: RunSettings,
        store: RunStore,
        cast: CastOfPlan | None,
        rewriter: RewritesSteps | None,
        reviewer: StoryReviewer | None,
    ) -> None:
        self.request = request
        self.rewriter, self.reviewer = rewriter, reviewer
        self.cast = cast
        self.planner = planner
        self.generator = generator or NoGenerator()
        several = isinstance(generator, DrawsSeveral) and generator.draws_several
        self.given_critic, self.several = critic, several
        self.settings = settings
        self.store = store
        self.cached_calls = CachedCalls(self.generator, store)
        self.results: list[StepResult] = []
        self.attempts: list[Attempt] = []
        self.given_up = 0
        self.plan_key: PlanKey | None = None
        self.unused: list[UnusedSetting] = []
        self.waiting: Waiting | None = None

    def events(self, given: Plan | None) -> EventStream[Event, None, None]:
        prompt_sets = self.store.prompt_sets()
        if isinstance(self.planner, ContinuesRuns):
            self.planner = self.planner.continuing(prompt_sets)
        if isinstance(self.given_critic, ContinuesRuns):
            self.given_critic = self.given_critic.continuing(prompt_sets)
        self._appoint_critic(given)
        written = given if given is not None else self.store.written_plan()
        self.settings = with_most_images(self.settings, written, self.generator)
        deadline = time.monotonic() + (self.settings.time_budget or float("inf"))
        self.store.begin(self.request, self.settings, self._identities(self.planner is not None))
        try:
            plan, planned, reused = self._plan(given)
            settings = with_most_images(self.settings, plan, self.generator)
            if settings != self.settings:
                self.settings = settings
                self.store.keep_settings(settings)
            if isinstance(self.generator, NoGenerator):
                check_text_only(plan)
            check_steps(plan, self.request, self.generator)
            self._appoint_critic(plan)
            self.identities = self._identities(planned)
            self.plan = plan
            missing = MissingVerdicts(self.critic.identity if self.critic else "")
            self.context = StepContext(
                self.settings, self.store, self.cached_calls, self.critic, missing, deadline
            )
            yield PlanReady(plan, reused)
            agents = (self.planner if planned else None, self.critic)
            yield from self._unused(unused_from_start(self.generator, agents))
            yield from self._unused(unused_cast_images(plan, self.generator))
            yield from self._unused(unused_checklist(plan, self.critic, self.settings))
            if planned:
                self.waiting = waits_for_plan(plan, self.settings, self.store.approved_plan())
            while self.waiting is None and (yield from self._steps()):
                reopened = yield from self._review()
                if reopened is None:
                    break
                del self.results[reopened:]
            yield self._finish(self.plan)
        finally:
            self.cached_calls.close()
            self.store.end()

    def _steps(self) -> EventStream[Event, None, bool]:
        """Run the steps that have no result yet. Return whether all steps have one then."""
        for step in self.plan.drawn_steps[len(self.results) :]:
            if step.prompt and not self._draws_left():
                return False
            try:
                yield from self._step_events(step)
            except (Cancelled, KeyboardInterrupt):
                yield self._close(step, StopReason.cancelled)
                yield self._finish(self.plan)
                raise
            if self._ends_after(self.results[-1]):
                return False
        return True

    def _review(self) -> EventStream[Event, None, int | None]:
        """Return the index of the step that the story check reopened, if it reopened one."""
        if self.reviewer is None:
            return None
        try:
            deadline = self.context.deadline
            return (
                yield from self.reviewer.review(self.store, self.request, self.plan, self.results, deadline)
            )
        except (Cancelled, KeyboardInterrupt):
            yield self._finish(self.plan)
            raise

    def _appoint_critic(self, plan: Plan | None) -> None:
        """Use the critic only if a step has several attempts or several images."""
        needed = self.several or max_attempts_in(plan, self.settings) > 1
        self.critic = self.given_critic if needed else None

    def _identities(self, planned: bool) -> Identities:
        planner = self.planner if planned else None
        agents = [agent for agent in (self.planner, self.critic) if agent]
        digests = [agent.prompt_set_digest for agent in agents if agent.prompt_set_digest]
        return Identities(
            planner=planner.identity if planner else GIVEN,
            generator=self.generator.identity,
            critic=self.critic.identity if self.critic else "",
            prompt_set="+".join(dict.fromkeys(digests)),
        )

    def _plan(self, given: Plan | None) -> tuple[Plan, bool, bool]:
        """Return the plan, whether it is from a planner, and whether it came from the journal."""
        if given is not None:
            given = self._with_cast(given)
            self.store.keep_plan(given, None)
            return given, self.planner is not None, False
        written = self.store.written_plan()
        if written is not None:
            return self._stored_with_cast(written, None), False, True
        if self.planner is None:
            raise SettingsError(
                "The run has neither a planner nor a plan.", "Choose a planner, or give a plan."
            )
        self.plan_key = key = PlanKey(
            planner=self.planner.identity,
            text=self.request.text,
            images=tuple(image.digest for image in self.request.images),
        )
        remembered = self.store.plan(key)
        if remembered is not None:
            return self._stored_with_cast(remembered, key), True, True
        plan = self._with_cast(self.planner.plan(self.request))
        if isinstance(self.planner, Offloadable):
            self.planner.offload(self.critic)
        self.store.keep_plan(plan, key)
        return plan, True, False

    def _with_cast(self, plan: Plan) -> Plan:
        return plan if self.cast is None else self.cast(self.request, plan)

    def _stored_with_cast(self, stored: Plan, key: PlanKey | None) -> Plan:
        plan = self._with_cast(stored)
        if plan != stored:
            self.store.keep_plan(plan, key)
        return plan

    def _unused(self, settings: list[UnusedSetting]) -> Iterator[Event]:
        """Report the settings without effect that were not reported yet."""
        for setting in settings:
            if setting not in self.unused:
                self.unused.append(setting)
                yield SettingUnused(setting)

    def _step_events(self, step: Step) -> Iterator[Event]:
        with closing(self._step(step)) as events:
            for event in events:
                yield event
                if isinstance(event, AttemptJudged):
                    yield from self._unused(unused_at(event.record.verdict, self.settings))
                    if isinstance(self.critic, KnowsUnused):
                        # A server may have rejected a setting only now.
                        yield from self._unused(list(self.critic.unused_settings))

    def _step(self, step: Step) -> EventStream[Event, None, None]:
        """Run one step. Its result is then the last of `results`."""
        with closing(self._tried(step)) as events:
            for event in events:
                rewritten = self._rewritten(event.result) if isinstance(event, StepFinished) else None
                if rewritten is None:
                    yield event
                    continue
                self.given_up += len(self.results.pop().attempts)
                yield StepRewritten(rewritten)
                yield from self._tried(rewritten)

    def _tried(self, step: Step) -> EventStream[Event, None, None]:
        """Run one step until there is a reason to stop."""
        if not step.prompt or self.store.skipped(step):
            yield self._close(step, StopReason.skipped if step.prompt else StopReason.text_only)
            return
        try:
            drawn_from = self._drawn_from(step, self.results)
        except SourceMissing as missing:
            yield from self._without_source(step, missing.message)
            return
        if isinstance(self.generator, FollowsAnchor):
            self.generator.set_anchor(first_image(self.request.images, self.results))
        attempts = StepAttempts(
            step,
            drawn_from,
            self.context,
            partial(self._draw_ahead, step),
            self.attempts,
            checklist_of(step, self.plan, self.settings),
            style=self.plan.style,
        )
        pick = self.store.user_selected(step.number)
        prompt = step.prompt
        attempts_allowed = max_attempts_of(step, self.settings) if self.critic else 1
        most = min(attempts_allowed, self._draws_left())
        reason = StopReason.unjudged
        draws = 0
        while draws < most and not attempts.redraw_waits(prompt, draws):
            first = len(attempts.made)
            numbers = range(draws, min(draws + self.settings.candidates, most))
            draws = numbers.stop
            stopped = yield from attempts.candidates(numbers, prompt, pick)
            candidates = attempts.made[first:]
            if self.critic and (attempts_allowed > 1 or len(candidates) > 1):
                reason = StopReason.attempts_used_up
                if self.settings.judge_last or (stopped is None and draws < most):
                    yield from attempts.judge(first)
                    candidates = attempts.made[first:]
            if any(accepted(attempt.verdict, self.settings.accept_at) for attempt in candidates):
                reason = StopReason.accepted
                break
            if stopped is not None:
                reason = stopped
                break
            prompt = next_prompt(candidates, self.plan.style)
        redrawn, ended = yield from attempts.redraws()
        if attempts.made and all(attempt.image is None for attempt in attempts.made):
            reason = StopReason.error
        elif redrawn is not None:
            passed = accepted(attempts.made[redrawn].verdict, self.settings.accept_at)
            otherwise = StopReason.redrawn if self.critic else StopReason.unjudged
            reason = StopReason.accepted if passed else otherwise
        # Read again: the user may have picked an attempt in the meantime.
        picks = (self.store.user_selected(step.number), pick if redrawn is None else None)
        picked = next(
            (one for digest in picks if (one := user_selected(attempts.made, digest)) is not None), None
        )
        if picked is not None:
            yield self._close(step, StopReason.picked, picked)
        else:
            yield self._close(step, ended or reason, redrawn)

    def _draws_left(self) -> int:
        return max(0, draws_left(self.results, self.settings) - self.given_up)

    def _rewritten(self, result: StepResult) -> Step | None:
        """Return a failed step as one generated from text; `None` if it cannot be, or is one already."""
        failed = result.stop_reason is StopReason.attempts_used_up and result.attempts[-1].source is not None
        if self.rewriter is None or not failed or not self._draws_left():
            return None
        verdicts = [attempt.verdict for attempt in result.attempts if attempt.verdict]
        prompt = self.rewriter(self.plan, result.step, verdicts[-1].reasoning if verdicts else "")
        if not prompt:
            return None
        settings = result.step.settings.model_copy(update={"source": "text", "mask": None, "denoise": None})
        step = result.step.model_copy(
            update={"prompt": in_style(prompt, self.plan.style), "settings": settings}
        )
        steps = tuple(step if one.number == step.number else one for one in self.plan.steps)
        self.plan = self.plan.model_copy(update={"steps": steps})
        self.store.keep_plan(self.plan, self.plan_key)
        return step

    def _drawn_from(self, step: Step, earlier: list[StepResult]) -> DrawnFrom:
        """Return what the attempts of a step start from, given the earlier results.

        Raises:
            SourceMissing: The step edits an image that does not exist.
        """
        source = step_source(step, self.request, earlier, self.settings)
        settings = drawn_settings(step, self.plan, self.request, earlier, self.settings, source)
        return DrawnFrom(source, settings)

    def _without_source(self, step: Step, reason: str) -> Iterator[Event]:
        """End a step whose source image does not exist, with this as its error."""
        prompt, seed = step.prompt or "", step_seed(step, 0, self.settings)
        attempt = Attempt(prompt=prompt, seed=seed, error=Fault(where="source", message=reason))
        self.attempts.append(attempt)
        yield AttemptStarted(step, 0, prompt, seed)
        yield AttemptDrawn(step, 0, attempt)
        yield self._close(step, StopReason.error)

    def _draw_ahead(self, step: Step, attempts: list[Attempt]) -> None:
        """Start to generate the next step as if this attempt were accepted, if the settings ask for it.

        With several candidates this is not done, since the accepted one is not known.
        """
        later = next((one for one in self.plan.drawn_steps if one.number > step.number and one.prompt), None)
        wanted = self.settings.draw_ahead and self.settings.candidates == 1 and len(attempts) == 1
        if self.settings.pause == "every step":
            return  # the user is asked before the next step is generated
        if not wanted or later is None or not later.prompt or self.store.skipped(later):
            return
        result = StepResult(step=step, attempts=tuple(attempts), chosen=0, stop_reason=StopReason.accepted)
        results = [*self.results, result]
        given = self.request.images
        if isinstance(self.generator, FollowsAnchor) and (
            first_image(given, results) != first_image(given, self.results)
        ):
            return  # its anchor depends on the verdict
        with suppress(SourceMissing):
            seed = step_seed(later, 0, self.settings)
            self.cached_calls.draw_ahead(self._drawn_from(later, results).wanted(later.prompt, seed))

    def _close(self, step: Step, reason: StopReason, chosen: int | None = None) -> StepFinished:
        result = StepResult(
            step=step,
            attempts=tuple(self.attempts),
            chosen=choose(self.attempts, self.settings) if chosen is None else chosen,
            stop_reason=reason,
        )
        self.results.append(result)
        self.attempts = []
        return StepFinished(result)

    def _ends_after(self, result: StepResult) -> bool:
        self.waiting = waits_at(result, self.settings)
        failed = result.stop_reason in (StopReason.attempts_used_up, StopReason.error)
        stops = failed and self.settings.on_failure == "stop"
        return self.waiting is not None or result.stop_reason is StopReason.budget or stops

    def _finish(self, plan: Plan) -> Finished:
        trajectory = Trajectory(
            request=self.request,
            plan=plan,
            results=tuple(self.results),
            settings=self.settings,
            identities=self.identities,
            unused=tuple(self.unused),
            checks=self.store.story_checks(),
        )
        waiting = self.store.keep_waiting(self.waiting)
        self.store.finish(trajectory)
        return Finished(trajectory, waiting)
