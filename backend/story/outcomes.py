"""Texts that describe a run to people, shared by all exports: titles, outcomes, stop reasons, totals.

No export may present a run as better than it was. So the policy alone decides whether an attempt was
accepted, a reply that could not be parsed is named as such, and planned steps that were not reached are
listed.

A run always ends with a trajectory, even after errors, so that no finished work is lost. Code that caches,
shows or exports a run checks with `lacks` whether it is complete.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from enum import Enum
from typing import Literal

from ..core.types import (
    Attempt,
    RunSettings,
    Several,
    Spent,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    UnusedSetting,
    Value,
)
from .loop.policy import accepted, is_read, unchecked, waiting_of

GOOD = (
    StopReason.accepted,
    StopReason.picked,
    StopReason.skipped,
    StopReason.unjudged,
    StopReason.text_only,
)
"""Stop reasons of a step whose result was not rejected."""


class Lack(str, Enum):
    """Why a step is not complete."""

    not_reached = "not reached"
    not_drawn = "not drawn"
    out_of_time = "out of time"
    not_judged = "not judged"
    attempts_failed = "attempts failed"
    cancelled = "cancelled"


def lacks(trajectory: Trajectory, numbers: Collection[int] | None = None) -> dict[Lack, list[int]]:
    """Return the numbers of the incomplete steps, grouped by what is missing.

    Args:
        trajectory: The run.
        numbers: Steps to check. Default: all steps of the plan.

    Returns:
        Step numbers in order, grouped in the order of `Lack`; empty if the run is complete.
    """
    results = {result.step.number: result for result in trajectory.results}
    planned = {step.number for step in trajectory.plan.steps} | set(results)
    wanted = sorted(planned if numbers is None else planned & set(numbers))
    found = {number: _lack(results.get(number)) for number in wanted}
    grouped = {lack: [number for number, one in found.items() if one is lack] for lack in Lack}
    return {lack: steps for lack, steps in grouped.items() if steps}


def is_complete(trajectory: Trajectory, numbers: Collection[int] | None = None) -> bool:
    """Return whether every step was run, without a failed attempt that its result depends on."""
    return not lacks(trajectory, numbers)


def only_waits(trajectory: Trajectory) -> bool:
    """Return whether a paused run waits for the user's decision, and no step before it is incomplete."""
    return waiting_of(trajectory) is not None and lacks(trajectory).keys() <= {Lack.not_reached}


def all_accepted(trajectory: Trajectory) -> bool:
    """Return whether the run is complete and no step was rejected."""
    return is_complete(trajectory) and all(result.stop_reason in GOOD for result in trajectory.results)


def _lack(result: StepResult | None) -> Lack | None:
    if result is None:
        return Lack.not_reached
    ends = {
        StopReason.error: Lack.not_drawn,
        StopReason.budget: Lack.out_of_time,
        StopReason.cancelled: Lack.cancelled,
    }
    if result.stop_reason in ends:
        return ends[result.stop_reason]
    failed = [attempt for attempt in _deciding(result) if attempt.error is not None]
    if not failed:
        return None
    return Lack.not_judged if any(attempt.image for attempt in failed) else Lack.attempts_failed


def _deciding(result: StepResult) -> list[Attempt]:
    """Return the attempts that the result of a step depends on.

    If the user requested attempts, this is the newest of them.
    """
    if result.stop_reason in (StopReason.picked, StopReason.approved_by_time, StopReason.text_only):
        return []
    by_user = [one.redraw.number for one in result.attempts if one.redraw and one.redraw.by == "user"]
    if by_user:
        return [one for one in result.attempts if one.redraw and one.redraw.number == max(by_user)]
    return [] if result.stop_reason is StopReason.accepted else list(result.attempts)


TITLE_LENGTH = 80
LIKELY = 0.985

UNUSED: dict[UnusedSetting, str] = {
    "accept_at": "accept_at had no effect: the critic reports no probabilities",
    "seed": "seed had no effect: the image service does not accept a seed",
    "cast_images": "the images of the cast were not shown: the image model accepts no reference images",
    "checklist": "checklists were not checked: this critic cannot answer single items",
    "constrained_decoding": "constrained decoding had no effect: the agent's backend does not support it",
}
"""What reports say about a setting without effect."""

ONLY_FORCED = "readable only in the forced form"
"""What reports say about a verdict that only a constrained reply had."""

Tone = Literal["good", "open", "bad", "quiet"]
"""Color of a step or attempt: good, undecided, failed, neutral."""


class AttemptOutcome(str, Enum):
    """Outcome of one attempt. The values are part of the story format (docs/reference/file-formats.md)."""

    accepted = "accepted"
    refused = "refused"
    not_understood = "not understood"
    not_checked = "not checked"
    not_judged = "not judged"
    failed = "failed"

    @property
    def label(self) -> str:
        """The outcome as reports show it."""
        return "rejected" if self is AttemptOutcome.refused else self.value


class StoryStep(Value):
    """A planned step and its result; `result` is `None` if the run ended before it."""

    step: Step
    result: StepResult | None = None


