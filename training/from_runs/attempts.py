"""Reads from run folders what a critic can learn from: every judged image of every step, with annotations.

A person's annotation takes precedence over a score, and a score (with a threshold) over the critic's own
verdict; the source of the answer is recorded. Answers follow the rules of the Feedback node. A step is read
as a whole, since the corrected prompt may be in a later attempt. An annotation names its image, so one made
before the image was generated again no longer applies. Images stay in the run's folder, as a thousand runs
would not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from ...backend.core.errors import JournalError, PictureError, SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import Attempt, Score, StepResult, Trajectory, Verdict
from ...backend.output.feedback_log import Feedback, read_feedback
from ...backend.output.sft_rows import (
    CorrectedPrompt,
    CorrectionSource,
    Label,
    corrected_prompt_for,
    verdict_of_critic,
    verdict_of_person,
)
from ...backend.story.journal.run_files import PICTURES
from ...backend.story.loop.replay import load_trajectory
from ..rows.values import RowProblem
from .run_folders import as_run, find_runs, prompt_of
from .scoring import CachedScores, in_threads, score_in_run

Source = Literal["human", "scorer", "critic"]
Log = Callable[[str], None]


class Oracle(Protocol):
    """Writes the reasoning that a critic should have had, given the right verdict, or returns None."""

    def answer(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str, success: bool
    ) -> Verdict | None:
        """Return the exact answer for an image that is right or wrong (`success`), or None if unknown."""
        ...


@dataclass(frozen=True)
class JudgedImage:
    """An image of a run with the answer that its critic should have given, and its source.

    `said` is the critic's verdict, `label` a person's; `answer` is None if the right verdict is unknown.
    """

    run: str
    pictures: Path
    step: int
    attempt: int
    original: str
    used: str
    before: str | None
    after: str
    size: tuple[int, int]
    said: Verdict | None
    label: bool | None
    score: Score | None
    answer: Verdict | None
    source: Source | None
    generator: str
    seed: int
    remedy: CorrectionSource | None = None
    """Source of the refined prompt of a rejecting answer; "none": the prompt must not be learned."""
    fault: str = ""
    raw: dict[str, Any] | None = None
    """Numbers of a judge, if it was called during the conversion."""

    @property
    def place(self) -> str:
        """Readable place of the image; attempts are counted from 1."""
        return f"{self.run}, step {self.step}, attempt {self.attempt + 1}"

    @property
    def overruled(self) -> bool:
        """Whether a person or a score contradicts the critic."""
        return (
            self.answer is not None
            and self.said is not None
            and self.said.success is not None
            and self.said.success != self.answer.success
        )


@dataclass(frozen=True)
class JudgedStep:
    """All judged images of a step in order: a trajectory in the sense of the filter rules."""

    run: str
    step: int
    judged: tuple[JudgedImage, ...]
    split: str = ""
    """Split of the prompt that the run was made from, if its folder states it."""


class _Held(NamedTuple):
    """What is known of an image before the rest of its step is read."""

    feedback: Feedback | None
    score: Score | None
    raw: dict[str, Any] | None
    verdict: Verdict | None
    source: Source | None


@dataclass
class ReadCounts:
    """Counts of the reading, for the report; `words` are annotations."""

    runs: int = 0
    images: int = 0
    undrawn: int = 0
    words: int = 0
    words_gone: int = 0
    unscored: int = 0
    scored: int = 0
    other_wording: int = 0

    def add(self, other: ReadCounts) -> None:
        """Add the counts of another run."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(frozen=True)
