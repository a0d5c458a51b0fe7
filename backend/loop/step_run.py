"""One step of a run: its attempts, until there is a reason to stop."""

from __future__ import annotations

from collections.abc import Generator as EventStream
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..errors import SourceMissing
from ..types import Attempt, Fault, Plan, Step, StepResult, StopReason
from .events import AttemptDrawn, AttemptStarted, Event
from .images.cached_draws import DrawnFrom
from .images.earlier_images import drawn_settings
from .policy import (
    accepted,
    checklist_of,
    choose,
    draws_left,
    first_image,
    next_prompt,
    passed,
    unchecked,
    user_selected,
)
from .step_attempts import StepAttempts, StepContext
from .step_rules import max_attempts_of, step_seed, step_source


@dataclass
class StepRun:
    """The run of one step.

    Attributes:
        step: The step as it is generated: with the plan's style before its prompt.
        plan: The plan.
        earlier: Results of the steps before it.
        context: What the step is generated and judged with.
        attempts: The attempts so far.
    """

    step: Step
    plan: Plan
    earlier: Sequence[StepResult]
    context: StepContext
    attempts: list[Attempt] = field(default_factory=list)

    def events(self) -> EventStream[Event, None, StepResult]:
        """Run the step, yield its events and return its result."""
        step, store = self.step, self.context.store
        if not step.prompt or store.skipped(step):
            return self.result(StopReason.skipped if step.prompt else StopReason.text_only)
        try:
            drawn_from = self._drawn_from(step, self.earlier)
        except SourceMissing as missing:
            yield from self._without_source(missing.message)
            return self.result(StopReason.error)
        generator = self.context.generator
        if generator.follows_anchor:
            generator.set_anchor(first_image(self.context.request.images, self.earlier))
        made = StepAttempts(
            step,
            drawn_from,
            self.context,
            self._draw_ahead,
            self.attempts,
            checklist_of(step, self.plan, self.context.settings),
            style=self.plan.style,
        )
        pick = store.user_selected(step.number)
        reason = yield from self._own_attempts(made, step.prompt, pick)
        redrawn, ended = yield from made.redraws()
        if redrawn is None:
            yield from made.score()
        if self.attempts and all(attempt.image is None for attempt in self.attempts):
            reason = StopReason.error
        elif redrawn is not None:
            reason = self._reason_of(self.attempts[redrawn])
        # Read again: the user may have picked an attempt in the meantime.
        picks = (store.user_selected(step.number), pick if redrawn is None else None)
        found = [user_selected(self.attempts, digest) for digest in picks]
        picked = next((index for index in found if index is not None), None)
        if picked is not None:
            kept = self.result(reason, redrawn).chosen
            return self.result(StopReason.picked, picked).model_copy(update={"approved": picked == kept})
        return passed(self.result(ended or reason, redrawn), store.timed(step.number))

    def result(self, reason: StopReason, chosen: int | None = None) -> StepResult:
        """Return the result of the attempts so far. Default of `chosen`: by the rules of the run."""
        return StepResult(
            step=self.step,
            attempts=tuple(self.attempts),
            chosen=self._choice() if chosen is None else chosen,
            stop_reason=reason,
        )

    def _choice(self) -> int | None:
        return choose(self.attempts, self.context.settings, by_score=self.context.scores is not None)

    def _own_attempts(
        self, made: StepAttempts, prompt: str, pick: str | None
    ) -> EventStream[Event, None, StopReason]:
        """Make the step's own attempts, and return why no further one was made."""
        settings, critic = self.context.settings, self.context.critic
        attempts_allowed = max_attempts_of(self.step, settings) if critic else 1
        most = min(attempts_allowed, draws_left(self.earlier, settings, self.step))
        reason = StopReason.unjudged
        draws = 0
        while draws < most and not made.redraw_waits(prompt, draws):
            first = len(self.attempts)
            numbers = range(draws, min(draws + settings.candidates, most))
            draws = numbers.stop
            stopped = yield from made.candidates(numbers, prompt, pick)
            if critic and (attempts_allowed > 1 or len(self.attempts) - first > 1):
                reason = StopReason.attempts_used_up
                if settings.judge_last or (stopped is None and draws < most):
                    yield from made.judge(first)
            candidates = self.attempts[first:]
            if any(map(self._is_accepted, candidates)):
                return StopReason.accepted
            if any(map(self._is_unchecked, candidates)):
                return StopReason.unchecked  # another image would leave the question open too
            if stopped is not None:
                return stopped
            prompt = next_prompt(candidates, self.plan.style)
        return reason

    def _is_accepted(self, attempt: Attempt) -> bool:
        return accepted(attempt.verdict, self.context.settings.accept_at)

    def _is_unchecked(self, attempt: Attempt) -> bool:
        return unchecked(attempt.verdict, self.context.settings.accept_at)

    def _reason_of(self, redrawn: Attempt) -> StopReason:
        """Return why a step ended with an attempt that was requested."""
        if self._is_accepted(redrawn):
            return StopReason.accepted
        if self._is_unchecked(redrawn):
            return StopReason.unchecked
        return StopReason.redrawn if self.context.critic else StopReason.unjudged

    def _drawn_from(self, step: Step, earlier: Sequence[StepResult]) -> DrawnFrom:
        """Return what the attempts of a step start from, given the earlier results.

        Raises:
            SourceMissing: The step edits an image that does not exist.
        """
        request, settings = self.context.request, self.context.settings
        source = step_source(step, request, earlier, settings)
        return DrawnFrom(source, drawn_settings(step, self.plan, request, earlier, settings, source))

    def _without_source(self, reason: str) -> Iterator[Event]:
        """Add an attempt that failed because the step's source image does not exist."""
        prompt, seed = self.step.prompt or "", step_seed(self.step, 0, self.context.settings)
        attempt = Attempt(prompt=prompt, seed=seed, error=Fault(where="source", message=reason))
        self.attempts.append(attempt)
        yield AttemptStarted(self.step, 0, prompt, seed)
        yield AttemptDrawn(self.step, 0, attempt)

    def _draw_ahead(self, attempts: list[Attempt]) -> None:
        """Start to generate the next step as if this attempt were accepted, if the settings ask for it.

        With several candidates this is not done, since the accepted one is not known. With a pause at every
        step it is not done either, since the user decides before the next step is generated.
        """
        settings, context = self.context.settings, self.context
        if not settings.draw_ahead or settings.pause == "every step":
            return
        if settings.candidates > 1 or len(attempts) > 1:
            return
        steps = self.plan.drawn_steps
        later = next((one for one in steps if one.number > self.step.number and one.prompt), None)
        if later is None or not later.prompt or context.store.skipped(later):
            return
        result = StepResult(
            step=self.step, attempts=tuple(attempts), chosen=0, stop_reason=StopReason.accepted
        )
        results = [*self.earlier, result]
        given = context.request.images
        if context.generator.follows_anchor and (
            first_image(given, results) != first_image(given, self.earlier)
        ):
            return  # its anchor depends on the verdict
        with suppress(SourceMissing):
            seed = step_seed(later, 0, settings)
            context.draws.draw_ahead(self._drawn_from(later, results).wanted(later.prompt, seed))
