"""Results of the ablation: shares with intervals over seeds and stories, and comparisons with tests.

Each seed has its own trainings, so seeds are the unit of repetition. Intervals are bootstrapped over seeds
and their stories (training/statistics.py). Next to McNemar's test on stories there is a sign-flip
test on the seeds' differences alone, whose p is never below 0.0625 with five seeds. If all stories have the
same outcome, there is nothing to resample; the interval is then Wilson's for that number of stories, or
Agresti and Min's for differences. All results are reported: pairs whose order differs from the paper's are
computed here and not picked by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

from pydantic import BaseModel

from ....training.statistics import (
    OF_DIFFERENCES,
    Mean,
    Share,
    agresti_min_interval,
    paired_difference,
    share,
    sign_flip_test,
    two_level_mean,
)
from .measures import ALL_ATTEMPTS, ATTEMPTS
from .outcomes import AblationOutcomes, SeedOutcomes, StoryLetters
from .pipeline import PIPELINE, PUBLISHED_ATTEMPTS, REINFORCED, ROWS

COMPARED = (("rl", "rl_no_step"), ("rl", "rl_no_accuracy"), ("oracle_planner", "sft"))
"""Comparisons in addition to those of each row with its baseline."""


class RowComparison(BaseModel):
    """Difference in the share of correct stories between `row` and `baseline`.

    Attributes:
        difference: Mean difference with its interval over seeds and stories.
        of_each_seed: Difference per seed.
        p_stories: McNemar's p on the stories.
        p_seeds: p of flipping the signs of the seeds' differences.
        published: Difference in the paper, in points.
    """

    row: str
    baseline: str
    difference: Mean
    of_each_seed: list[float]
    p_stories: float
    p_seeds: float
    published: float | None = None


class FindingsRow(BaseModel):
    """A row of the table.

    Attributes:
        stories: Share of correct stories by number of attempts.
        of_each_seed: Share per seed with three attempts (with one, if there are no more).
        steps: Share of correct steps.
        draws: Generated images per step.
        accuracy: Share of correct verdicts of the critic.
        true_recall: Share of correct images that the critic accepts.
        false_recall: Share of wrong images that the critic rejects.
    """

    name: str
    title: str
    published: float | None
    stories: dict[int, Mean]
    of_each_seed: list[float]
    steps: float
    draws: float
    accuracy: Share | None = None
    true_recall: Share | None = None
    false_recall: Share | None = None
    against_baseline: RowComparison | None = None


class Findings(BaseModel):
    """The table, the comparisons, minutes of one core, and the outcomes that all of it is computed from."""

    rows: list[FindingsRow]
    tries: dict[str, list[RowComparison]]
    beside: list[RowComparison]
    not_as_published: list[RowComparison]
    exact_plans: dict[str, list[float]]
    next_steps_right: Share
    remedies: list[RowComparison]
    remedies_right: dict[str, Share]
    minutes_in_all: float
    minutes_of_chains: list[float]
    minutes_by_job: dict[str, float]
    outcomes: AblationOutcomes


Right = Sequence[Sequence[bool]]
"""Whether each story is correct, per seed."""
Stories = Sequence[dict[int, StoryLetters]]
"""Stories of a row by number of attempts, per seed."""


def findings_of(outcomes: AblationOutcomes) -> Findings:
    """Compute the table from outcomes."""
    seeds = outcomes.seeds
    found: dict[str, Stories] = {name: [seed.told[name] for seed in seeds] for name in ROWS}
    right = {name: _right(told, _most(told[0])) for name, told in found.items()}
    refined = [name for name in REINFORCED if name in seeds[0].refined]
    return Findings(
        rows=[_row(name, seeds, right) for name in found],
        tries={"sft": _by_attempts(found["sft"], None), "rl": _by_attempts(found["rl"], PUBLISHED_ATTEMPTS)},
        beside=[_against(right, *pair) for pair in COMPARED],
        not_as_published=not_as_published(right, _by_attempts(found["rl"], PUBLISHED_ATTEMPTS)),
        exact_plans={name: [seed.exact_plans[name] for seed in seeds] for name in seeds[0].exact_plans},
        next_steps_right=share([letter == "1" for seed in seeds for letter in seed.next_steps]),
        remedies=[_remedies(seeds, name) for name in refined],
        remedies_right={
            name: share([letter == "1" for seed in seeds for letter in seed.refined[name].drawn_right])
            for name in ["sft", *refined]
        },
        minutes_in_all=round(sum(_minutes_by_job(outcomes).values()), 1),
        minutes_of_chains=[round(sum(seed.minutes.get(job, 0) for job in PIPELINE), 1) for seed in seeds],
        minutes_by_job=_minutes_by_job(outcomes),
        outcomes=outcomes,
    )


def _most(told: dict[int, StoryLetters]) -> int:
    """Return the number of attempts of the main column: three, or the maximum if there are fewer."""
    return ATTEMPTS if ATTEMPTS in told else max(told)


def _right(stories: Stories, attempts: int) -> Right:
    return [told[attempts].outcomes for told in stories]


def mean_of(outcomes: Right) -> Mean:
    """Return the share of correct stories, with its interval over seeds and stories."""
    found = two_level_mean([[float(ok) for ok in seed] for seed in outcomes])
    if found.low < found.high:
        return found
    alike = share([ok for seed in outcomes for ok in seed])
    return found.model_copy(update={"low": alike.low, "high": alike.high})


def compare(row: str, baseline: str, ones: Right, others: Right) -> RowComparison:
    """Compare two rows on the same stories of the same seeds; if one has fewer stories, on those of both."""
    pairs = [list(zip(one, other, strict=False)) for one, other in zip(ones, others, strict=True)]
    differences = [[float(one) - float(other) for one, other in seed] for seed in pairs]
    means = [sum(seed) / len(seed) for seed in differences]
    every = [pair for seed in pairs for pair in seed]
    published = [ROWS[name].published if name in ROWS else None for name in (row, baseline)]
    difference = two_level_mean(differences, bounds=OF_DIFFERENCES)
    if difference.low == difference.high:
        alike = agresti_min_interval([one for one, _ in every], [other for _, other in every])
        difference = difference.model_copy(update={"low": alike.low, "high": alike.high})
    return RowComparison(
        row=row,
        baseline=baseline,
        difference=difference,
        of_each_seed=[round(mean, 3) for mean in means],
        p_stories=paired_difference([one for one, _ in every], [other for _, other in every]).p,
        p_seeds=sign_flip_test(means),
        published=round(published[0] - published[1], 1)
        if published[0] is not None and published[1] is not None
        else None,
    )


def _against(right: dict[str, Right], row: str, baseline: str) -> RowComparison:
    return compare(row, baseline, right[row], right[baseline])


def _by_attempts(seeds: Stories, published: Mapping[int, float] | None) -> list[RowComparison]:
    """Compare more with fewer attempts in one row.

    Args:
        seeds: Stories of the row.
        published: The paper's averages for this row, by number of attempts.
    """
    return [
        compare(f"{more} tries", f"{fewer} tries", _right(seeds, more), _right(seeds, fewer)).model_copy(
            update={"published": round(published[more] - published[fewer], 1) if published else None}
        )
        for fewer, more in pairwise(ALL_ATTEMPTS)
    ]


def not_as_published(right: dict[str, Right], tries: Sequence[RowComparison]) -> list[RowComparison]:
    """Return the pairs of rows (and numbers of attempts) whose order is reversed compared with the paper."""
    pairs = []
    for one, other in combinations([name for name in right if ROWS[name].published is not None], 2):
        lower, higher = sorted((one, other), key=lambda name: ROWS[name].published or 0.0)
        if ROWS[lower].published != ROWS[higher].published:
            pairs.append(_against(right, higher, lower))
    return [pair for pair in [*pairs, *tries] if pair.difference.mean < 0]


def _row(name: str, seeds: Sequence[SeedOutcomes], right: dict[str, Right]) -> FindingsRow:
    stories = [seed.told[name] for seed in seeds]
    told = [one[_most(stories[0])] for one in stories]
    steps = [letter == "1" for one in told for letter in one.steps.replace(" ", "")]
    baseline = ROWS[name].baseline
    row = FindingsRow(
        name=name,
        title=ROWS[name].title,
        published=ROWS[name].published,
        stories={attempts: mean_of(_right(stories, attempts)) for attempts in stories[0]},
        of_each_seed=[round(sum(seed) / len(seed), 3) for seed in right[name]],
        steps=sum(steps) / max(1, len(steps)),
        draws=sum(one.draws for one in told) / max(1, len(steps)),
        against_baseline=_against(right, name, baseline) if baseline else None,
    )
    judged = [pair for seed in seeds if name in seed.judged for pair in seed.judged[name].pairs]
    if judged:
        row.accuracy = share([said == truth for said, truth in judged])
        row.true_recall = share([said is True for said, truth in judged if truth])
        row.false_recall = share([said is False for said, truth in judged if not truth])
    return row


def _remedies(seeds: Sequence[SeedOutcomes], name: str) -> RowComparison:
    """Compare the critic's refined prompts with those of full SFT, on failed attempts that both reject."""
    drawn: dict[str, list[list[bool]]] = {name: [], "sft": []}
    for seed in seeds:
        refused = zip(seed.refined[name].refused, seed.refined["sft"].refused, strict=True)
        both = [one == other == "1" for one, other in refused]
        if any(both):
            for row, right in drawn.items():
                pairs = zip(seed.refined[row].drawn_right, both, strict=True)
                right.append([letter == "1" for letter, one in pairs if one])
    if not drawn["sft"]:
        return _nothing_in_common(name)
    return compare(name, "sft", drawn[name], drawn["sft"]).model_copy(update={"published": None})


def _nothing_in_common(name: str) -> RowComparison:
    nothing = Mean(mean=0.0, low=-1.0, high=1.0, n=0)
    return RowComparison(
        row=name, baseline="sft", difference=nothing, of_each_seed=[], p_stories=1.0, p_seeds=1.0
    )


def _minutes_by_job(outcomes: AblationOutcomes) -> dict[str, float]:
    """Return the minutes of one core by kind of job, over all seeds and shared jobs."""
    minutes: dict[str, float] = {}
    parts = [*(made.shared_minutes for made in outcomes.made), *(seed.minutes for seed in outcomes.seeds)]
    for kind, taken in [item for part in parts for item in part.items()]:
        minutes[kind] = round(minutes.get(kind, 0.0) + taken, 1)
    return minutes
