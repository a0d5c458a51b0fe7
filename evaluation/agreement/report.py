"""Measures scorers against people's verdicts and shows the result as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from ...backend.scorers import About
from ...backend.types import Score
from .annotated import AnnotatedImage, Scored
from .statistics import (
    BOTH_SIGNS,
    Agreement,
    Figure,
    Observed,
    RankFigures,
    best_threshold,
    held_out_verdicts,
    mean_of,
    pair_accuracy,
)

NONE = "–"
CRITIC = "critic of the runs"


class AgreementReport(BaseModel):
    """Agreement of several scorers with people on the same images.

    Attributes:
        images: Images with a person's verdict.
        accepted: How many of them people accepted.
        scorers: One row for each scorer.
    """

    images: int
    accepted: int
    scorers: list[Agreement]


def critic_scores(images: Sequence[AnnotatedImage]) -> Scored:
    """Return the verdicts of the runs' own critic as scores, the baseline of every scorer."""
    said = (image.critic for image in images)
    return Scored([None if one is None else Score(semantics=one, quality=one) for one in said])


def measure(
    images: Sequence[AnnotatedImage], scorers: Sequence[tuple[str, Scored]], seed: int = 0
) -> AgreementReport:
    """Measure scorers.

    Args:
        images: Images with verdicts.
        scorers: Name and scores of each scorer. The others are compared with the first.
        seed: Seed of the bootstrap and of the folds.

    Raises:
        SettingsError: scipy is not installed.
    """
    rows = [_agreement(name, images, found, seed) for name, found in scorers]
    for number, (_, found) in enumerate(scorers[1:], 1):
        rows[number].difference = _difference(images, scorers[0][1], found, seed)
    accepted = sum(image.accepted for image in images)
    return AgreementReport(images=len(images), accepted=accepted, scorers=rows)


def _agreement(name: str, images: Sequence[AnnotatedImage], found: Scored, seed: int) -> Agreement:
    kept = [(image, score) for image, score in zip(images, found.scores, strict=True) if score is not None]
    accepted = sum(image.accepted for image, _ in kept)
    row = Agreement(
        scorer=name,
        images=len(kept),
        unscored=len(images) - len(kept),
        accepted=accepted,
        failure=found.failure,
    )
    if not 0 < accepted < len(kept):
        return row
    observed = _observed([image for image, _ in kept], seed)
    overall, semantics, quality = np.array(
        [(score.overall, score.semantics, score.quality) for _, score in kept]
    ).T
    ranks = RankFigures(observed, overall)
    pairs, won = pair_accuracy(observed, overall)
    right = held_out_verdicts(observed, overall, seed)
    return row.model_copy(
        update={
            "units": observed.described,
            "auc": observed.figure(ranks.auc),
            "accuracy": observed.figure(mean_of(observed, right)),
            "always": max(accepted, len(kept) - accepted) / len(kept),
            "threshold": best_threshold(observed.verdicts, overall),
            "spearman": observed.figure(ranks.spearman, BOTH_SIGNS),
            "kendall": observed.figure(ranks.kendall, BOTH_SIGNS),
            "pairs": pairs,
            "pair_accuracy": observed.figure(won),
            "auc_semantics": float(RankFigures(observed, semantics).auc[0]),
            "auc_quality": float(RankFigures(observed, quality).auc[0]),
        }
    )


def _difference(images: Sequence[AnnotatedImage], first: Scored, other: Scored, seed: int) -> Figure:
    kept = [
        (image, one.overall, two.overall)
        for image, one, two in zip(images, first.scores, other.scores, strict=True)
        if one is not None and two is not None
    ]
    if not kept:
        return Figure()
    observed = _observed([image for image, _, _ in kept], seed)
    one, two = (RankFigures(observed, np.array([row[at] for row in kept])).auc for at in (1, 2))
    return observed.figure(two - one, BOTH_SIGNS)


def _observed(images: Sequence[AnnotatedImage], seed: int) -> Observed:
    return Observed(
        [image.accepted for image in images],
        [image.run for image in images],
        [image.group for image in images],
        seed,
    )


def as_lines(report: AgreementReport) -> list[str]:
    """Return the report as a Markdown table."""
    names = ["scorer", "images", "AUC", "accuracy", "from", "Spearman", "Kendall", "same step", "AUC - first"]
    lines = [
        f"{report.images} images with a person's verdict, {report.accepted} accepted.",
        "",
        _row(names),
        "|---" * len(names) + "|",
    ]
    for row in report.scorers:
        cells = [
            row.scorer,
            f"{row.images}" + (f" ({row.unscored} without a score)" if row.unscored else ""),
            shown(row.auc),
            shown(row.accuracy),
            f"{row.threshold:.2f}" if row.units else NONE,
            shown(row.spearman),
            shown(row.kendall),
            f"{shown(row.pair_accuracy)} of {row.pairs}" if row.pairs else NONE,
            NONE if row.difference is None else shown(row.difference, "+"),
        ]
        lines.append(_row(cells))
    measured = next((row for row in report.scorers if row.units), None)
    if measured is not None:
        lines += [
            "",
            "AUC: probability that an accepted image has a higher score than a rejected one. Accuracy: with "
            f"a threshold chosen on other images; always the same verdict: {measured.always:.3f}. From: "
            "threshold chosen on all images, on a scale of 0 to 10; the critic's P(success) or verdict is "
            "multiplied by 10. Same step: share of pairs of one step in which the accepted "
            f"image has the higher score. 95 % intervals by bootstrap over {measured.units}.",
        ]
    return lines + [f"{row.scorer}: {row.failure}" for row in report.scorers if row.failure]


def shown(figure: Figure, sign: str = "") -> str:
    """Format a figure with its interval for a table."""
    if figure.value is None:
        return NONE
    value = f"{figure.value:{sign}.3f}"
    if figure.low is None or figure.high is None:
        return value
    return f"{value} ({figure.low:{sign}.3f} to {figure.high:{sign}.3f})"


def about_lines(scorers: Sequence[About]) -> list[str]:
    """Return license, memory and range of scorers as a Markdown table, each kind once."""
    lines = ["| scorer | measures | license | memory of the weights | range |", "|---" * 5 + "|"]
    for about in dict.fromkeys(scorers):
        cells = (about.usage, about.measures, about.license, about.memory, about.range)
        lines.append(_row(cells))
    return lines


def _row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
