"""A run in lines of text: what happened at each attempt, as the nodes and the console show it.

Decision: one wording for all places, made from the recorded attempts alone, so that no report is better than
the run.
"""

from __future__ import annotations

from ..prompts.versions import described
from ..types import Attempt, RunSettings, Trajectory
from .drift import drift_of_steps
from .outcomes import AttemptOutcome, outcome, probability_words, stop_sentence, story_steps, summarize


def attempt_words(attempt: Attempt, settings: RunSettings) -> str:
    """What became of an attempt, with the critic's probability or the fault that came instead."""
    words = outcome(attempt, settings)
    if attempt.error is not None and words in (AttemptOutcome.failed, AttemptOutcome.not_judged):
        return f"{words.value}: {attempt.error.message}"
    # Without blanks: the browser reads it as one number of the line (web/words.js).
    probability = probability_words(attempt, settings).replace(" of ", "/").replace(" ", "")
    return f"{words.value}, P(success) {probability}" if probability else words.value


def report(trajectory: Trajectory) -> str:
    """Every step with how it ended and its drift, and every try with the critic's word and the prompt it was
    drawn with."""
    lines = [summarize(trajectory).sentence]
    drifts = drift_of_steps(trajectory)
    for shown in story_steps(trajectory):
        end = stop_sentence(shown.result) if shown.result else "Not reached"
        lines += ["", f"{shown.step.number}. {shown.step.name or shown.step.instruction or 'Step'}: {end}"]
        for number, attempt in enumerate(shown.result.attempts if shown.result else ()):
            mark = ">" if shown.result and number == shown.result.chosen else " "
            lines.append(f" {mark} try {number + 1}: {attempt_words(attempt, trajectory.settings)}")
            lines.append(f"     {attempt.prompt}")
        if shown.step.number in drifts and (words := drifts[shown.step.number].sentence):
            lines.append(f"   drift: {words}")
    if trajectory.identities.prompt_set:
        lines += ["", f"Prompt set: {described(trajectory.identities.prompt_set)}"]
    return "\n".join(lines)
