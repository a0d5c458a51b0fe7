"""How a run is put into words for people, once for every export: titles, verdicts, stop reasons, sums.

Decision: no export may sound better than the run was. Whether an attempt passed is decided by the policy
alone, an answer that could not be understood is named as that, and steps that were planned but not reached
are listed.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Literal

from ..loop.policy import accepted
from ..types import (
    Attempt,
    RunSettings,
    Several,
    Step,
    StepResult,
    StopReason,
    Trajectory,
    UnusedSetting,
    Value,
)
from .completeness import lacks

TITLE_LENGTH = 80
LIKELY = 0.985

UNUSED: dict[UnusedSetting, str] = {
    "accept_at": "accept_at had no effect: the critic reports no probabilities",
    "seed": "seed had no effect: the image service takes none",
    "constrained_decoding": "constrained decoding had no effect: the agent's backend cannot do it",
}
"""What is said of a setting without effect."""

Tone = Literal["good", "open", "bad", "quiet"]
"""How a step or an attempt is coloured: right, not settled, failed, nothing to say of it."""


class AttemptOutcome(str, Enum):
    """What became of one attempt."""

    accepted = "accepted"
    refused = "refused"
    not_understood = "not understood"
    not_judged = "not judged"
    failed = "failed"


class StoryStep(Value):
    """A planned step with what became of it; `result` None: the run ended before it."""

    step: Step
    result: StepResult | None = None


class Summary(Value):
    """The sums of a run: steps planned, images drawn, drawn steps, how many of these the critic accepted and
    how many a person picked, wall seconds, how many of the drawn steps nobody judged, and how many of the
    planned steps are not complete; `unused` are settings without effect."""

    steps: int
    images: int
    drawn_steps: int
    accepted_steps: int
    picked_steps: int
    seconds: float
    unjudged_steps: int = 0
    unused: Several[UnusedSetting] = ()
    incomplete_steps: int = 0

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        parts = [_count(self.steps, "step")]
        if self.incomplete_steps:
            parts.append(f"{_count(self.incomplete_steps, 'step')} not complete")
        parts.append(f"{_count(self.images, 'image')} drawn")
        if self.drawn_steps and self.unjudged_steps == self.drawn_steps:
            parts.append(f"{_count(self.drawn_steps, 'picture')}, not judged")
        elif self.drawn_steps:
            parts.append(f"{self.accepted_steps} of {_count(self.drawn_steps, 'picture')} accepted")
        if self.picked_steps:
            parts.append(f"{self.picked_steps} picked by hand")
        return " · ".join([*parts, duration(self.seconds), *(UNUSED[one] for one in self.unused)])


def outcome(attempt: Attempt, settings: RunSettings) -> AttemptOutcome:
    """What became of an attempt, by the rules of the run."""
    if attempt.image is None:
        return AttemptOutcome.failed
    if attempt.verdict is None:
        return AttemptOutcome.not_judged
    if attempt.verdict.success is None:
        return AttemptOutcome.not_understood
    return (
        AttemptOutcome.accepted if accepted(attempt.verdict, settings.accept_at) else AttemptOutcome.refused
    )


def stop_sentence(result: StepResult) -> str:
    """Why the step ended as it did, in a few words that keep nothing back."""
    tries = _count(len(result.attempts), "try", "tries")
    kept = "" if result.chosen is None else f", try {result.chosen + 1} kept"
    return {
        StopReason.accepted: f"Accepted at try {(result.chosen or 0) + 1}",
        StopReason.attempts_used_up: f"Never accepted: {tries} used up{kept}",
        StopReason.picked: f"Try {(result.chosen or 0) + 1} picked by hand",
        StopReason.redrawn: f"Redrawn by hand at try {(result.chosen or 0) + 1}, not accepted",
        StopReason.unjudged: "Not judged by a critic",
        StopReason.text_only: "Text only",
        StopReason.budget: f"The time budget ran out after {tries}{kept}",
        StopReason.cancelled: f"Cancelled after {tries}{kept}",
        StopReason.error: f"Nothing could be drawn in {tries}",
    }[result.stop_reason]


def tone_of(result: StepResult | None) -> Tone:
    """The tone of a step; None is one that was not reached."""
    if result is None:
        return "quiet"
    tones: dict[StopReason, Tone] = {
        StopReason.accepted: "good",
        StopReason.picked: "good",
        StopReason.text_only: "quiet",
        StopReason.unjudged: "quiet",
        StopReason.error: "bad",
    }
    return tones.get(result.stop_reason, "open")


def tone_of_attempt(what: AttemptOutcome) -> Tone:
    """The tone of an attempt."""
    tones: dict[AttemptOutcome, Tone] = {
        AttemptOutcome.accepted: "good",
        AttemptOutcome.refused: "open",
        AttemptOutcome.failed: "bad",
    }
    return tones.get(what, "quiet")


def kept_word(result: StepResult, index: int) -> str:
    """What is said of attempt `index` (0-based) for being the step's result; empty if it is not."""
    if index != result.chosen:
        return ""
    return "picked by hand" if result.stop_reason is StopReason.picked else "kept"


