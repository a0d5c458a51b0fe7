"""Scores of the images of runs, cached so that an interrupted call asks for none of them again.

A language model as judge varies by a point or two. The median of three calls varies far less, and their
spread shows which rows not to trust. An image whose score cannot be read has none, and is asked about again
by the next call. A judge that is unavailable, or whose answers cannot be parsed at all, stops the call.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from ...backend.core.errors import ChatError, ScorerError
from ...backend.core.pictures import Picture
from ...backend.core.types import Attempt, Score, Trajectory
from ...backend.models.scorers import Scorer
from ..content_cache import ContentCache, key_of

GIVE_UP = 5
"""Consecutive images at which a judge may fail."""
UNREADABLE = 20
"""Images that may fail before the first score; a judge with other answers would fail at all images."""
MATCH_SIZE = "match size"
"""Part of the identity of a scorer that is shown images at the size of their source."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], parallel: int) -> Iterator[Result]:
    """Yield the results in the order of the items, `parallel` calls at a time; raises as the function."""
    if parallel <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(parallel) as pool:
        try:
            yield from pool.map(function, items)
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True)
class RepeatedScorer(Scorer):
    """Calls a judge `times` times and uses the median; a deterministic scorer is called once.

    With `match_size` the new image is first scaled to the size of the one before, as in the published scorer.
    """

    scorer: Scorer
    times: int = 1
    match_size: bool = False

    @property
    def identity(self) -> str:
        """Identity of the scorer with the number of repeats and the scaling."""
        several = self.times > 1 and self._has_numbers
        rules = [f"repeats={self.times}"] * several + [MATCH_SIZE] * self.match_size
        return "|".join([self.scorer.identity, *rules])

    @property
    def _has_numbers(self) -> bool:
        return getattr(self.scorer, "repeats", False)

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        """Return the median score; raises as the scorer."""
        return self.score_in_full(before, after, instruction)[0]

    def score_in_full(
        self, before: Picture | None, after: Picture, instruction: str
    ) -> tuple[Score, dict[str, Any] | None]:
        """Return the median score, and the numbers and their spread (largest minus smallest overall score).

        The second is None for a scorer without numbers. Raises as the scorer.
        """
        if self.match_size and before is not None:
            after = after.scaled_to(before.size)
        if not self._has_numbers:
            return self.scorer.score(before, after, instruction), None
        said = [self.scorer.numbers(before, after, instruction, n) for n in range(self.times)]
        scores = [Score(semantics=min(one[:2]), quality=min(one[2:])) for one in said]
        overall = [one.overall for one in scores]
        score = Score(
            semantics=median(one.semantics for one in scores), quality=median(one.quality for one in scores)
        )
        spread = round(max(overall) - min(overall), 4)
        return score, {"numbers": [list(one) for one in said], "spread": spread}


def score_in_run(trajectory: Trajectory, attempt: Attempt, scorer: str | None) -> Score | None:
    """Return the score that a run already has for an attempt.

    Scores of the run's own scorer (`run --scorer`) are not mixed with those of another one.

    Args:
        trajectory: The run.
        attempt: The attempt.
        scorer: Identity of the scorer that scores the other images; None: none does.
    """
    own = trajectory.identities.scorer
    # The run's scorer is shown every image at the size of its source.
    return attempt.score if not own or scorer in (None, f"{own}|{MATCH_SIZE}") else None


class CachedScores:
    """Scores of a scorer, from this call and earlier ones; can be called from several threads.

    Attributes:
        scored: Number of new scores.
        failed: Number of images without a score.
        first_failure: Reason of the first one.
    """

    def __init__(self, scorer: Scorer, cache: ContentCache | None, use: str) -> None:
        self.scorer, self._cache, self._use = scorer, cache, use
        self.scored, self.failed, self.first_failure = 0, 0, ""
        self._in_a_row, self._answered, self._lock = 0, False, threading.Lock()

    def of(
        self, before: Picture | None, after: Picture, instruction: str
    ) -> tuple[Score | None, dict[str, Any] | None]:
        """Return (score of an image or None, numbers behind it if there are any).

        Raises:
            ChatError: The judge failed GIVE_UP times in a row, which is an outage.
            ScorerError: None of the first UNREADABLE images got a score.
            PictureError: The image cannot be read.
        """
        source = before.digest if before else None
        key = key_of(self._use, self.scorer.identity, source, after.digest, instruction)
        if self._cache and (score := self._cache.score(key)):
            self._answered = True
            numbers = self._cache.text(key)
            return score, json.loads(numbers) if numbers else None
        try:
            if isinstance(self.scorer, RepeatedScorer):
                score, found = self.scorer.score_in_full(before, after, instruction)
            else:
                score, found = self.scorer.score(before, after, instruction), None
        except (ScorerError, ChatError) as error:
            self._note_failure(error)
            return None, None
        with self._lock:
            self.scored, self._in_a_row, self._answered = self.scored + 1, 0, True
        if self._cache:
            self._cache.keep_score(key, score)
            if found:
                self._cache.keep_text(key, json.dumps(found))
        return score, found

    def _note_failure(self, error: ScorerError | ChatError) -> None:
        """Count a failed image; raises the error if further images would fail, too."""
        is_down = isinstance(error, ChatError)
        with self._lock:
            self.failed, self._in_a_row = self.failed + 1, self._in_a_row + is_down
            self.first_failure = self.first_failure or f"{error.message} {error.hint}".strip()
            no_form = not is_down and not self._answered and self.failed >= UNREADABLE
            if self._in_a_row >= GIVE_UP or no_form:
                raise error
