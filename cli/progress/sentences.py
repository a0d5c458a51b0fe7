"""The lines about plans, attempts and steps, as the commands print them."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from ...backend.agents.plan_lint.cast_rules import found_casts
from ...backend.journal.waiting import Waiting
from ...backend.loop.policy import accepted, is_read, unanswered, unchecked
from ...backend.report.outcomes import ONLY_FORCED
from ...backend.shown_text import shown_text
from ...backend.types import Attempt, Plan, Score, StepResult, StopReason, UnusedSetting, Verdict

UNUSED: dict[UnusedSetting, str] = {
    "accept_at": "--accept-at has no effect: the critic reports no probabilities, so its own verdict "
    "decides.",
    "seed": "--seed has no effect: the image service does not support seeds.",
    "checklist": "Checklists are not checked: this critic cannot answer single items.",
    "cast_images": "The images of the cast are not shown: the image model accepts no reference images. "
    "The prompts describe the cast in words.",
    "constrained_decoding": "--constrained-decoding has no effect: the agent's backend does not support it.",
}
STOP_REASONS = {
    StopReason.accepted: "accepted",
    StopReason.attempts_used_up: "not accepted, no attempts left",
    StopReason.picked: "picked by hand",
    StopReason.approved_by_time: "approved by time",
    StopReason.redrawn: "generated on request, not accepted",
    StopReason.unjudged: "not judged",
    StopReason.unchecked: "not checked, the critic did not answer the checklist",
    StopReason.text_only: "text only",
    StopReason.skipped: "skipped by hand",
    StopReason.budget: "time budget used up",
    StopReason.cancelled: "cancelled",
    StopReason.error: "failed",
}
"""Why a step ended, as the last line of a step says it."""
LEAST_DIGITS, MOST_DIGITS = 4, 17


def plan_lines(plan: Plan) -> list[str]:
    """Return the lines that describe the cast and the steps of a plan."""
    lines: list[str] = []
    for member in plan.cast:
        images = [plural(len(member.images), "image")] if member.images else []
        looks = ", ".join([*member.traits, *images])
        lines.append(f"{member.kind} {member.name}{f': {looks}' if looks else ''}")
    present = dict(cast_lines(plan))
    for step in plan.steps:
        title = step.name or step.instruction or ""
        lines.append(f"{step.number}. {title or step.prompt or 'text'}")
        if step.prompt and step.prompt != title and title:
            lines.append(f"   prompt: {step.prompt}")
        if step.auxiliary_text:
            lines.append(f"   text: {step.auxiliary_text}")
        if step.number in present:
            lines.append(f"   {present[step.number]}")
    return lines


def cast_lines(plan: Plan) -> Iterator[tuple[int, str]]:
    """Yield the number of each step that may show members of the cast, with a line about who is in it."""
    listed = {step.number: step.cast for step in plan.steps}
    for one in found_casts(plan):
        given = listed[one.step]
        names = ", ".join(one.names if given is None else given) or "none"
        yield one.step, f"cast{'' if one.marked or given is not None else ' by names in the prompt'}: {names}"


def attempt_line(number: int, attempt: Attempt, reused: bool = False, accept_at: float | None = None) -> str:
    """Return the line about one attempt: its outcome and how long it took.

    Args:
        number: Index of the attempt, from 0.
        attempt: The attempt.
        reused: Whether its image and verdict are cached.
        accept_at: Acceptance threshold of the run.
    """
    if attempt.error is not None:
        outcome = f"{attempt.error.where} failed: {attempt.error.message}"
    elif attempt.verdict is None:
        outcome = "generated"
    else:
        outcome = verdict_text(attempt.verdict, accept_at)
    return f"attempt {number + 1}: {outcome}, {'cached' if reused else f'{attempt.seconds:.1f} s'}"


def score_line(number: int, score: Score | None, reused: bool, error: str) -> str:
    """Return the line about the score of one attempt, which has the index `number`."""
    if score is None:
        return f"attempt {number + 1}: not scored, so the critic's verdicts choose ({error})"
    parts = f"semantics {score.semantics:.1f}, quality {score.quality:.1f}"
    return f"attempt {number + 1}: score {score.overall:.1f} ({parts}){', cached' if reused else ''}"


def verdict_text(verdict: Verdict, accept_at: float | None = None) -> str:
    """Return whether a verdict accepts an image, and P(success).

    If the acceptance threshold overrules the critic, the text gives the threshold.
    """
    if unchecked(verdict, accept_at):
        return f"not checked: no answer: {'; '.join(unanswered(verdict))}"
    if not is_read(verdict):
        return "not judged (the critic's reply could not be parsed)"
    if verdict.forced:
        plain = verdict.model_copy(update={"forced": False})
        return f"{verdict_text(plain, accept_at)} ({ONLY_FORCED})"
    passed = accepted(verdict, accept_at)
    word = "accepted" if passed else "rejected"
    if failed := [item.text for item in verdict.items if item.passed is False]:
        return f"rejected: not true: {'; '.join(failed)}"
    if verdict.probability is None:
        return word
    probability = f"P(success) {_digits(verdict.probability, accept_at)}"
    if passed == verdict.success:
        return f"{word}, {probability}"
    if passed:
        return f"{word}: {probability} is at least {accept_at}, although the critic's verdict is no"
    return f"{word}: {probability} is below {accept_at}"


def _digits(probability: float, accept_at: float | None) -> str:
    """Return a probability with enough digits to show how far it is from 1 and from the threshold."""
    limits = [1.0] if accept_at is None else [1.0, accept_at]
    for digits in range(LEAST_DIGITS, MOST_DIGITS):
        text = f"{probability:.{digits}g}"
        if all(abs(float(text) - probability) <= abs(limit - probability) / 10 for limit in limits):
            return text
    return repr(probability)


def step_line(result: StepResult) -> str:
    """Return why a step ended and which image it has."""
    reason = "approved" if result.approved else STOP_REASONS[result.stop_reason]
    if result.stop_reason in (StopReason.text_only, StopReason.skipped):
        return reason
    if result.image is None or result.chosen is None:
        return f"{reason}: no image"
    return f"{reason}: attempt {result.chosen + 1}, image {result.image.digest[:12]}"


def waiting_line(waiting: Waiting) -> str:
    """Return what a paused run waits for."""
    if waiting.step is None or waiting.reason is None:
        return "Waiting for your approval of the plan."
    attempt = f", attempt {waiting.attempt}" if waiting.attempt else ""
    return f"Waiting for your decision on step {waiting.step} ({STOP_REASONS[waiting.reason]}{attempt})."


def warn(text: str) -> None:
    """Print a warning to stderr."""
    typer.secho(f"Warning: {shown_text(text)}", err=True)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "2 steps"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
