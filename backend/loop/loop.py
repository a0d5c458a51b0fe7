"""The run itself: plan, draw, judge, redraw, as a stream of typed events while it happens.

Decision: a run is a Python generator. Who consumes it (command line, node, service, test) decides the pace
and stops it by closing it; everything finished by then is in the memory, so the same call continues where it
was. The rules are in policy.py, what is remembered in memory.py; this file only says what follows what.

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
from contextlib import suppress
from functools import partial

from ..errors import Cancelled, SettingsError, SourceMissing
from ..generators.protocol import DrawsSeveral, FollowsAnchor, Generator
from ..journal.store import InMemoryStore, PlanKey, RunStore
from ..types import (
    Attempt,
    DrawSettings,
    Fault,
    Identities,
    Plan,
    Redraw,
    Request,
    RunSettings,
    Step,
    StepResult,
    StopReason,
    Trajectory,
)
from .cached_calls import CachedCalls, DrawnFrom, WantedDraw
from .earlier_images import drawn_settings, with_most_images
from .events import AttemptDrawn, AttemptJudged, AttemptStarted, Event, Finished, PlanReady, StepFinished
from .policy import (
    accepted,
    check_source,
    choose,
    draws_left,
    first_image,
    next_prompt,
    user_selected,
)
from .protocols import CriticLike, Offloadable, PlannerLike
from .step_rules import check_steps, most_tries, redraw_seed, step_seed, step_source, tries_of
from .unreadable import UnreadableVerdicts

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
) -> Iterator[Event]:
    """Carry out a request and yield what happens; the last event is `Finished` with the trajectory.

    `plan` given, or one a person wrote into the journal, is used as it is; else the journal's for the same
    planner and request, else the planner's. A `planner` beside a given plan is the one that wrote it.
    `critic` None or `max_attempts` 1 draws each step once, unjudged; of several images that one draw gave, a
    critic finds the best then too. A failed draw or judgement becomes the attempt's `error` and the next
    attempt follows; a failed planner raises AnswerError or ChatError, a critic whose verdicts cannot be read
    AnswerError, an unusable journal JournalError, a source rule without its image SettingsError.
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
        self.unreadable = UnreadableVerdicts(critic.identity if critic else "")
        self.results: list[StepResult] = []
        self.attempts: list[Attempt] = []

    def events(self, given: Plan | None) -> Iterator[Event]:
        self._appoint_critic(given)
        written = given if given is not None else self.store.written_plan()
        self.settings = with_most_images(self.settings, written, self.generator)
        self.deadline = time.monotonic() + (self.settings.time_budget or float("inf"))
        self.store.begin(self.request, self.settings, self._identities(self.planner is not None))
        try:
            plan, planned, reused = self._plan(given)
            self.settings = with_most_images(self.settings, plan, self.generator)
            check_steps(plan, self.request, self.generator)
            self._appoint_critic(plan)
            self.identities = self._identities(planned)
            self.plan = plan
            yield PlanReady(plan, reused)
            for step in plan.drawn_steps:
                if step.prompt and not draws_left(self.results, self.settings):
                    break
                try:
                    yield from self._step(step)
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
        needed = self.several or most_tries(plan, self.settings) > 1
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
            self.planner.rest(self.critic)
        self.store.keep_plan(plan, key)
        return plan, True, False

    def _step(self, step: Step) -> Iterator[Event]:
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
        pick = self.store.user_selected(step.number)
        prompt = step.prompt
        tries = tries_of(step, self.settings) if self.critic else 1
        most = min(tries, draws_left(self.results, self.settings))
        reason = StopReason.unjudged
        draws = 0
        while draws < most and not self._redraw_waits(step, prompt, drawn_from, draws):
            first = len(self.attempts)
            numbers = range(draws, min(draws + self.settings.candidates, most))
            draws = numbers.stop
            stopped = yield from self._candidates(step, numbers, prompt, drawn_from, pick)
            candidates = self.attempts[first:]
            if self.critic and (tries > 1 or len(candidates) > 1):
                reason = StopReason.tries_used_up
                if self.settings.judge_last or (stopped is None and draws < most):
                    yield from self._judge(step, first)
                    candidates = self.attempts[first:]
            if any(accepted(attempt.verdict, self.settings.accept_at) for attempt in candidates):
                reason = StopReason.accepted
                break
            if stopped is not None:
                reason = stopped
                break
            prompt = next_prompt(candidates, self.plan.style)
        redrawn, ended = yield from self._redraws(step, drawn_from)
        if self.attempts and all(attempt.image is None for attempt in self.attempts):
            reason = StopReason.error
        elif redrawn is not None:
            passed = accepted(self.attempts[redrawn].verdict, self.settings.accept_at)
            refused = StopReason.redrawn if self.critic else StopReason.unjudged
            reason = StopReason.accepted if passed else refused
        # Read anew: a person may have decided while the step was drawn.
        picks = (self.store.user_selected(step.number), pick if redrawn is None else None)
        picked = next(
            (one for digest in picks if (one := user_selected(self.attempts, digest)) is not None), None
        )
        if picked is not None:
            yield self._close(step, StopReason.picked, picked)
        else:
            yield self._close(step, ended or reason, redrawn)

    def _drawn_from(self, step: Step, earlier: list[StepResult]) -> DrawnFrom:
        """What the draws of a step begin with, after these results; raises SourceMissing."""
        source = step_source(step, self.request, earlier, self.settings)
        return DrawnFrom(source, drawn_settings(step, self.request, earlier, self.settings))

    def _redraw_waits(self, step: Step, prompt: str, drawn_from: DrawnFrom, draws: int) -> bool:
        """Whether a person asked for another attempt than the next one, which is then not made.

        What was made before comes first all the same: a run that goes on has the attempts in the same order.
        """
        if not self.store.redraws(step):
            return False
        seed = step_seed(step, draws, self.settings)
        return not self.cached_calls.has_drawn(drawn_from.wanted(prompt, seed))

    def _redraws(
        self, step: Step, drawn_from: DrawnFrom
    ) -> EventStream[Event, None, tuple[int | None, StopReason | None]]:
        """Make the attempts that a person asked for, after the step's own; returns which of them is the
        step's result (None: there is none), and why it ended before the last of them.

        Several that are not made yet: only the newest is, for each takes the place of the one before. A
        person's word stands above the critic's, which is heard but neither refuses nor refines it.
        """
        done, result = 0, None
        while later := {number: what for number, what in self.store.redraws(step).items() if number > done}:
            done, prompt = next(iter(later.items()))
            seed = redraw_seed(step, self.settings, done, prompt, self.attempts)
            wanted = drawn_from.wanted(prompt, seed)
            if not self.cached_calls.has_drawn(wanted):
                pick = self.store.user_selected(step.number)
                if len(later) > 1 or user_selected(self.attempts, pick) is not None:
                    continue
                if time.monotonic() >= self.deadline:
                    return result, StopReason.budget
            first = len(self.attempts)
            yield from self._draw(step, wanted, Redraw(number=done))
            several = len(self.attempts) - first > 1
            if self.settings.judge_last and (tries_of(step, self.settings) > 1 or several):
                yield from self._judge(step, first)
            best = choose(self.attempts[first:], self.settings)
            result = result if best is None else first + best
        return result, None

    def _without_source(self, step: Step, reason: str) -> Iterator[Event]:
        """End a step that is to edit an image which was not drawn, with that as its fault."""
        prompt, seed = step.prompt or "", step_seed(step, 0, self.settings)
        attempt = Attempt(prompt=prompt, seed=seed, error=Fault(where="source", message=reason))
        self.attempts.append(attempt)
        yield AttemptStarted(step, 0, prompt, seed)
        yield AttemptDrawn(step, 0, attempt)
        yield self._close(step, StopReason.error)

    def _candidates(
        self, step: Step, numbers: range, prompt: str, drawn_from: DrawnFrom, pick: str | None
    ) -> EventStream[Event, None, StopReason | None]:
        """Make the draws of these numbers; returns why it ended before the last of them, None if it did
        not."""
        draws = [drawn_from.wanted(prompt, step_seed(step, number, self.settings)) for number in numbers]
        decided = user_selected(self.attempts, pick) is not None
        with self.cached_calls.side_by_side([] if decided else draws):
            for wanted in draws:
                decided = user_selected(self.attempts, pick) is not None
                if decided and not self.cached_calls.has_drawn(wanted):
                    return StopReason.picked
                if time.monotonic() >= self.deadline:
                    return StopReason.budget
                yield from self._draw(step, wanted)
        return None

    def _draw(self, step: Step, wanted: WantedDraw, redraw: Redraw | None = None) -> Iterator[Event]:
        """Make one draw; each of its images is an attempt."""
        prompt, source, seed, settings = wanted
        beside = settings.beside if isinstance(settings, DrawSettings) else ()
        yield AttemptStarted(step, len(self.attempts), prompt, seed, redraw)
        drawn, reused = self.cached_calls.draw(wanted)
        images = drawn.images or (None,)
        for place, image in enumerate(images):
            number = len(self.attempts)
            if place:
                yield AttemptStarted(step, number, prompt, seed, redraw)
            attempt = Attempt(
                prompt=prompt,
                seed=seed,
                source=source,
                beside=beside,
                image=image,
                error=drawn.error,
                seconds=drawn.seconds / len(images),
                place=place,
                redraw=redraw,
            )
            self.attempts.append(attempt)
            yield AttemptDrawn(step, number, attempt, reused, len(images))

    def _judge(self, step: Step, first: int) -> Iterator[Event]:
        """Judge the attempts from `first` on, together where that is possible."""
        numbers = [number for number in range(first, len(self.attempts)) if self.attempts[number].image]
        if self.critic is None or not numbers or step.prompt is None:
            return
        drawn = [self.attempts[number] for number in numbers]
        judged = self.cached_calls.judge(
            self.critic, step.prompt, drawn, partial(self._draw_ahead, step, drawn)
        )
        for number, (found, reused) in zip(numbers, judged, strict=True):
            attempt = self.attempts[number]
            seconds = attempt.seconds + found.seconds
            update = {"verdict": found.verdict, "error": found.error, "seconds": seconds}
            self.attempts[number] = attempt.model_copy(update=update)
            yield AttemptJudged(step, number, self.attempts[number], reused)
            self.unreadable.hear(found.verdict, reused)

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
        failed = result.stop_reason in (StopReason.tries_used_up, StopReason.error)
        return result.stop_reason is StopReason.budget or (failed and self.settings.on_failure == "stop")

    def _finish(self, plan: Plan) -> Finished:
        trajectory = Trajectory(
            request=self.request,
            plan=plan,
            results=tuple(self.results),
            settings=self.settings,
            identities=self.identities,
        )
        self.store.finish(trajectory)
        return Finished(trajectory)
