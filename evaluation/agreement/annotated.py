"""Collects the images of runs that a person accepted or rejected, and has a scorer score them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...backend.errors import ChatError, JournalError, PictureError, ScorerError, SettingsError
from ...backend.feedback.log import read_feedback
from ...backend.feedback.rows import success_of
from ...backend.loop.replay import load_trajectory
from ...backend.pictures import Picture
from ...backend.scorers import Scorer
from ...backend.scorers.protocol import ScoresTogether
from ...backend.types import Score, Verdict
from ...training.content_cache import ContentCache, key_of
from ...training.data.executors import LocalCancelToken
from ...training.data.executors.threads import ThreadExecutor
from ...training.data.from_runs.run_folders import find_runs

GIVE_UP = 5
"""Consecutive failures of a model at which scoring stops, since its server must be down."""
Log = Callable[[str], None]


@dataclass(frozen=True)
class AnnotatedImage:
    """An image with a person's verdict.

    Attributes:
        run: Name of its run.
        step: Number of its step.
        before: Source image.
        after: The image.
        prompt: Original prompt of the step.
        accepted: The person's verdict.
        critic: What the critic of the run said, 0..10: P(success), else its verdict. None if it said nothing.
    """

    run: str
    step: int
    before: Picture | None
    after: Picture
    prompt: str
    accepted: bool
    critic: float | None

    @property
    def group(self) -> Hashable:
        """What the images have in common that can be compared: the step, its source and its prompt."""
        return self.run, self.step, self.before.digest if self.before else None, self.prompt


class Scored(NamedTuple):
    """Scores in the order of the images, None where scoring failed; and the first failure."""

    scores: list[Score | None]
    failure: str = ""


def annotated_images(runs: Sequence[Path], skip_bad: bool = False, log: Log = print) -> list[AnnotatedImage]:
    """Return the images of runs that have a person's verdict.

    The same image of the same edit counts once, with the last verdict. Feedback on an image that was
    generated again later is left out.

    Raises:
        JournalError: A run is damaged, and `skip_bad` is false.
        SettingsError: A folder does not contain a run.
    """
    found: dict[tuple[str | None, str, str], AnnotatedImage] = {}
    for folder, name in find_runs(runs):
        try:
            for image in _of_run(folder, name):
                source = image.before.digest if image.before else None
                found[source, image.after.digest, image.prompt] = image
        except (JournalError, PictureError) as error:
            if not skip_bad:
                raise JournalError(
                    f"Run {name!r}: {error.message}", f"{error.hint} Or leave it out with --skip-bad.".strip()
                ) from error
            log(f"left out: run {name}: {error}")
    return list(found.values())


def _of_run(folder: Path, name: str) -> Iterator[AnnotatedImage]:
    feedback = read_feedback(folder)
    if not feedback:
        return
    attempts = {
        (result.step.number, number): (result.step.prompt, attempt)
        for result in load_trajectory(folder).results
        for number, attempt in enumerate(result.attempts)
    }
    for one in feedback:
        prompt, attempt = attempts.get((one.step, one.attempt), (None, None))
        accepted = success_of(one)
        if attempt is None or attempt.image is None or not prompt or accepted is None:
            continue
        if one.image in (None, attempt.image.digest):
            yield AnnotatedImage(
                name,
                one.step,
                attempt.source,
                attempt.image,
                prompt,
                accepted,
                said_by_critic(attempt.verdict),
            )


def said_by_critic(verdict: Verdict | None) -> float | None:
    """Return a critic's verdict as a number, 0..10."""
    if verdict is None or verdict.success is None:
        return None
    return 10 * (float(verdict.success) if verdict.probability is None else verdict.probability)


def scored(
    scorer: Scorer,
    images: Sequence[AnnotatedImage],
    cache: ContentCache | None = None,
    parallel: int = 1,
) -> Scored:
    """Score the images.

    A scorer that compares images scores those of a step together. It has no score for a single one.

    Raises:
        ChatError: The model failed several times in a row.
    """
    if isinstance(scorer, ScoresTogether):
        return _compared(scorer, images)
    keys = [
        key_of("agreement", scorer.identity, one.before.digest if one.before else None, one.after.digest,
               one.prompt)
        for one in images
    ]  # fmt: skip
    found = {key: score for key in keys if cache and (score := cache.score(key))}
    missing = {key: image for key, image in zip(keys, images, strict=True) if key not in found}
    first, failed_in_a_row = "", 0
    job = _ScoreOne(scorer)
    for done in ThreadExecutor(parallel).map(
        job, list(missing.items()), lambda item: item[0], LocalCancelToken()
    ):
        said = done.result
        if isinstance(said, Score):
            failed_in_a_row = 0
            found[done.key] = said
            if cache:
                cache.keep_score(done.key, said)
            continue
        first = first or str(said or done.lost)
        failed_in_a_row = failed_in_a_row + 1 if isinstance(said, ChatError) else 0
        if isinstance(said, ChatError) and failed_in_a_row >= GIVE_UP:
            raise said
    return Scored([found.get(key) for key in keys], first)


@dataclass(frozen=True)
class _ScoreOne:
    """Job that scores one image, and returns an error instead of raising it."""

    scorer: Scorer

    def open(
        self, stop: object
    ) -> Callable[[tuple[str, AnnotatedImage]], Score | ScorerError | ChatError | PictureError]:
        def score(item: tuple[str, AnnotatedImage]) -> Score | ScorerError | ChatError | PictureError:
            image = item[1]
            try:
                return self.scorer.score(image.before, image.after, image.prompt)
            except (ScorerError, ChatError, PictureError) as error:
                return error

        return score


def _compared(scorer: ScoresTogether, images: Sequence[AnnotatedImage]) -> Scored:
    groups: dict[Hashable, list[int]] = {}
    for number, image in enumerate(images):
        groups.setdefault(image.group, []).append(number)
    scores: list[Score | None] = [None] * len(images)
    failure = ""
    for numbers in groups.values():
        if len(numbers) < 2:
            continue
        first = images[numbers[0]]
        try:
            found = scorer.score_together(first.before, [images[one].after for one in numbers], first.prompt)
        except ScorerError as error:
            failure = failure or str(error)
            continue
        for number, score in zip(numbers, found, strict=True):
            scores[number] = score
    return Scored(scores, failure)


def check_verdicts(images: Sequence[AnnotatedImage], least: int = 2) -> None:
    """Check that there are enough accepted and rejected images to measure an agreement.

    Raises:
        SettingsError: There are not.
    """
    accepted = sum(image.accepted for image in images)
    if min(accepted, len(images) - accepted) < least:
        raise SettingsError(
            f"An agreement needs at least {least} accepted and {least} rejected images, but these runs have "
            f"{accepted} and {len(images) - accepted}.",
            "Give more verdicts: the thumbs in the live view, Feedback, or runs of other stories.",
        )
