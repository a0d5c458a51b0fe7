"""Writes a trajectory as a new run folder, which the nodes and the command line can read and resume.

It is written through the journal, so there is one folder format. The records are written too, so a run that
resumes from a copy does not generate anything again. The folder appears by one rename once it is complete.
"""

from __future__ import annotations

from pathlib import Path

from ...core.errors import JournalError
from ...core.files.atomic import writing_folder
from ...core.pictures import Picture
from ...core.types import (
    Attempt,
    DrawSettings,
    Step,
    StepResult,
    StepSettings,
    StopReason,
    Trajectory,
    step_identity,
)
from ..clips import clips_of
from .choices import let_pass, pick, skip_step
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
    journal = Journal(folder)
    journal.begin(trajectory.request, trajectory.settings, trajectory.identities)
    try:
        journal.keep_plan(trajectory.plan, None)
        for result in trajectory.results:
            _keep_draws(journal, trajectory, result)
            for attempt in result.attempts:
                _keep_judged(journal, trajectory, result.step, attempt)
        for check in trajectory.checks:
            journal.keep_story_check(check)
        files = RunFiles(folder)
        for picture in sources_of(trajectory):
            files.write_picture(picture)
        for clip in clips_of(trajectory).values():
            journal.keep_clip(clip)
        journal.finish(trajectory)
    finally:
        journal.end()


def _keep_draws(journal: Journal, trajectory: Trajectory, result: StepResult) -> None:
    """Write the records of a step's generator calls, and the attempt that the user picked."""
    draws: list[tuple[DrawKey, list[Attempt]]] = []
    for attempt in result.attempts:
        key = DrawKey(
            generator=step_identity(trajectory.identities.generator, _drawn_with(result.step, attempt)),
            prompt=attempt.prompt,
            seed=attempt.seed,
            source=_source(attempt),
        )
        if attempt.place and draws and draws[-1][0] == key:
            draws[-1][1].append(attempt)
        else:
            draws.append((key, [attempt]))
    for key, attempts in draws:
        first = attempts[0]
        more = tuple(one.image for one in attempts[1:] if one.image)
        error = first.error if first.image is None else None
        seconds = sum(max(0.0, one.seconds - one.judging.seconds) for one in attempts)
        journal.keep_drawn(
            DrawRecord(
                key=key,
                image=first.image,
                error=error,
                seconds=seconds,
                more=more,
                enhancement=first.enhancement,
            )
        )
    if result.stop_reason is StopReason.picked and result.image:
        pick(journal.folder, result.step.number, result.image.digest)
    if result.stop_reason is StopReason.approved_by_time and result.image:
        let_pass(journal.folder, result.step.number, result.image.digest)
    if result.stop_reason is StopReason.skipped:
        skip_step(journal.folder, result.step.number)


def _keep_judged(journal: Journal, trajectory: Trajectory, step: Step, attempt: Attempt) -> None:
    if attempt.image is None:
        return
    if attempt.score is not None and trajectory.identities.scorer:
        scored = score_key(
            trajectory.identities.scorer, _source(attempt), attempt.image.digest, step.prompt or ""
        )
        journal.keep_judged(JudgementRecord(key=scored, score=attempt.score))
    if attempt.verdict is None:
        return
    judge = JudgeKey(
        critic=trajectory.identities.critic,
        before=_source(attempt),
        after=attempt.image.digest,
        original_prompt=step.prompt or "",
        prompt_used=attempt.prompt,
    )
    items = attempt.verdict.items
    plain = attempt.verdict.model_copy(update={"items": ()})
    spent = dict(attempt.judging)
    journal.keep_judged(JudgementRecord(key=judge, verdict=plain, **spent))
    if items:
        journal.keep_judged(JudgementRecord(key=checked_key(judge, items), verdict=attempt.verdict, **spent))


def _drawn_with(step: Step, attempt: Attempt) -> StepSettings:
    """Return the settings with which the attempt was generated."""
    if not attempt.beside and attempt.cast is None:
        return step.settings
    return DrawSettings(**dict(step.settings), beside=attempt.beside, cast=attempt.cast)


def _source(attempt: Attempt) -> str | None:
    return attempt.source.digest if attempt.source else None


def sources_of(trajectory: Trajectory) -> list[Picture]:
    """Return the source and reference images of all attempts, without duplicates."""
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    shown = [picture for one in attempts for picture in (one.source, *one.beside) if picture]
    return list({picture.digest: picture for picture in shown}.values())
