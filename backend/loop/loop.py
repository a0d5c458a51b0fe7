"""The run itself: plan, draw, judge, redraw, as a stream of typed events while it happens.

Decision: a run is a Python generator. Who consumes it (command line, node, service, test) decides the pace
and stops it by closing it; everything finished by then is in the store, so the same call continues where it
was. The rules are in policy.py, the draws and judgements of a step in step_attempts.py, what is remembered in
the store; this file only says what follows what.

How a run ends: `Finished` is the last event. A run that ends early (time budget, no draws left,
`on_failure=stop`, cancelled) has fewer results than its plan has steps, and its last result's stop reason
says why. `Cancelled` and Ctrl-C, from wherever they come, still give the step's `StepFinished` and a
`Finished` with what there is, and are raised again after that: who only iterates cannot mistake a cancelled
run for a whole one.
"""

from __future__ import annotations

import time
from collections.abc import Generator as EventStream
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial

from ..errors import Cancelled, SettingsError, SourceMissing
from ..generators.protocol import DrawsSeveral, FollowsAnchor, Generator
from ..journal.store import InMemoryStore, PlanKey, RunStore
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
)
from .cached_calls import CachedCalls, DrawnFrom
from .earlier_images import drawn_settings, with_most_images
from .events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    SettingUnused,
    StepFinished,
)
from .missing_verdicts import MissingVerdicts
from .policy import (
    accepted,
    check_source,
    choose,
    draws_left,
    first_image,
    next_prompt,
    unused_at,
    unused_from_start,
    user_selected,
)
from .protocols import ContinuesRuns, CriticLike, Offloadable, PlannerLike
from .step_attempts import StepAttempts, StepContext
from .step_rules import check_steps, max_attempts_in, max_attempts_of, step_seed, step_source

__all__ = ["GIVEN", "CriticLike", "PlannerLike", "run"]

GIVEN = "given"
"""Planner's identity in a trajectory whose plan came from a person."""


def run(
    request: Request,
    planner: PlannerLike | None,
    generator: Generator,
    critic: CriticLike | None,
    settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
    journal: RunStore | None = None,
    plan: Plan | None = None,
) -> EventStream[Event, None, None]:
    """Carry out a request and yield what happens; the last event is `Finished` with the trajectory.

    `plan` given, or one a person wrote into the journal, is used as it is; else the journal's for the same
    planner and request, else the planner's. A `planner` beside a given plan is the one that wrote it.
    `critic` None or `max_attempts` 1 draws each step once, unjudged; of several images that one draw gave, a
    critic finds the best then too. A failed draw or judgement becomes the attempt's `error` and the next
    attempt follows. A failed planner raises AnswerError or ChatError, two verdicts in a row that cannot be
    read AnswerError, two failed judgements in a row ChatError, an unusable journal JournalError, a source
    rule without its image SettingsError.
    """
    check_source(request, settings)
    return _Run(request, planner, generator, critic, settings, journal or InMemoryStore()).events(plan)


