"""Trajectories as interleaved sequences, the form in which a model that writes and draws by itself learns
them.

Decisions. Easy is the story as it ended: plan, image, words, step by step. Hard shows every attempt with what
the critic said of it, so that such a model learns to look at what it drew. The published form closes `<plan>`
by another `<plan>`; that is written only on request. What the published builders drop by accident (stories
whose first step has no words, or in which a step is text alone) is kept here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....backend.pictures import Picture
from ....backend.types import Attempt, StepResult, Trajectory
from ..trajectories.accepted import not_accepted

IMAGE = "<image><img_token></image>.\n"
TAGS = ("<gthink>", "<plan>", "<image>", "<info>", "<critic>", "<img_token>", "<think>")
"""What no text of a story may hold: it would be read as the sequence's own."""


@dataclass(frozen=True)
class InterleavedSequence:
    """A row before it has files."""

    user: str
    text: str
    images: tuple[Picture, ...]


def easy(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """The story as it ended."""
    return _sequence(trajectory, lambda result: [(result.image, "")] if result.image else [], quirks)


def hard(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """Every attempt, each with the critic's word on it."""
    return _sequence(
        trajectory, lambda result: [(one.image, _said(one)) for one in result.attempts if one.image], quirks
    )


def _sequence(
    trajectory: Trajectory,
    shown: Callable[[StepResult], Sequence[tuple[Picture | None, str]]],
    quirks: bool,
) -> InterleavedSequence:
    closing = "<plan>" if quirks else "</plan>"
    parts = [f"<gthink>\n{trajectory.plan.reasoning}\n</gthink>\n"]
    given = trajectory.request.images
    images = list(given)
    for result in trajectory.results:
        step = result.step
        if step.prompt:
            parts.append(f"<plan>\n{step.prompt}\n{closing}\n")
        for picture, said in shown(result):
            if picture is not None:
                images.append(picture)
                parts.append(IMAGE + said)
        if step.auxiliary_text is not None:
            parts.append(f"<info>\n{step.auxiliary_text}\n</info>\n")
    return InterleavedSequence(IMAGE * len(given) + trajectory.request.text, "".join(parts), tuple(images))


def _said(attempt: Attempt) -> str:
    verdict = attempt.verdict
    if verdict is None or verdict.success is None:
        return ""
    proposed = "" if verdict.success else verdict.refined_prompt
    word = json.dumps({"success": verdict.success, "refine_prompt": proposed}, ensure_ascii=False)
    return f"<critic>\n<think>\n{verdict.reasoning}\n</think>\n{word}\n</critic>\n"


def unfit(trajectory: Trajectory) -> str:
    """Why a trajectory gives no sequence; empty if it gives one."""
    if reason := not_accepted(trajectory):
        return reason
    if any(tag in text for text in _texts(trajectory) for tag in TAGS):
        return "its texts cannot stand in a sequence"
    return ""


def _texts(trajectory: Trajectory) -> list[str]:
    texts = [trajectory.request.text, trajectory.plan.reasoning]
    for result in trajectory.results:
        texts += [result.step.prompt or "", result.step.auxiliary_text or ""]
        texts += [
            text
            for one in result.attempts
            if one.verdict
            for text in (one.verdict.reasoning, one.verdict.refined_prompt)
        ]
    return texts
