"""The attempts of one step, in the order in which they are made.

The attempts are one list, with which the run closes the step. The list contains everything that was made
before a cancel or a failure, so no image that the user has seen is missing in the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Generator as EventStream
from dataclasses import dataclass, field
from functools import partial

from ..checklist import ChecklistItem
from ..generators.generator import Generator
from ..journal.picks import RedrawRequest
from ..journal.store import JudgementRecord, RunStore
from ..scorers.run_scores import CachedScores
from ..types import Attempt, DrawSettings, Redraw, Request, RunSettings, Step, StopReason, UnusedSetting
from ..types.roles import CriticLike
from .events import AttemptDrawn, AttemptJudged, AttemptScored, AttemptStarted, Event, SettingUnused
from .images.cached_draws import CachedDraws, DrawnFrom, WantedDraw
from .judgements import CachedJudgements, MissingVerdicts
from .policy import accepted, choose, next_prompt, rivals_of, unused_at, user_selected
from .step_rules import max_attempts_of, redraw_seed, step_seed


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


@dataclass
class StepAttempts:
    """The attempts of one step so far. Every method that adds attempts yields their events.

    `draw_ahead` is called with the attempts that are about to be judged. `items` are the step's checklist,
    and `style` is the plan's sentence about it.
    """

    step: Step
    drawn_from: DrawnFrom
    context: StepContext
    draw_ahead: Callable[[list[Attempt]], None]
    made: list[Attempt]
    items: Sequence[ChecklistItem] = ()
    style: str = ""

    def redraw_waits(self, prompt: str, draws: int) -> bool:
        """Return whether the user requested an attempt, so that the step's next own attempt is skipped.

        An own attempt that is cached is not skipped, so that a resumed run has its attempts in the same
        order.
        """
        if all(request.by != "user" for request in self.context.store.redraws(self.step).values()):
            return False
        seed = step_seed(self.step, draws, self.context.settings)
        return not self.context.draws.has_drawn(self.drawn_from.wanted(prompt, seed))

    def redraws(
        self,
    ) -> EventStream[Event, None, tuple[int | None, StopReason | None]]:
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
            prompt = request.prompt
            for turn in range(self._turns(request)):
                seed = redraw_seed(self.step, self.context.settings, done, prompt, self.made, turn)
                wanted = self.drawn_from.wanted(prompt, seed)
                if not self.context.draws.has_drawn(wanted):
                    pick = self.context.store.user_selected(self.step.number)
                    if len(later) > 1 or user_selected(self.made, pick) is not None:
                        break
                    if time.monotonic() >= self.context.deadline:
                        return result, StopReason.budget
                first = len(self.made)
                yield from self._draw(wanted, Redraw(number=done, by=request.by))
                several = len(self.made) - first > 1
                if (self.context.settings.judge_last or request.by != "user") and (
                    max_attempts_of(self.step, self.context.settings) > 1 or several
                ):
                    yield from self.judge(first)
                best = choose(self.made[first:], self.context.settings)
                if best is not None and (request.by == "user" or self._is_accepted(first + best)):
                    result = first + best
                    break
                prompt = next_prompt(self.made[first:], self.style)
        return result, None

    def _turns(self, request: RedrawRequest) -> int:
        """Return the maximum number of generator calls for a request."""
        if request.by == "user" or self.context.critic is None:
            return 1
        return max_attempts_of(self.step, self.context.settings)

    def _requests(self) -> dict[int, RedrawRequest]:
        """Return the requested attempts; one of the story check only if its image is among the attempts."""
        images = {attempt.image.digest for attempt in self.made if attempt.image}
        requests = self.context.store.redraws(self.step)
        return {number: one for number, one in requests.items() if one.by == "user" or one.about in images}

    def _is_accepted(self, number: int) -> bool:
        return accepted(self.made[number].verdict, self.context.settings.accept_at)

    def candidates(
        self, numbers: range, prompt: str, pick: str | None
    ) -> EventStream[Event, None, StopReason | None]:
        """Make the attempts with these numbers.

        Returns:
            The reason for ending before the last of them, else `None`.
        """
        draws = [
            self.drawn_from.wanted(prompt, step_seed(self.step, number, self.context.settings))
            for number in numbers
        ]
        decided = user_selected(self.made, pick) is not None
        with self.context.draws.parallel_draws([] if decided else draws):
            for wanted in draws:
                decided = user_selected(self.made, pick) is not None
                if decided and not self.context.draws.has_drawn(wanted):
                    return StopReason.picked
                if time.monotonic() >= self.context.deadline:
                    return StopReason.budget
                yield from self._draw(wanted)
        return None

    def _draw(self, wanted: WantedDraw, redraw: Redraw | None = None) -> Iterator[Event]:
        """Make one generator call; each of its images is an attempt."""
        prompt, source, seed, settings = wanted
        beside, cast = (settings.beside, settings.cast) if isinstance(settings, DrawSettings) else ((), None)
        yield AttemptStarted(self.step, len(self.made), prompt, seed, redraw)
        drawn, reused = self.context.draws.draw(wanted)
        images = drawn.images or (None,)
        for place, image in enumerate(images):
            number = len(self.made)
            if place:
                yield AttemptStarted(self.step, number, prompt, seed, redraw)
            attempt = Attempt(
                prompt=prompt,
                seed=seed,
                source=source,
                beside=beside,
                cast=cast,
                image=image,
                error=drawn.error,
                seconds=drawn.seconds / len(images),
                place=place,
                redraw=redraw,
                enhancement=drawn.enhancement,
            )
            self.made.append(attempt)
            yield AttemptDrawn(self.step, number, attempt, reused, len(images))

    def judge(self, first: int) -> Iterator[Event]:
        """Judge the attempts from index `first`, in one call if the critic supports it.

        Raises:
            AnswerError: Two verdicts in a row could not be parsed.
            ChatError: Two judgements in a row failed.
            Cancelled: The run was cancelled.
        """
        numbers = [number for number in range(first, len(self.made)) if self.made[number].image]
        if self.context.critic is None or not numbers or self.step.prompt is None:
            return
        drawn = [self.made[number] for number in numbers]
        judged = self.context.judgements.judge(
            self.context.critic, self.step.prompt, drawn, partial(self.draw_ahead, drawn)
        )
        if self.items and self.context.critic.checks_items:
            judged = self.context.judgements.check(
                self.context.critic, self.items, self.step.prompt, drawn, judged
            )
        for number, (found, reused) in zip(numbers, judged, strict=True):
            attempt = self.made[number]
            seconds = attempt.seconds + found.seconds
            update = {"verdict": found.verdict, "error": found.error, "seconds": seconds}
            self.made[number] = attempt.model_copy(update=update)
            yield AttemptJudged(self.step, number, self.made[number], reused)
            yield from self._unused_now(found)
            self.context.missing.hear(found, reused)

    def score(self) -> Iterator[Event]:
        """Score the attempts between which the step chooses, if the run has a scorer and there are several.

        Raises:
            Cancelled: The run was cancelled.
        """
        numbers = rivals_of(self.made, self.context.settings)
        if self.context.scores is None or len(numbers) < 2 or self.step.prompt is None:
            return
        found = self.context.scores.score(self.step.prompt, [self.made[number] for number in numbers])
        for number, (scored, reused) in zip(numbers, found, strict=True):
            attempt = self.made[number]
            update = {"score": scored.score, "seconds": attempt.seconds + scored.seconds}
            self.made[number] = attempt.model_copy(update=update)
            error = scored.error.message if scored.error else ""
            yield AttemptScored(self.step, number, self.made[number], reused, error)

    def _unused_now(self, judged: JudgementRecord) -> Iterator[Event]:
        """Report the settings that had no effect on a judgement."""
        yield from self.context.report_unused(unused_at(judged.verdict, self.context.settings))
        if self.context.critic is not None:
            # A server may have rejected a setting only now.
            yield from self.context.report_unused(self.context.critic.unused_settings)
