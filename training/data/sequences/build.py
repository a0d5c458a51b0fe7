"""Converts trajectories to interleaved sequences, for models that generate text and images themselves.

An easy sequence is the final story: plan, image and text, step by step. A hard one contains every attempt
with the critic's feedback, so that such a model learns to check its images.

The published form (`quirks`) is only written on request: it closes `<plan>` with another `<plan>`, has the
request as it was typed and without its images, and may contain tags in its texts. Stories that the published
builders drop by accident (without text in the first step, or with text-only steps) are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....backend.pictures import Picture
from ....backend.types import Attempt, StepResult, Trajectory
from ..trajectories.accepted import not_accepted

MARK = "<image>"
IMAGE = f"{MARK}<img_token></image>.\n"
TAGS = ("<gthink>", "<plan>", MARK, "<info>", "<critic>", "<img_token>", "<think>")
"""Tags that no text of a story may contain, as they would be read as part of the sequence."""


@dataclass(frozen=True)
class InterleavedSequence:
    """A row before it has files: the user's turn, the answer, and the images of both."""

    user: str
    text: str
    images: tuple[Picture, ...]


def easy(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """Return the final story."""
    return _sequence(trajectory, lambda result: [(result.image, "")] if result.image else [], quirks)


def hard(trajectory: Trajectory, quirks: bool = False) -> InterleavedSequence:
    """Return every attempt with the critic's feedback."""
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
    given = () if quirks else trajectory.request.images
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
    text = trajectory.request.text
    if not quirks:
        marked = text.count(MARK) == len(given)
        text = text.replace(MARK, IMAGE.strip()) if marked else IMAGE * len(given) + text
    return InterleavedSequence(text, "".join(parts), tuple(images))


def _said(attempt: Attempt) -> str:
    verdict = attempt.verdict
    if verdict is None or verdict.success is None:
        return ""
    proposed = "" if verdict.success else verdict.refined_prompt
    word = json.dumps({"success": verdict.success, "refine_prompt": proposed}, ensure_ascii=False)
    return f"<critic>\n<think>\n{verdict.reasoning}\n</think>\n{word}\n</critic>\n"


def unfit(trajectory: Trajectory, quirks: bool = False) -> str:
    """Return why a trajectory cannot be used for a sequence, or an empty text."""
    if reason := not_accepted(trajectory):
        return reason
    if not quirks and any(tag in text for text in _texts(trajectory) for tag in TAGS):
        return "its text is not allowed in a sequence"
    return ""


def _texts(trajectory: Trajectory) -> list[str]:
    request, plan = trajectory.request, trajectory.plan
    are_marks = request.text.count(MARK) == len(request.images)
    texts = [request.text.replace(MARK, "") if are_marks else request.text, plan.reasoning]
    for result in trajectory.results:
        texts += [result.step.prompt or "", result.step.auxiliary_text or ""]
        texts += [
            text
            for one in result.attempts
            if one.verdict
            for text in (one.verdict.reasoning, one.verdict.refined_prompt)
        ]
    return texts