class Summary(Value):
    """Totals of a run.

    Attributes:
        steps: Planned steps.
        images: Generated images.
        drawn_steps: Steps that generated an image or tried to.
        accepted_steps: Steps whose image the critic accepted, also if the user picked or approved it or a
            time-out let it pass.
        picked_steps: Steps for which the user picked another attempt.
        approved_steps: Steps whose attempt the user approved.
        timed_steps: Steps that only a time-out let pass.
        seconds: Wall time in seconds.
        unjudged_steps: Steps of `drawn_steps` that were not judged.
        unused: Settings without effect.
        incomplete_steps: Planned steps that are not complete.
        forced_verdicts: Verdicts that the critic gave only in a constrained reply.
        waits: The run only waits for the user, so the incomplete steps are those after that.
    """

    steps: int
    images: int
    drawn_steps: int
    accepted_steps: int
    picked_steps: int
    seconds: float
    approved_steps: int = 0
    timed_steps: int = 0
    unjudged_steps: int = 0
    unused: Several[UnusedSetting] = ()
    incomplete_steps: int = 0
    forced_verdicts: int = 0
    waits: bool = False

    @property
    def sentence(self) -> str:
        """All totals in one line."""
        parts = [counted(self.steps, "step")]
        if self.incomplete_steps:
            lack = "not reached yet" if self.waits else "not complete"
            parts.append(f"{counted(self.incomplete_steps, 'step')} {lack}")
        parts.append(f"{counted(self.images, 'image')} generated")
        if self.drawn_steps and self.unjudged_steps == self.drawn_steps:
            parts.append(f"{counted(self.drawn_steps, 'image')}, not judged")
        elif self.drawn_steps:
            parts.append(f"{self.accepted_steps} of {counted(self.drawn_steps, 'image')} accepted")
        if self.picked_steps:
            parts.append(f"{self.picked_steps} picked by hand")
        if self.approved_steps:
            parts.append(f"{self.approved_steps} approved by hand")
        if self.timed_steps:
            parts.append(f"{self.timed_steps} approved by time")
        if self.forced_verdicts:
            parts.append(f"{counted(self.forced_verdicts, 'verdict')} {ONLY_FORCED}")
        times = [duration(self.seconds)] if self.images else []
        return " · ".join([*parts, *times, *(UNUSED[one] for one in self.unused)])


def outcome(attempt: Attempt, settings: RunSettings) -> AttemptOutcome:
    """Return the outcome of an attempt, by the rules of the run."""
    if attempt.image is None:
        return AttemptOutcome.failed
    if attempt.verdict is None:
        return AttemptOutcome.not_judged
    if unchecked(attempt.verdict, settings.accept_at):
        return AttemptOutcome.not_checked
    if not is_read(attempt.verdict):
        return AttemptOutcome.not_understood
    return (
        AttemptOutcome.accepted if accepted(attempt.verdict, settings.accept_at) else AttemptOutcome.refused
    )


def stop_sentence(result: StepResult) -> str:
    """Return why the step ended, as a short sentence."""
    attempts = counted(len(result.attempts), "attempt")
    chosen = (result.chosen or 0) + 1
    if result.approved:
        return f"Approved at attempt {chosen}"
    kept = "" if result.chosen is None else f", attempt {chosen} kept"
    return {
        StopReason.accepted: f"Accepted at attempt {chosen}",
        StopReason.attempts_used_up: f"Never accepted: {attempts} used up{kept}",
        StopReason.picked: f"Attempt {chosen} picked by hand",
        StopReason.approved_by_time: f"Approved by time at attempt {chosen}",
        StopReason.redrawn: f"Generated again by hand at attempt {chosen}, not accepted",
        StopReason.unjudged: "Not judged by a critic",
        StopReason.unchecked: "Not checked: the critic did not answer the checklist",
        StopReason.text_only: "Text only",
        StopReason.skipped: "Skipped by hand",
        StopReason.budget: f"The time budget ran out after {attempts}{kept}",
        StopReason.cancelled: f"Cancelled after {attempts}{kept}",
        StopReason.error: f"No image could be generated in {attempts}",
    }[result.stop_reason]


def tone_of(result: StepResult | None) -> Tone:
    """Return the tone of a step; a step without a result was not reached."""
    if result is None:
        return "quiet"
    tones: dict[StopReason, Tone] = {
        StopReason.accepted: "good",
        StopReason.picked: "good",
        StopReason.text_only: "quiet",
        StopReason.skipped: "quiet",
        StopReason.unjudged: "quiet",
        StopReason.error: "bad",
    }
    return tones.get(result.stop_reason, "open")


def tone_of_attempt(what: AttemptOutcome) -> Tone:
    """Return the tone of an attempt."""
    tones: dict[AttemptOutcome, Tone] = {
        AttemptOutcome.accepted: "good",
        AttemptOutcome.refused: "open",
        AttemptOutcome.not_checked: "open",
        AttemptOutcome.failed: "bad",
    }
    return tones.get(what, "quiet")


