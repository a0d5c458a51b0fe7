"""Writes a trajectory as a new run folder, which the nodes and the command line can read and resume.

It is written through the journal, so there is one folder format. The records and the decisions about the run
are written too, so a run that resumes from a copy does not generate or judge anything again. The folder
appears by one rename once it is complete.
"""

from __future__ import annotations

from pathlib import Path

from ...core.errors import JournalError
from ...core.files.atomic import writing_folder
from ...core.types import Attempt, Choices, DrawSettings, StepImage, StepResult, Trajectory
from ..clips import clips_of
from .choices import CHOICES
from .journal import Journal
from .run_files import RunFiles
from .store import DrawKey, DrawRecord, JudgeKey, JudgementRecord, checked_key, score_key


def save_trajectory(trajectory: Trajectory, folder: Path) -> Path:
    """Write the trajectory as a new run folder, and return the folder.

    If it fails, nothing is left behind.

    Raises:
        JournalError: The folder exists or cannot be written.
    """
    folder = Path(folder)
    if folder.exists():
        raise JournalError(f"{str(folder)!r} exists already.", "Choose another name.")
    with writing_folder(folder, JournalError, "The run's folder") as temporary:
        _write(trajectory, temporary)
    return folder


def _write(trajectory: Trajectory, folder: Path) -> None:
    journal, files = Journal(folder), RunFiles(folder)
    journal.begin(trajectory.request, trajectory.settings, trajectory.identities)
    try:
        journal.keep_plan(trajectory.plan, None)
        if trajectory.choices != Choices():
            files.write_model(trajectory.choices, CHOICES)
        masks = [one.mask for requests in trajectory.choices.redraws.values() for one in requests]
        attempts = [attempt for result in trajectory.results for attempt in result.attempts]
        # Attempts of an execution record have one seed, so several may be one call with different images.
        shown = [picture for one in attempts for picture in (one.source, one.image, *one.beside)]
        for picture in filter(None, (*masks, *shown)):
            files.write_picture(picture)
        for result in trajectory.results:
            _keep_drawn(journal, trajectory, result)
            for attempt in result.attempts:
                _keep_judged(journal, trajectory, result, attempt)
        for check in trajectory.checks:
            journal.keep_story_check(check)
        for clip in clips_of(trajectory).values():
            journal.keep_clip(clip)
        journal.finish(trajectory)
    finally:
        journal.end()


def _keep_drawn(journal: Journal, trajectory: Trajectory, result: StepResult) -> None:
    """Write the records of a step's generator calls. Each image of a batch is an attempt."""
    calls: dict[DrawKey, dict[int, Attempt]] = {}
    for attempt in result.attempts:
        calls.setdefault(_draw_key(trajectory, result, attempt), {})[attempt.place] = attempt
    for key, batch in calls.items():
        first, *others = batch.values()
        journal.keep_drawn(
            DrawRecord(
                key=key,
                image=first.image,
                error=first.error if first.image is None else None,
                seconds=sum(max(0.0, one.seconds - one.judging.seconds) for one in batch.values()),
                more=tuple(one.image for one in others if one.image),
                enhancement=first.enhancement,
            )
        )


def _draw_key(trajectory: Trajectory, result: StepResult, attempt: Attempt) -> DrawKey:
    settings = result.step.settings
    if attempt.beside or attempt.cast:
        settings = DrawSettings(**dict(settings), beside=attempt.beside, cast=attempt.cast)
    mask, source = trajectory.painted(result, attempt)
    if mask:
        image = StepImage(name=f"{mask.digest}.png", picture=mask)
        settings = settings.model_copy(update={"mask": image})
    return DrawKey.of(trajectory.identities.generator, attempt.prompt, source, attempt.seed, settings)


def _keep_judged(journal: Journal, trajectory: Trajectory, result: StepResult, attempt: Attempt) -> None:
    if attempt.image is None:
        return
    original, verdict, spent = result.step.prompt or "", attempt.verdict, dict(attempt.judging)
    if attempt.score is not None and trajectory.identities.scorer:
        scored = score_key(trajectory.identities.scorer, original, attempt)
        journal.keep_judged(JudgementRecord(key=scored, score=attempt.score))
    mask, source = trajectory.painted(result, attempt)
    original = attempt.prompt if mask else original
    judged = attempt.model_copy(update={"source": source})
    key = JudgeKey.of(trajectory.identities.critic, original, judged)
    # Earlier versions stored only the verdict with the answers: the critic is then asked again.
    plain = verdict if verdict and not verdict.items else attempt.plain_verdict
    if plain:
        journal.keep_judged(JudgementRecord(key=key, verdict=plain, **spent))
    if verdict and verdict.items:
        journal.keep_judged(JudgementRecord(key=checked_key(key, verdict.items), verdict=verdict, **spent))
