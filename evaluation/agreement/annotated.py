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
from ...backend.scorers.protocol import ScoresTogether, score_all
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
    scores: list[Score | None] = [None] * len(images)
    missing: dict[str, _Unit] = {}
    for numbers in _units(scorer, images):
        unit = _Unit(numbers, _keys(scorer, [images[number] for number in numbers]))
        known = [cache.score(key) for key in unit.keys] if cache else [None]
        if None in known:
            missing[unit.keys[0]] = unit
        else:
            unit.fill(scores, known)
    first, failed_in_a_row = "", 0
    job = _ScoreUnit(scorer, images)
    for done in ThreadExecutor(parallel).map(
        job, list(missing.values()), lambda unit: unit.keys[0], LocalCancelToken()
    ):
        said = done.result
        if isinstance(said, list):
            failed_in_a_row = 0
            unit = missing[done.key]
            unit.fill(scores, said)
            for key, score in zip(unit.keys, said, strict=True):
                if cache:
                    cache.keep_score(key, score)
            continue
        first = first or str(said or done.lost)
        failed_in_a_row = failed_in_a_row + 1 if isinstance(said, ChatError) else 0
        if isinstance(said, ChatError) and failed_in_a_row >= GIVE_UP:
            raise said
    return Scored(scores, first)


class _Unit(NamedTuple):
    """Images that are scored in one call: their numbers and the cache keys of their scores."""

    numbers: list[int]
    keys: list[str]

    def fill(self, scores: list[Score | None], found: Sequence[Score | None]) -> None:
        for number, score in zip(self.numbers, found, strict=True):
            scores[number] = score


def _units(scorer: Scorer, images: Sequence[AnnotatedImage]) -> list[list[int]]:
    if not isinstance(scorer, ScoresTogether):
        return [[number] for number in range(len(images))]
    groups: dict[Hashable, list[int]] = {}
    for number, image in enumerate(images):
        groups.setdefault(image.group, []).append(number)
    return [numbers for numbers in groups.values() if len(numbers) > 1]


def _keys(scorer: Scorer, images: Sequence[AnnotatedImage]) -> list[str]:
    digests = [image.after.digest for image in images]
    compared = sorted(digests) if isinstance(scorer, ScoresTogether) else []
    before, prompt = images[0].before, images[0].prompt
    source = before.digest if before else None
    return [key_of("agreement", scorer.identity, source, digest, prompt, *compared) for digest in digests]


@dataclass(frozen=True)
class _ScoreUnit:
    """Job that scores the images of a unit, and returns an error instead of raising it."""

    scorer: Scorer
    images: Sequence[AnnotatedImage]

    def open(self, stop: object) -> Callable[[_Unit], list[Score] | ScorerError | ChatError | PictureError]:
        def score(unit: _Unit) -> list[Score] | ScorerError | ChatError | PictureError:
            shown = [self.images[number] for number in unit.numbers]
            try:
                return score_all(
                    self.scorer, shown[0].before, [image.after for image in shown], shown[0].prompt
                )
            except (ScorerError, ChatError, PictureError) as error:
                return error

        return score


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