def story_steps(trajectory: Trajectory) -> list[StoryStep]:
    """All planned steps in order, with the results of those that were reached."""
    results = {result.step.number: result for result in trajectory.results}
    steps = {step.number: step for step in trajectory.plan.steps}
    steps |= {number: result.step for number, result in results.items()}
    return [StoryStep(step=steps[number], result=results.get(number)) for number in sorted(steps)]


def summarize(trajectory: Trajectory) -> Summary:
    """The sums of a run."""
    drawn = [result for result in trajectory.results if result.attempts]
    attempts = [attempt for result in drawn for attempt in result.attempts]
    return Summary(
        steps=len(story_steps(trajectory)),
        images=sum(attempt.image is not None for attempt in attempts),
        drawn_steps=len(drawn),
        accepted_steps=sum(result.stop_reason is StopReason.accepted for result in drawn),
        picked_steps=sum(result.stop_reason is StopReason.picked for result in drawn),
        seconds=sum(attempt.seconds for attempt in attempts),
        unjudged_steps=sum(result.stop_reason is StopReason.unjudged for result in drawn),
        unused=trajectory.unused,
        incomplete_steps=sum(len(numbers) for numbers in lacks(trajectory).values()),
    )


def probability_words(attempt: Attempt, settings: RunSettings) -> str:
    """The critic's probability of success in percent, with what was wanted where it nearly had it; empty if
    there is none."""
    probability = attempt.verdict.probability if attempt.verdict else None
    if probability is None:
        return ""
    refused = outcome(attempt, settings) is AttemptOutcome.refused
    missed = refused and probability >= LIKELY and settings.accept_at is not None
    wanted = f" of {100 * (settings.accept_at or 0):g} %" if missed else ""
    return percent(probability, refused) + wanted


def percent(probability: float, refused: bool = False) -> str:
    """A probability (0..1) as percent, never so rounded that it reads as certainty, or that an image seems to
    have been `refused` at what it was to reach."""
    if refused and probability >= LIKELY:
        return f"{math.floor(probability * 10_000) / 100:.2f} %"
    if 0.01 <= probability <= 0.99:
        return f"{100 * probability:.0f} %"
    return f"{100 * probability:.1f} %"


def title_of(trajectory: Trajectory) -> str:
    """The request's first sentence, or its first clauses, shortened to at most 80 characters."""
    text = " ".join(trajectory.request.text.replace("<image>", " ").split())
    sentence = re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]
    if len(sentence) <= TITLE_LENGTH:
        return sentence.rstrip(".") or "A story without words"
    clauses = [match.start() for match in re.finditer(r"[,;:](?=\s)", sentence[:TITLE_LENGTH])]
    if clauses and clauses[-1] >= TITLE_LENGTH // 3:
        return sentence[: clauses[-1]]
    return sentence[:TITLE_LENGTH].rsplit(" ", 1)[0].rstrip(",;:.-") + " …"


def duration(seconds: float) -> str:
    """Seconds as people write them: "0.42 s", "12.3 s", "4 min 05 s"."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _count(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
