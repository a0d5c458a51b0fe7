"""One step of a run: its attempts, until there is a reason to stop.

The attempts are one list, with which the run closes the step. The list contains everything that was made
before a cancel or a failure, so no image that the user has seen is missing in the result. What decides about
an attempt is in policy.py.
"""

from __future__ import annotations

import time
from collections.abc import Generator as EventStream
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...core.errors import SourceMissing
from ...core.pictures import Picture
from ...core.seams.generator import Generator
from ...core.types import (
    Attempt,
    DrawSettings,
    Fault,
    Plan,
    Redraw,
    RedrawRequest,
    Request,
    RunSettings,
    Step,
    StepImage,
    StepResult,
    StopReason,
    UnusedSetting,
)
from ...core.types.roles import CriticLike
from ..journal.store import JudgementRecord, RunStore
from .cached_draws import CachedDraws, DrawnFrom, WantedDraw
from .events import AttemptDrawn, AttemptJudged, AttemptScored, AttemptStarted, Event, SettingUnused
from .judgements import CachedJudgements, MissingVerdicts
from .policy import (
    Ended,
    Picks,
    accepted,
    checklist_of,
    choose,
    decide,
    drawn_settings,
    draws_left,
    ended_by,
    first_image,
    max_attempts_of,
    next_prompt,
    redraw_seed,
    rivals_of,
    step_seed,
    step_source,
    user_selected,
)
from .scores import CachedScores
from .setting_checks import unused_at


@dataclass(frozen=True)
class StepContext:
    """What all steps of a run are generated and judged with.

    Attributes:
        request: The request.
        settings: The run's settings.
        store: The run's store.
        generator: The generator.
        draws: Its cached calls.
        critic: The critic, if a step needs one.
        judgements: Its cached judgements.
        missing: Counts the verdicts that it did not return.
        scores: Cached scores of the run's scorer, if it has one.
        deadline: Time of `time.monotonic()` after which no attempt starts.
        unused: Settings without effect that were reported already.
    """

    request: Request
    settings: RunSettings
    store: RunStore
    generator: Generator
    draws: CachedDraws
    critic: CriticLike | None
    judgements: CachedJudgements
    missing: MissingVerdicts
    deadline: float
    scores: CachedScores | None = None
    unused: list[UnusedSetting] = field(default_factory=list)

    def report_unused(self, settings: Iterable[UnusedSetting]) -> Iterator[Event]:
        """Report the settings without effect that were not reported yet."""
        for setting in settings:
            if setting not in self.unused:
                self.unused.append(setting)
                yield SettingUnused(setting)