def kept_word(result: StepResult, index: int) -> str:
    """Return the mark of attempt `index` (from 0) if it is the step's result, else an empty string."""
    if index != result.chosen:
        return ""
    if result.approved:
        return "approved"
    names = {StopReason.picked: "picked by hand", StopReason.approved_by_time: "approved by time"}
    return names.get(result.stop_reason, "kept")


def story_steps(trajectory: Trajectory) -> list[StoryStep]:
    """Return all planned steps in order, with the results of those that were reached."""
    results = {result.step.number: result for result in trajectory.results}
    steps = {step.number: step for step in trajectory.plan.steps}
    steps |= {number: result.step for number, result in results.items()}
    return [StoryStep(step=steps[number], result=results.get(number)) for number in sorted(steps)]


def summarize(trajectory: Trajectory) -> Summary:
    """Return the totals of a run."""
    drawn = [result for result in trajectory.results if result.attempts]
    attempts = [attempt for result in drawn for attempt in result.attempts]
    return Summary(
        steps=len(story_steps(trajectory)),
        images=sum(attempt.image is not None for attempt in attempts),
        drawn_steps=len(drawn),
        accepted_steps=sum(_is_accepted(result, trajectory.settings) for result in drawn),
        picked_steps=sum(one.stop_reason is StopReason.picked and not one.approved for one in drawn),
        seconds=sum(attempt.seconds for attempt in attempts),
        approved_steps=sum(result.approved for result in drawn),
        timed_steps=sum(one.stop_reason is StopReason.approved_by_time for one in drawn),
        unjudged_steps=sum(result.stop_reason is StopReason.unjudged for result in drawn),
        unused=trajectory.unused,
        incomplete_steps=sum(len(numbers) for numbers in lacks(trajectory).values()),
        forced_verdicts=sum(one.verdict is not None and one.verdict.forced for one in attempts),
        waits=only_waits(trajectory),
    )


def times_of(trajectory: Trajectory) -> dict[str, Spent]:
    """Return what planner, generator and critic needed, the longest time first.

    It is empty for runs of releases that did not measure the critic.
    """
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    critic = sum((attempt.judging for attempt in attempts), Spent())
    if not critic.seconds and any(attempt.verdict for attempt in attempts):
        return {}
    seconds = sum(attempt.seconds for attempt in attempts) - critic.seconds
    parts = {"planner": trajectory.planning, "generator": Spent(seconds=max(0.0, seconds)), "critic": critic}
    ordered = sorted(parts.items(), key=lambda part: -part[1].seconds)
    return {name: spent for name, spent in ordered if spent.seconds}


def spent_words(spent: Spent) -> str:
    """Return seconds and tokens as text: "20.3 s (3,120 tokens read, 480 written)"."""
    counts = {"tokens read": spent.read, "cached": spent.cached, "written": spent.written}
    tokens = ", ".join(f"{number:,} {name}" for name, number in counts.items() if number)
    return f"{duration(spent.seconds)} ({tokens})" if tokens else duration(spent.seconds)


def _is_accepted(result: StepResult, settings: RunSettings) -> bool:
    decided = (StopReason.picked, StopReason.approved_by_time)
    if result.stop_reason not in decided or result.chosen is None:
        return result.stop_reason is StopReason.accepted
    return outcome(result.attempts[result.chosen], settings) is AttemptOutcome.accepted


def probability_words(attempt: Attempt, settings: RunSettings) -> str:
    """Return the success probability in percent; empty if there is none.

    If the attempt was rejected by a narrow margin, the acceptance threshold follows.
    """
    probability = attempt.verdict.probability if attempt.verdict else None
    if probability is None:
        return ""
    rejected = outcome(attempt, settings) is AttemptOutcome.refused
    missed = rejected and probability >= LIKELY and settings.accept_at is not None
    threshold = f" of {100 * (settings.accept_at or 0):g} %" if missed else ""
    return percent(probability, rejected) + threshold


def percent(probability: float, refused: bool = False) -> str:
    """Return a probability (0..1) as a percentage, rounded so that it does not mislead.

    It is never shown as certainty. With `refused`, a value just below the threshold is never rounded up to
    it.
    """
    if refused and probability >= LIKELY:
        return f"{math.floor(probability * 10_000) / 100:.2f} %"
    if 0.01 <= probability <= 0.99:
        return f"{100 * probability:.0f} %"
    return f"{100 * probability:.1f} %"


def title_of(trajectory: Trajectory) -> str:
    """Return the request's first sentence, or its first clauses, with at most 80 characters."""
    text = " ".join(trajectory.request.text.replace("<image>", " ").split())
    sentence = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(sentence) <= TITLE_LENGTH:
        return sentence.rstrip(".") or "Untitled story"
    clauses = [match.start() for match in re.finditer(r"[,;:](?=\s)", sentence[:TITLE_LENGTH])]
    if clauses and clauses[-1] >= TITLE_LENGTH // 3:
        return sentence[: clauses[-1]]
    return sentence[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",;:.-") + " …"


def duration(seconds: float) -> str:
    """Return a time in seconds as text: "0.42 s", "12.3 s", "4 min 05 s"."""
    if seconds < 60:
        return f"{max(0.01, seconds):.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number} {noun if number == 1 else noun + 's'}"
