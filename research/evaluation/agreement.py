"""Measures scorers against people's verdicts on the images of their runs: one figure, the AUC.

Images of one run are alike, so the bootstrap resamples runs and not images (steps, if there are fewer than
`FEW_RUNS` runs). The coverage of the intervals is measured by experiment `scorers` of 0.3.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from ...backend.core.errors import JournalError, PictureError, SettingsError
from ...backend.core.pictures import Picture
from ...backend.core.types import Score, Verdict
from ...backend.models.scorers import Scorer
from ...backend.output.feedback_log import read_feedback
from ...backend.output.sft_rows import success_of
from ...backend.story.loop.replay import load_trajectory
from ...training.content_cache import ContentCache
from ...training.from_runs.run_folders import find_runs
from ...training.from_runs.scoring import CachedScores, in_threads
from ...training.statistics import auc_of

CRITIC = "critic of the runs"
FEW_RUNS = 10
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
    scorer: Scorer, images: Sequence[AnnotatedImage], cache: ContentCache | None = None, parallel: int = 1
) -> Scored:
    """Score the images.

    Raises:
        ChatError: The model failed several times in a row.
    """
    scores = CachedScores(scorer, cache, "agreement")

    def score(image: AnnotatedImage) -> Score | None:
        return scores.of(image.before, image.after, image.prompt)[0]

    return Scored(list(in_threads(score, images, parallel)), scores.first_failure)


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


class Agreement(BaseModel):
    """Agreement of one scorer with people.

    Attributes:
        scorer: Name of the scorer as given.
        images: Images with a score.
        unscored: Images without one.
        auc: Probability that an accepted image has a higher score than a rejected one; a tie counts half.
            None without images of both verdicts.
        low: Lower end of its 95 % confidence interval. None with too few runs.
        high: Upper end.
        units: What is resampled: runs or steps, and their number.
        failure: The first reason why an image has no score.
    """

    scorer: str
    images: int
    unscored: int
    auc: float | None = None
    low: float | None = None
    high: float | None = None
    units: str = ""
    failure: str = ""


class AgreementReport(BaseModel):
    """Agreement of several scorers with people on the same images, `accepted` of which people accepted."""

    images: int
    accepted: int
    scorers: list[Agreement]


def critic_scores(images: Sequence[AnnotatedImage]) -> Scored:
    """Return the verdicts of the runs' own critic as scores, the baseline of every scorer."""
    said = (image.critic for image in images)
    return Scored([None if one is None else Score(semantics=one, quality=one) for one in said])


def measure(images: Sequence[AnnotatedImage], scorers: Sequence[tuple[str, Scored]]) -> AgreementReport:
    """Measure scorers, given with their names and scores.

    Raises:
        SettingsError: scipy is not installed.
    """
    rows = [_agreement(name, images, found) for name, found in scorers]
    return AgreementReport(images=len(images), accepted=sum(image.accepted for image in images), scorers=rows)


def _agreement(name: str, images: Sequence[AnnotatedImage], found: Scored) -> Agreement:
    kept = [
        (image, score.overall) for image, score in zip(images, found.scores, strict=True) if score is not None
    ]
    row = Agreement(scorer=name, images=len(kept), unscored=len(images) - len(kept), failure=found.failure)
    by_run = len({image.run for image, _ in kept}) >= FEW_RUNS
    units = [image.run if by_run else (image.run, image.step) for image, _ in kept]
    auc = auc_of([image.accepted for image, _ in kept], [score for _, score in kept], units)
    if auc is None:
        return row
    named = f"{auc.units} {'runs' if by_run else 'steps'}"
    return row.model_copy(update={**auc.model_dump(), "units": named})


def as_lines(report: AgreementReport) -> list[str]:
    """Return the report as a Markdown table."""
    lines = [
        f"{report.images} images with a person's verdict, {report.accepted} accepted.",
        "",
        "| scorer | images | without a score | AUC (95 % interval) | bootstrap over |",
        "|---|---|---|---|---|",
    ]
    for row in report.scorers:
        auc = "–" if row.auc is None else f"{row.auc:.3f}"
        interval = "" if row.low is None else f" ({row.low:.3f} to {row.high:.3f})"
        name = row.scorer.replace("|", "\\|")
        lines.append(f"| {name} | {row.images} | {row.unscored} | {auc}{interval} | {row.units or '–'} |")
    return lines + [f"{row.scorer}: {row.failure}" for row in report.scorers if row.failure]
