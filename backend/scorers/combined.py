"""Scorers made of other scorers: the weighted mean, the minimum, and the mean of several samples of one.

Semantics and quality are combined separately, from the members that measure the part. If one member fails,
the image has no score, because scores with and without it could not be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from ..errors import SettingsError
from ..pictures import Picture
from ..types import Score
from . import open_scorer
from .protocol import Parts, Scorer, ScoresRepeatedly, free_device, parts_of
from .specs import split_members

MAX_REPEATS = 32
Combine = Callable[[Sequence[tuple[float, float]]], float]
"""Combines (weight, value) of the members that measure a part."""


def weighted_mean(values: Sequence[tuple[float, float]]) -> float:
    """Return the mean of (weight, value)."""
    mean = sum(weight * value for weight, value in values) / sum(weight for weight, _ in values)
    # Rounding can lift the mean of equal values above them, and a score above 10 is not valid.
    return min(mean, max(value for _, value in values))


def lowest(values: Sequence[tuple[float, float]]) -> float:
    """Return the lowest value of (weight, value)."""
    return min(value for _, value in values)


class CombinedScorer:
    """Combines the parts of several scorers.

    Args:
        name: Name of the combination, part of its identity.
        members: The scorers with their weights.
        combine: Combines the values of one part.
    """

    def __init__(self, name: str, members: Sequence[tuple[float, Scorer]], combine: Combine) -> None:
        self.name, self.members, self._combine = name, tuple(members), combine

    @property
    def identity(self) -> str:
        """Name of the combination, and weights and identities of the members."""
        members = (f"{weight:g}*{scorer.identity}" for weight, scorer in self.members)
        return f"{self.name}({' + '.join(members)})"

    def parts(self, before: Picture | None, after: Picture, instruction: str) -> Parts:
        """Return the combined parts. Arguments and errors are those of `score`."""
        found = [(weight, parts_of(scorer, before, after, instruction)) for weight, scorer in self.members]

        def combined(part: str) -> float | None:
            values = [(weight, getattr(parts, part)) for weight, parts in found]
            measured = [(weight, value) for weight, value in values if value is not None]
            return self._combine(measured) if measured else None

        return Parts(combined("semantics"), combined("quality"))

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the combined score.

        Raises:
            ScorerError: A member cannot score the image.
            ChatError: The model of a member failed.
            Cancelled: The user stopped the run.
        """
        return self.parts(before, after, instruction).score

    def offload(self) -> None:
        """Free the devices of the members."""
        for _, scorer in self.members:
            free_device(scorer)


class RepeatedSamples:
    """Averages several sampled scores of one scorer, as EditScore's `num_pass` does.

    Args:
        scorer: The scorer. Its first sample is greedy.
        repeats: Number of samples.
    """

    def __init__(self, scorer: ScoresRepeatedly, repeats: int) -> None:
        self.scorer, self.repeats = scorer, repeats
        self.chat = getattr(scorer, "chat", None)

    @property
    def identity(self) -> str:
        """Number of samples and identity of the scorer."""
        return f"repeat={self.repeats}({getattr(self.scorer, 'identity', '')})"

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the mean of each part over the samples; raises as the scorer."""
        said = [self.scorer.numbers(before, after, instruction, number) for number in range(self.repeats)]
        return Score(
            semantics=fmean(min(numbers[:2]) for numbers in said),
            quality=fmean(min(numbers[2:]) for numbers in said),
        )


def _opened(argument: str) -> list[tuple[float, Scorer]]:
    return [(member.weight, open_scorer(member.spec)) for member in split_members(argument)]


def open_mean(argument: str) -> CombinedScorer:
    """Open the weighted mean of `A + B` or `3*A + B`.

    Raises:
        SettingsError: A member cannot be opened.
    """
    return CombinedScorer("mean", _opened(argument), weighted_mean)


def open_min(argument: str) -> CombinedScorer:
    """Open the minimum of `A + B`.

    Raises:
        SettingsError: A member cannot be opened, or has a weight.
    """
    members = _opened(argument)
    if any(weight != 1 for weight, _ in members):
        raise SettingsError("A minimum has no weights.", "Remove them, or use mean:.")
    return CombinedScorer("min", members, lowest)


def open_repeat(argument: str) -> RepeatedSamples:
    """Open `N:SCORER`.

    Raises:
        SettingsError: N is not a number from 2 to 32, or the scorer does not sample.
    """
    count, _, spec = argument.partition(":")
    if not count.isdigit() or not 2 <= int(count) <= MAX_REPEATS:
        raise SettingsError(
            f"{count[:20]!r} is not a number of samples from 2 to {MAX_REPEATS}.",
            "Write repeat:4:editscore:CHAT.",
        )
    scorer = open_scorer(spec)
    if not isinstance(scorer, ScoresRepeatedly):
        raise SettingsError(
            f"The scorer {spec[:100]!r} always returns the same score.", "Use it without repeat:."
        )
    return RepeatedSamples(scorer, int(count))