class _Run:
    """The state of one run: what is finished, and the attempts of the step at hand."""

    def __init__(
        self,
        request: Request,
        planner: PlannerLike | None,
        generator: Generator,
        critic: CriticLike | None,
        settings: RunSettings,
        store: RunStore,
    ) -> None:
        self.request = request
        self.planner = planner
        self.generator = generator
        several = isinstance(generator, DrawsSeveral) and generator.draws_several
        self.given_critic, self.several = critic, several
        self.settings = settings
        self.store = store
        self.cached_calls = CachedCalls(generator, store)
        self.results: list[StepResult] = []
        self.attempts: list[Attempt] = []
        self.unused: list[UnusedSetting] = []

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
            self.settings = with_most_images(self.settings, plan, self.generator)
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
            for step in plan.drawn_steps:
                if step.prompt and not draws_left(self.results, self.settings):
                    break
                try:
                    yield from self._step_events(step)
                except (Cancelled, KeyboardInterrupt):
                    yield self._close(step, StopReason.cancelled)
                    yield self._finish(plan)
                    raise
                if self._ends_after(self.results[-1]):
                    break
            yield self._finish(plan)
        finally:
            self.cached_calls.close()
            self.store.end()

    def _appoint_critic(self, plan: Plan | None) -> None:
        """Nobody judges where a step is drawn once and one image comes of it."""
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
        """The plan, whether a planner made it, and whether it was there already."""
        if given is not None:
            self.store.keep_plan(given, None)
            return given, self.planner is not None, False
        written = self.store.written_plan()
        if written is not None:
            return written, False, True
        if self.planner is None:
            raise SettingsError("There is neither a planner nor a plan.", "Give one of them.")
        key = PlanKey(
            planner=self.planner.identity,
            text=self.request.text,
            images=tuple(image.digest for image in self.request.images),
        )
        remembered = self.store.plan(key)
        if remembered is not None:
            return remembered, True, True
        plan = self.planner.plan(self.request)
        if isinstance(self.planner, Offloadable):
            self.planner.offload(self.critic)
        self.store.keep_plan(plan, key)
        return plan, True, False

    def _unused(self, settings: list[UnusedSetting]) -> Iterator[Event]:
        """Report settings without effect that were not reported yet."""
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

    def _step(self, step: Step) -> EventStream[Event, None, None]:
        """Draw and judge one step until a reason to stop; its result is then the last of `results`."""
        if not step.prompt:
            yield self._close(step, StopReason.text_only)
            return
        try:
            drawn_from = self._drawn_from(step, self.results)
        except SourceMissing as missing:
            yield from self._without_source(step, missing.message)
            return
        if isinstance(self.generator, FollowsAnchor):
            self.generator.set_anchor(first_image(self.request.images, self.results))
        attempts = StepAttempts(
            step, drawn_from, self.context, partial(self._draw_ahead, step), self.attempts
        )
        pick = self.store.user_selected(step.number)
        prompt = step.prompt
        tries = max_attempts_of(step, self.settings) if self.critic else 1
        most = min(tries, draws_left(self.results, self.settings))
        reason = StopReason.unjudged
        draws = 0
        while draws < most and not attempts.redraw_waits(prompt, draws):
            first = len(attempts.made)
            numbers = range(draws, min(draws + self.settings.candidates, most))
            draws = numbers.stop
            stopped = yield from attempts.candidates(numbers, prompt, pick)
            candidates = attempts.made[first:]
            if self.critic and (tries > 1 or len(candidates) > 1):
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
            refused = StopReason.redrawn if self.critic else StopReason.unjudged
            reason = StopReason.accepted if passed else refused
        # Read anew: a person may have decided while the step was drawn.
        picks = (self.store.user_selected(step.number), pick if redrawn is None else None)
        picked = next(
            (one for digest in picks if (one := user_selected(attempts.made, digest)) is not None), None
        )
        if picked is not None:
            yield self._close(step, StopReason.picked, picked)
        else:
            yield self._close(step, ended or reason, redrawn)

    def _drawn_from(self, step: Step, earlier: list[StepResult]) -> DrawnFrom:
        """What the draws of a step begin with, after these results; raises SourceMissing."""
        source = step_source(step, self.request, earlier, self.settings)
        return DrawnFrom(source, drawn_settings(step, self.request, earlier, self.settings))

    def _without_source(self, step: Step, reason: str) -> Iterator[Event]:
        """End a step that is to edit an image which was not drawn, with that as its fault."""
        prompt, seed = step.prompt or "", step_seed(step, 0, self.settings)
        attempt = Attempt(prompt=prompt, seed=seed, error=Fault(where="source", message=reason))
        self.attempts.append(attempt)
        yield AttemptStarted(step, 0, prompt, seed)
        yield AttemptDrawn(step, 0, attempt)
        yield self._close(step, StopReason.error)

    def _draw_ahead(self, step: Step, attempts: list[Attempt]) -> None:
        """Begin to draw what follows if this attempt is accepted, where the settings want that; which of
        several candidates that will be nobody knows."""
        later = next((one for one in self.plan.drawn_steps if one.number > step.number and one.prompt), None)
        wanted = self.settings.draw_ahead and self.settings.candidates == 1 and len(attempts) == 1
        if not wanted or later is None or not later.prompt:
            return
        result = StepResult(step=step, attempts=tuple(attempts), chosen=0, stop_reason=StopReason.accepted)
        results = [*self.results, result]
        given = self.request.images
        if isinstance(self.generator, FollowsAnchor) and (
            first_image(given, results) != first_image(given, self.results)
        ):
            return  # its anchor is not known before the verdict
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
        failed = result.stop_reason in (StopReason.attempts_used_up, StopReason.error)
        return result.stop_reason is StopReason.budget or (failed and self.settings.on_failure == "stop")

    def _finish(self, plan: Plan) -> Finished:
        trajectory = Trajectory(
            request=self.request,
            plan=plan,
            results=tuple(self.results),
            settings=self.settings,
            identities=self.identities,
            unused=tuple(self.unused),
        )
        self.store.finish(trajectory)
        return Finished(trajectory)
