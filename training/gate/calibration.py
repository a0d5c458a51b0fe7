"""Calibrates a critic's P(success) on images whose truth people gave, so that 0.8 means 80 %.

A critic that writes its reasoning first is nearly always sure of its verdict: most probabilities are below
0.001 or above 0.999, right or wrong. Platt scaling (J. Platt, 1999) fits a slope and an intercept of the
log-odds. Isotonic regression was not better in the tiny world and needs more images. Both keep the order of
images, so calibration changes what a threshold means and not which image is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import BaseModel

from ...backend.core.errors import SettingsError
from ...backend.core.machine.libraries import require
from ...backend.core.prompts.agent_card import CALIBRATED, Calibration, log_odds
from ...backend.core.prompts.trained_with import critic_card
from ...backend.output.sft_rows import success_of
from ..from_runs.run_folders import annotated_runs
from ..statistics import OF_DIFFERENCES, Mean, stratified_means

FOLDS, BINS = 5, 10
LEAST, LEAST_OF_EACH = 40, 8
"""Fewest images, and fewest right and wrong ones, for which a calibration is fitted."""


class Sure(NamedTuple):
    """P(success) of one verdict, and whether the image is right."""

    probability: float
    success: bool


class CalibrationReport(BaseModel):
    """A calibration and its effect on images that it was not fitted on (5-fold cross-validation).

    Attributes:
        calibration: Fitted on all images.
        before: Expected calibration error of P(success) in 10 bins.
        after: The same after calibration.
        gain: How much the mean squared error (Brier score) falls, with its 95 % confidence interval.
    """

    calibration: Calibration
    before: float
    after: float
    gain: Mean

    @property
    def helps(self) -> bool:
        """Whether the squared error certainly falls."""
        return self.gain.low > 0


def judged_by_people(runs: Sequence[Path]) -> list[Sure]:
    """Return the verdicts in runs whose images have a person's verdict. One image counts once.

    Raises:
        JournalError: A run is damaged.
        SettingsError: A folder does not contain a run, a run was judged by a calibrated critic, or the runs
            were judged by different critics.
    """
    found: dict[tuple[str, str], Sure] = {}
    critics: dict[str, str] = {}
    for run in annotated_runs(runs):
        if CALIBRATED in run.critic:
            raise SettingsError(
                f"The run {run.name!r} was judged by a calibrated critic.",
                "Remove 'calibration' from the critic's agent.json, and give runs from before.",
            )
        for one in run.images:
            success, probability = success_of(one.feedback), one.verdict.probability
            if success is not None and probability is not None:
                found[one.image, one.prompt] = Sure(probability, success)
                critics.setdefault(run.critic_model, run.name)
    if len(critics) > 1:
        shown = ", ".join(f"{name!r} by {critic[:100]}" for critic, name in list(critics.items())[:3])
        raise SettingsError(
            f"The runs were judged by different critics: {shown}.",
            "A calibration belongs to one critic: give the runs of one.",
        )
    return list(found.values())


def calibrate(judged: Sequence[Sure], seed: int = 0) -> CalibrationReport:
    """Fit a calibration, and measure it by cross-validation.

    Raises:
        SettingsError: There are too few images, or the probability does not rise with right images.
    """
    right = sum(one.success for one in judged)
    if len(judged) < LEAST or min(right, len(judged) - right) < LEAST_OF_EACH:
        raise SettingsError(
            f"A calibration needs at least {LEAST} images with a person's verdict, {LEAST_OF_EACH} of them "
            f"right and {LEAST_OF_EACH} wrong, but there are {right} right and {len(judged) - right} wrong.",
            "Give more verdicts: the thumbs in the live view, Feedback, or runs of other stories.",
        )
    shuffled = Random(seed).sample(judged, len(judged))
    shuffled.sort(key=lambda one: one.success)  # each fold has its share of right and wrong images
    folds = [shuffled[start::FOLDS] for start in range(FOLDS)]
    tested: list[Sure] = []
    gains: list[float] = []
    for number, fold in enumerate(folds):
        rest = [one for other, some in enumerate(folds) if other != number for one in some]
        fitted = fit(rest)
        for one in fold:
            tested.append(Sure(fitted.apply(one.probability), one.success))
            gains.append((one.probability - one.success) ** 2 - (tested[-1].probability - one.success) ** 2)
    return CalibrationReport(
        calibration=fit(judged),
        before=calibration_error(judged),
        after=calibration_error(tested),
        gain=stratified_means({"images": gains}, bounds=OF_DIFFERENCES).items,
    )


def fit(judged: Sequence[Sure]) -> Calibration:
    """Return the Platt scaling with the smallest log loss, for targets smoothed as in Platt's paper.

    Raises:
        SettingsError: scipy is not installed, or the probability does not rise with right images.
    """
    require("scipy")
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import expit

    odds = np.array([log_odds(one.probability) for one in judged])
    success = np.array([one.success for one in judged])
    right, wrong = success.sum(), (~success).sum()
    target = np.where(success, (right + 1) / (right + 2), 1 / (wrong + 2))

    def loss(parameters: Any) -> tuple[float, Any]:
        slope, intercept = parameters
        scaled = slope * odds + intercept
        off = expit(scaled) - target
        value = np.logaddexp(0, scaled) - target * scaled
        return float(value.mean()), np.array([(off * odds).mean(), off.mean()])

    slope, intercept = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    if slope <= 0:
        raise SettingsError(
            "P(success) of this critic does not rise with right images, so it cannot be calibrated.",
            "Give more verdicts, or use its own yes or no.",
        )
    return Calibration(slope=float(slope), intercept=float(intercept), images=len(judged))


def calibration_error(judged: Sequence[Sure]) -> float:
    """Return the expected calibration error: |mean P - share of right images|, weighted over equal bins."""
    bins: dict[int, list[Sure]] = {}
    for one in judged:
        bins.setdefault(min(BINS - 1, int(one.probability * BINS)), []).append(one)
    return sum(abs(sum(one.probability - one.success for one in some)) for some in bins.values()) / max(
        1, len(judged)
    )


def store_calibration(folder: Path, calibration: Calibration) -> None:
    """Write a calibration into the agent card of a checkpoint.

    Raises:
        SettingsError: The folder does not exist, is a planner's, or its card is damaged or cannot be written.
    """
    critic_card(folder).model_copy(update={"calibration": calibration}).save(folder)
