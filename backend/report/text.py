"""A run as lines of text: what happened at each attempt, for the nodes and the console.

All places use the same text, and it is created from the recorded attempts alone.
"""

from __future__ import annotations

from ..prompts.prompt_set import shown_prompt_sets
from ..types import Attempt, RunSettings, Trajectory
from .drift import drift_of_steps
from .outcomes import AttemptOutcome, outcome, probability_words, stop_sentence, story_steps, summarize


def attempt_words(attempt: Attempt, settings: RunSettings) -> str:
    """Return the outcome of an attempt, with the success probability or the error message."""
    result = outcome(attempt, settings)
    if attempt.error is not None and result in (AttemptOutcome.failed, AttemptOutcome.not_judged):
        return f"{result.label}: {attempt.error.message}"
    # Without spaces: the browser reads it as one number of the line (web/words.js).
    probability = probability_words(attempt, settings).replace(" of ", "/").replace(" ", "")
    return f"{result.label}, P(success) {probability}" if probability else result.label


def report(trajectory: Trajectory) -> str:
    """Return the report of a run: how each step ended, its drift, and every attempt with its prompt."""
    lines = [summarize(trajectory).sentence]
    drifts = drift_of_steps(trajectory)
    for shown in story_steps(trajectory):
        end = stop_sentence(shown.result) if shown.result else "Not reached"
        lines += ["", f"{shown.step.number}. {shown.step.name or shown.step.instruction or 'Step'}: {end}"]
        for number, attempt in enumerate(shown.result.attempts if shown.result else ()):
            mark = ">" if shown.result and number == shown.result.chosen else " "
            lines.append(f" {mark} attempt {number + 1}: {attempt_words(attempt, trajectory.settings)}")
            lines.append(f"     {attempt.prompt}")
            if attempt.enhancement:
                enhanced = attempt.enhancement.warning or attempt.enhancement.prompt
                lines.append(f"     enhanced: {enhanced}")
        if shown.step.number in drifts and (words := drifts[shown.step.number].sentence):
            lines.append(f"   drift: {words}")
    if trajectory.identities.prompt_set:
        lines += ["", f"Prompt set: {shown_prompt_sets(trajectory.identities.prompt_set)}"]
    return "\n".join(lines)
