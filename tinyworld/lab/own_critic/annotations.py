"""Runs of a generator, annotated by a simulated user: the exact scorer writes the browser's feedback file.

It accepts or rejects every image that can be judged; for a rejected one it writes a better prompt. Existing
runs and annotations are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ....backend.agents.critic import Critic
from ....backend.agents.planner import Planner
from ....backend.chat import open_chat
from ....backend.errors import AnswerError, ScorerError
from ....backend.feedback.log import FEEDBACK, Feedback, record_feedback
from ....backend.journal.journal import Journal
from ....backend.journal.records.run_files import TRAJECTORY
from ....backend.loop.loop import run
from ....backend.loop.replay import load_trajectory
from ....backend.types import Attempt, RunSettings
from ...runtime.generator import TinyWorldGenerator
from ...runtime.scorer import TinyWorldScorer
from ...runtime.wording import prompt_text
from ..data.critic_rows import refine
from ..data.oracle_critic import drawn_of
from ..runs.stories import request_of
from ..world.requests import random_story

Log = Callable[[str], None]


@dataclass(frozen=True)
class AnnotatedRuns:
    """Size of the annotated data: number of runs, attempts per step, and seed."""

    runs: int
    attempts: int
    seed: int


def annotated_runs(folder: Path, generator: TinyWorldGenerator, settings: AnnotatedRuns, log: Log) -> int:
    """Create and annotate the runs below `folder`, continuing where it stopped.

    Returns the number of annotations.
    """
    planner, critic = Planner(open_chat("tinyworld:planner")), Critic(open_chat("tinyworld:critic"))
    rng = Random(f"own critic/{settings.seed}")
    count = 0
    for number in range(settings.runs):
        story = random_story(rng, "train")
        out = folder / f"run_{number:04d}"
        if not (out / TRAJECTORY).exists():
            options = RunSettings(max_attempts=settings.attempts, seed=settings.seed * 10**6 + number)
            try:
                for _ in run(request_of(story), planner, generator, critic, options, Journal(out)):
                    pass
            except AnswerError:
                continue
        count += annotate(out)
        if (number + 1) % 50 == 0:
            log(f"{number + 1}/{settings.runs} runs")
    return count


def annotate(folder: Path) -> int:
    """Write the annotations of a run that are missing, and return how many there are."""
    annotations = [
        one
        for result in load_trajectory(folder).results
        for number, attempt in enumerate(result.attempts)
        if (one := feedback_on(result.step.number, number, result.step.prompt or "", attempt)) is not None
    ]
    written = (
        (folder / FEEDBACK).read_text(encoding="utf-8").count("\n") if (folder / FEEDBACK).exists() else 0
    )
    for one in annotations[written:]:
        record_feedback(folder, one)
    return len(annotations)


def feedback_on(step: int, number: int, prompt: str, attempt: Attempt) -> Feedback | None:
    """Return the annotation of an attempt; `None` if the image before is too damaged to judge it."""
    if attempt.image is None:
        return None
    try:
        right = TinyWorldScorer().success(attempt.source, attempt.image, prompt)
    except ScorerError:
        return None
    if right:
        return Feedback(step=step, attempt=number, accepted=True)
    drawn = drawn_of(attempt.source, attempt.image, prompt, attempt.prompt)
    better = prompt_text(drawn.edit, refine(drawn)) if drawn else None
    return Feedback(step=step, attempt=number, accepted=False, better_prompt=better)