class StepRun:
    """The run of one step.

    Args:
        step: The step as it is generated: with the plan's style before its prompt.
        plan: The plan.
        earlier: Results of the steps before it.
        context: What the step is generated and judged with.

    Attributes:
        attempts: The attempts so far.
    """

    def __init__(self, step: Step, plan: Plan, earlier: Sequence[StepResult], context: StepContext) -> None:
        self.step, self.plan, self.earlier, self.context = step, plan, earlier, context
        self.settings = context.settings
        self.attempts: list[Attempt] = []

    def events(self) -> EventStream[Event, None, StepResult]:
        """Run the step, yield its events and return its result."""
        step, choices = self.step, self.context.store.choices()
        if not step.prompt or choices.skipped(step, self.plan.style):
            return self.result(StopReason.skipped if step.prompt else StopReason.text_only)
        try:
            source = step_source(step, self.context.request, self.earlier, self.settings)
        except SourceMissing as missing:
            yield from self._without_source(missing.message)
            return self.result(StopReason.error)
        self._drawn_from = DrawnFrom(
            source,
            drawn_settings(step, self.plan, self.context.request, self.earlier, self.settings, source),
        )
        if self.context.generator.follows_anchor:
            self.context.generator.set_anchor(first_image(self.context.request.images, self.earlier))
        before = choices.steps.get(step.number)
        reason = yield from self._own_attempts(step.prompt, before)
        requested, early = yield from self._requested_attempts()
        if requested is None:
            yield from self._score()
        # Read again: the user may have picked an attempt in the meantime.
        choices = self.context.store.choices()
        picks = Picks(choices.steps.get(step.number), before, choices.timed.get(step.number))
        chosen, reason, approved = decide(
            self.attempts,
            Ended(reason, requested, early),
            picks,
            self.settings,
            self.context.critic is not None,
            self.context.scores is not None,
        )
        step, attempts = self._captioned(chosen), tuple(self.attempts)
        return StepResult(step=step, attempts=attempts, chosen=chosen, stop_reason=reason, approved=approved)

    def result(self, reason: StopReason) -> StepResult:
        """Return the result of the attempts so far."""
        chosen = choose(self.attempts, self.settings, by_score=self.context.scores is not None)
        return StepResult(step=self.step, attempts=tuple(self.attempts), chosen=chosen, stop_reason=reason)

    def _captioned(self, chosen: int | None) -> Step:
        """Return the step with the caption that the user gave with the chosen attempt or one before it.

        If the user changed the plan's caption since then, that one is newer and stays.
        """
        redraw = None if chosen is None else self.attempts[chosen].redraw
        upto = redraw.number if redraw else 0
        captions = [
            one.caption
            for number, one in self._requests().items()
            if number <= upto and one.caption and one.captioned in (None, self.step.auxiliary_text or "")
        ]
        return self.step.model_copy(update={"auxiliary_text": captions[-1]}) if captions else self.step

    def _without_source(self, reason: str) -> Iterator[Event]:
        """Add an attempt that failed because the step's source image does not exist."""
        prompt, seed = self.step.prompt or "", step_seed(self.step, 0, self.settings)
        attempt = Attempt(prompt=prompt, seed=seed, error=Fault(where="source", message=reason))
        self.attempts.append(attempt)
        yield AttemptStarted(self.step, 0, prompt, seed)
        yield AttemptDrawn(self.step, 0, attempt)

    def _own_attempts(self, prompt: str, pick: str | None) -> EventStream[Event, None, StopReason]:
        """Make the step's own attempts, and return why no further one was made."""
        settings, critic = self.settings, self.context.critic
        allowed = max_attempts_of(self.step, settings) if critic else 1
        most = min(allowed, draws_left(self.earlier, settings, self.step))
        reason = StopReason.unjudged
        draws = 0
        while draws < most and not self._request_waits(prompt, draws):
            first = len(self.attempts)
            numbers = range(draws, min(draws + settings.candidates, most))
            draws = numbers.stop
            stopped = yield from self._candidates(numbers, prompt, pick)
            if critic and (allowed > 1 or len(self.attempts) - first > 1):
                reason = StopReason.attempts_used_up
                if settings.judge_last or (stopped is None and draws < most):
                    yield from self._judge(first)
            candidates = self.attempts[first:]
            if ended := ended_by(candidates, settings) or stopped:
                return ended
            prompt = next_prompt(candidates, self.plan.style)
        return reason

    def _request_waits(self, prompt: str, draws: int) -> bool:
        """Return whether the user requested an attempt, so that the step's next own attempt is skipped.

        An own attempt that is cached is not skipped, so that a resumed run has its attempts in the same
        order.
        """
        requests = self._all_requests().values()
        if all(request.by != "user" or request.about for request in requests):
            return False
        seed = step_seed(self.step, draws, self.settings)
        return not self.context.draws.has_drawn(self._drawn_from.wanted(prompt, seed))

    def _requested_attempts(self) -> EventStream[Event, None, tuple[int | None, StopReason | None]]:
        """Make the requested attempts, after the step's own attempts.

        If several are not made yet, only the newest is made, since each replaces the one before. The critic
        judges them too. If the user requested one, the user's choice counts: a rejection changes neither the
        result nor the prompt. A request of the story check has as many attempts as the step, with refined
        prompts, and only an accepted one is the result; the others are more attempts of the step.

        Returns:
            The index of the requested attempt that is the step's result (`None`: there is none), and the
            reason if the method ended before the last of them.
        """
        done, result = 0, None
        while later := {number: one for number, one in self._requests().items() if number > done}:
            done, request = next(iter(later.items()))
            by_user, prompt = request.by == "user", request.prompt
            turns = 1 if by_user or not self.context.critic else max_attempts_of(self.step, self.settings)
            for turn in range(turns):
                seed = redraw_seed(self.step, self.settings, done, prompt, self.attempts, turn)
                wanted = self._requested(request, prompt, seed)
                if not self.context.draws.has_drawn(wanted):
                    pick = self.context.store.choices().steps.get(self.step.number)
                    if len(later) > 1 or user_selected(self.attempts, pick) is not None:
                        break
                    if time.monotonic() >= self.context.deadline:
                        return result, StopReason.budget
                first = len(self.attempts)
                yield from self._draw(wanted, Redraw(number=done, by=request.by))
                several = len(self.attempts) - first > 1
                if (self.settings.judge_last or not by_user) and (
                    max_attempts_of(self.step, self.settings) > 1 or several
                ):
                    yield from self._judge(first, wanted if request.mask else None)
                best = choose(self.attempts[first:], self.settings)
                if best is not None and (by_user or self._is_accepted(first + best)):
                    result = first + best
                    break
                prompt = next_prompt(self.attempts[first:], self.plan.style)
        return result, None

    def _requests(self) -> dict[int, RedrawRequest]:
        """Return the requested attempts; one about an image only if that is among the attempts."""
        images = self._images()
        return {number: one for number, one in self._all_requests().items() if one.about in (None, *images)}

    def _all_requests(self) -> dict[int, RedrawRequest]:
        return self.context.store.choices().requests(self.step, self.plan.style)

    def _images(self) -> dict[str, Picture]:
        return {attempt.image.digest: attempt.image for attempt in self.attempts if attempt.image}

    def _requested(self, request: RedrawRequest, prompt: str, seed: int) -> WantedDraw:
        """Return the call for a requested attempt. With a mask, it edits the image that it is about."""
        wanted = self._drawn_from.wanted(prompt, seed)
        if request.mask is None or request.about is None:
            return wanted
        mask = StepImage(name=f"{request.mask.digest}.png", picture=request.mask)
        settings = wanted.settings.model_copy(update={"mask": mask})
        return wanted._replace(source=self._images()[request.about], settings=settings)

    def _is_accepted(self, number: int) -> bool:
        return accepted(self.attempts[number].verdict, self.settings.accept_at)

    def _candidates(
        self, numbers: range, prompt: str, pick: str | None
    ) -> EventStream[Event, None, StopReason | None]:
        """Make the attempts with these numbers.

        Returns:
            The reason for ending before the last of them, else `None`.
        """
        draws = [
            self._drawn_from.wanted(prompt, step_seed(self.step, number, self.settings)) for number in numbers
        ]
        decided = user_selected(self.attempts, pick) is not None
        with self.context.draws.parallel_draws([] if decided else draws):
            for wanted in draws:
                decided = user_selected(self.attempts, pick) is not None
                if decided and not self.context.draws.has_drawn(wanted):
                    return StopReason.picked
                if time.monotonic() >= self.context.deadline:
                    return StopReason.budget
                yield from self._draw(wanted)
        return None

    def _draw(self, wanted: WantedDraw, redraw: Redraw | None = None) -> Iterator[Event]:
        """Make one generator call; each of its images is an attempt."""
        prompt, _, seed, settings = wanted
        beside, cast = (settings.beside, settings.cast) if isinstance(settings, DrawSettings) else ((), None)
        yield AttemptStarted(self.step, len(self.attempts), prompt, seed, redraw)
        drawn, reused = self.context.draws.draw(wanted)
        images = drawn.images or (None,)
        for place, image in enumerate(images):
            number = len(self.attempts)
            if place:
                yield AttemptStarted(self.step, number, prompt, seed, redraw)
            attempt = Attempt(
                prompt=prompt,
                seed=seed,
                source=self._drawn_from.source,
                beside=beside,
                cast=cast,
                image=image,
                error=drawn.error,
                seconds=drawn.seconds / len(images),
                place=place,
                redraw=redraw,
                enhancement=drawn.enhancement,
            )
            self.attempts.append(attempt)
            yield AttemptDrawn(self.step, number, attempt, reused, len(images))

    def _judge(self, first: int, edit: WantedDraw | None = None) -> Iterator[Event]:
        """Judge the attempts from index `first`, in one call if the critic supports it.

        Args:
            first: Index of the first attempt.
            edit: Call that changed the painted area of an image, which is judged as an edit of that image.

        Raises:
            AnswerError: Two verdicts in a row could not be parsed.
            ChatError: Two judgements in a row failed.
            Cancelled: The run was cancelled.
        """
        critic, judgements = self.context.critic, self.context.judgements
        numbers = [number for number in range(first, len(self.attempts)) if self.attempts[number].image]
        if critic is None or not numbers or self.step.prompt is None:
            return
        original, drawn = self.step.prompt, [self.attempts[number] for number in numbers]
        if edit is not None:
            original = edit.prompt
            drawn = [attempt.model_copy(update={"source": edit.source}) for attempt in drawn]
        judged = plain = judgements.judge(critic, original, drawn)
        if critic.checks_items and (items := checklist_of(self.step, self.plan, self.settings)):
            judged = judgements.check(critic, items, original, drawn, plain)
        for number, (found, reused), (before, _) in zip(numbers, judged, plain, strict=True):
            attempt = self.attempts[number]
            update = {"verdict": found.verdict, "error": found.error, **_spent(attempt, found)}
            update["plain_verdict"] = None if found is before else before.verdict
            self.attempts[number] = attempt.model_copy(update=update)
            yield AttemptJudged(self.step, number, self.attempts[number], reused)
            yield from self._unused_now(critic, found)
            self.context.missing.hear(found, reused)

    def _unused_now(self, critic: CriticLike, judged: JudgementRecord) -> Iterator[Event]:
        """Report the settings that had no effect on a judgement."""
        yield from self.context.report_unused(unused_at(judged.verdict, self.settings))
        # A server may have rejected a setting only now.
        yield from self.context.report_unused(critic.unused_settings)

    def _score(self) -> Iterator[Event]:
        """Score the attempts between which the step chooses, if the run has a scorer and there are several.

        Raises:
            Cancelled: The run was cancelled.
        """
        numbers = rivals_of(self.attempts, self.settings)
        if self.context.scores is None or len(numbers) < 2 or self.step.prompt is None:
            return
        found = self.context.scores.score(self.step.prompt, [self.attempts[number] for number in numbers])
        for number, (scored, reused) in zip(numbers, found, strict=True):
            attempt = self.attempts[number]
            update = {"score": scored.score, **_spent(attempt, scored)}
            self.attempts[number] = attempt.model_copy(update=update)
            error = scored.error.message if scored.error else ""
            yield AttemptScored(self.step, number, self.attempts[number], reused, error)


def _spent(attempt: Attempt, judged: JudgementRecord) -> dict[str, object]:
    """Return the fields of an attempt with what a judgement of it needed."""
    return {"seconds": attempt.seconds + judged.seconds, "judging": attempt.judging + judged}