class RunReader:
    """Reads runs into steps; can be called from several threads.

    Attributes:
        wording: Digest of the prompt set of the critic to train.
        scores: Scores of images without a score; None: they stay without one.
        success_at: Semantics score from which an image counts as right; None: scores do not decide.
        oracle: Writes exact answers.
    """

    wording: str
    scores: CachedScores | None = None
    success_at: float | None = None
    oracle: Oracle | None = None

    def read(self, folder: Path, name: str) -> tuple[list[JudgedStep], ReadCounts]:
        """Return a run's steps and its counts.

        Raises:
            JournalError: The folder is damaged.
            PictureError: An image is damaged.
        """
        trajectory, counts = load_trajectory(folder), ReadCounts()
        annotations = {(one.step, one.attempt): one for one in read_feedback(folder)}
        counts.runs, counts.words = 1, len(annotations)
        counts.other_wording = self.wording not in trajectory.identities.prompt_set.split("+")
        split = prompt_of(folder).split
        steps = [
            JudgedStep(name, result.step.number, tuple(judged), split)
            for result in trajectory.results
            if (judged := self._judged(folder, name, trajectory, result, annotations, counts))
        ]
        counts.words_gone = len(annotations)  # those with an image were removed above
        return steps, counts

    def _judged(
        self,
        folder: Path,
        name: str,
        trajectory: Trajectory,
        result: StepResult,
        annotations: dict[tuple[int, int], Feedback],
        counts: ReadCounts,
    ) -> list[JudgedImage]:
        """Return the judged images of a step. Annotations of its images are removed from `annotations`."""
        original, result = result.step.prompt, trajectory.judged_as_step(result)
        held: list[_Held | None] = []
        for number, attempt in enumerate(result.attempts):
            if attempt.image is None or not original:
                counts.undrawn += 1
                held.append(None)
                continue
            counts.images += 1
            feedback = annotations.get((result.step.number, number))
            if feedback is not None and feedback.image in (None, attempt.image.digest):
                del annotations[result.step.number, number]
            else:
                feedback = None
            score, raw = score_in_run(trajectory, attempt, self.scores and self.scores.scorer.identity), None
            if score is None and self.scores:
                score, raw = self.scores.of(attempt.source, attempt.image, original)
                counts.unscored += score is None
            held.append(_Held(feedback, score, raw, *self._verdict(attempt, feedback, score)))
        labels = [
            Label(one.verdict.success, one.source == "human") if one and one.verdict else Label(None)
            for one in held
        ]
        judged: list[JudgedImage] = []
        for number, (attempt, one) in enumerate(zip(result.attempts, held, strict=True)):
            if one is None or attempt.image is None or not original:
                continue
            answer, remedy = one.verdict, None
            if answer is not None:
                better = one.feedback.better_prompt if one.feedback else None
                is_wrong = not answer.success
                found = corrected_prompt_for(result.attempts, labels, number, better) if is_wrong else None
                answer, remedy = self._taught(attempt, attempt.image, original, one, answer, found)
            judged.append(
                JudgedImage(
                    run=name,
                    pictures=folder / PICTURES,
                    step=result.step.number,
                    attempt=number,
                    original=original,
                    used=attempt.prompt,
                    before=attempt.source.digest if attempt.source else None,
                    after=attempt.image.digest,
                    size=attempt.image.size,
                    said=attempt.verdict,
                    label=answer.success if answer and one.source == "human" else None,
                    score=one.score,
                    answer=answer,
                    source=one.source,
                    generator=trajectory.identities.generator,
                    seed=attempt.seed,
                    remedy=remedy,
                    raw=one.raw,
                )
            )
        return judged

    def _verdict(
        self, attempt: Attempt, feedback: Feedback | None, score: Score | None
    ) -> tuple[Verdict | None, Source | None]:
        """Return (the verdict and reasoning that the critic should have given, its source)."""
        answer = verdict_of_person(attempt, feedback) if feedback else None
        source: Source = "human"
        if answer is None and score is not None and self.success_at is not None:
            source, answer = "scorer", self._by_score(attempt, score, self.success_at)
        if answer is None:
            source, answer = "critic", verdict_of_critic(attempt)
        return (None, None) if answer is None else (answer, source)

    def _taught(
        self,
        attempt: Attempt,
        image: Picture,
        original: str,
        held: _Held,
        answer: Verdict,
        found: CorrectedPrompt | None,
    ) -> tuple[Verdict, CorrectionSource | None]:
        """Return (the answer of a row, the source of its refined prompt).

        `found` is the corrected prompt of a rejecting answer.
        """
        # With verdict True the refined prompt is the prompt of the attempt (docs/reference/file-formats.md,
        # Answers).
        refined, remedy = (found.prompt, found.source) if found else (attempt.prompt, None)
        answer = answer.model_copy(update={"refined_prompt": refined, "probability": None})
        if self.oracle is None or answer.success is None:
            return answer, remedy
        taught = self.oracle.answer(attempt.source, image, original, attempt.prompt, answer.success)
        if taught is None:
            return answer, remedy
        noted = bool(held.feedback and (held.feedback.note or "").strip())
        own = {"success"} | ({"reasoning"} if noted else set())
        if remedy in (None, "person"):
            own |= {"refined_prompt"}
        else:
            remedy = "teacher"
        return taught.model_copy(update={**answer.model_dump(include=own), "probability": None}), remedy

    @staticmethod
    def _by_score(attempt: Attempt, score: Score, success_at: float) -> Verdict:
        success = score.semantics >= success_at
        if attempt.verdict is not None and attempt.verdict.success == success:
            return attempt.verdict
        return Verdict(success=success, refined_prompt=attempt.prompt)


def read_runs(
    given: Sequence[Path], reader: RunReader, skip_bad: bool = False, log: Log = print, parallel: int = 1
) -> tuple[list[JudgedStep], list[RowProblem], ReadCounts]:
    """Read the steps of all runs, `parallel` at a time.

    A damaged run is an error that names it, because a gap in the data would not be noticed.

    Returns:
        (steps, problems of runs that were left out with `skip_bad`, counts).

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
        SettingsError: No run is left.
        ChatError: The judge is unavailable.
    """
    steps: list[JudgedStep] = []
    problems: list[RowProblem] = []
    counts, runs = ReadCounts(), find_runs(given)

    def read(run: tuple[Path, str]) -> tuple[list[JudgedStep], ReadCounts] | JournalError | PictureError:
        try:
            return reader.read(as_run(run[0]), run[1])
        except (JournalError, PictureError) as error:
            return error

    for number, found in enumerate(in_threads(read, runs, parallel), 1):
        _, name = runs[number - 1]
        if isinstance(found, JournalError | PictureError):
            if not skip_bad:
                hint = f"{found.hint} Or leave out such runs with --skip-bad.".strip()
                raise JournalError(f"Run {name!r}: {found.message}", hint) from found
            problems.append(RowProblem(f"run {name}", "journal", str(found)))
            continue
        steps += found[0]
        counts.add(found[1])
        if number % 50 == 0:
            log(f"{number}/{len(runs)} runs read")
    if len(problems) == len(runs):
        raise SettingsError("None of these runs can be read.", str(problems[0]))
    if reader.scores:
        counts.scored = reader.scores.scored
        if reader.scores.first_failure:
            log(f"{counts.unscored} images without a score. The first error: {reader.scores.first_failure}")
    return steps, problems, counts
