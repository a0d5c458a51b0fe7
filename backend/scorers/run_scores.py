"""A scorer's scores in a run: cached, with failures as values.

A scorer is asked only when the choice of a step's image depends on it: if several attempts were accepted, or
none of several. So a step that is accepted at once costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from ..errors import ChatError, PictureError, ScorerError
from ..journal.records.calls import JudgeKey, JudgementRecord, score_key
from ..journal.store import RunStore
from ..types import Attempt, Fault, Score
from .protocol import Scorer, ScoresTogether, score_all

TOGETHER = "together:"
"""Begins the names of scorers that compare images, whose scores depend on the other images."""


def name_of(scorer: Scorer) -> str:
    """Return the name of a scorer in the records of a run."""
    together = isinstance(scorer, ScoresTogether) and not scorer.identity.startswith(TOGETHER)
    return f"{TOGETHER}{scorer.identity}" if together else scorer.identity


class CachedScores:
    """Scores attempts of one step.

    Args:
        store: The run's store.
        scorer: The scorer.
    """

    def __init__(self, store: RunStore, scorer: Scorer) -> None:
        self._store, self._scorer = store, scorer

    def score(self, original: str, attempts: Sequence[Attempt]) -> list[tuple[JudgementRecord, bool]]:
        """Score attempts with images against the step's original prompt.

        A scorer that compares images is given those with the same source together.

        Returns:
            For each attempt the record of its score, and whether it came from the cache. A failure is the
            `error` of the record.

        Raises:
            Cancelled: The run was cancelled.
        """
        together = isinstance(self._scorer, ScoresTogether)
        keys = [self._key(original, one, attempts if together else ()) for one in attempts]
        known = {key: found for key in keys if (found := self._store.judged(key)) is not None}
        shown = dict(zip(keys, attempts, strict=True))
        made: dict[JudgeKey, JudgementRecord] = {}
        for group in _by_source(shown) if together else [[key] for key in shown]:
            # Images that are compared are scored again together if one score is missing: a run can be killed
            # while their scores are being stored.
            if all(key in known for key in group):
                continue
            began, error = time.monotonic(), None
            scores: Sequence[Score | None] = [None] * len(group)
            try:
                scores = self._scores(original, [shown[key] for key in group])
            except (ScorerError, ChatError, PictureError) as failure:
                error = Fault(where="scorer", message=str(failure))
            seconds = (time.monotonic() - began) / len(group)
            for key, score in zip(group, scores, strict=True):
                made[key] = JudgementRecord(key=key, score=score, error=error, seconds=seconds)
                self._store.keep_judged(made[key])
        return [(made[key], False) if key in made else (known[key], True) for key in keys]

    def _scores(self, original: str, attempts: Sequence[Attempt]) -> Sequence[Score]:
        before = attempts[0].source
        images = [one.image for one in attempts if one.image is not None]
        # The published scorer does this too: a judge takes another size for a change.
        afters = [image.scaled_to(before.size) if before else image for image in images]
        return score_all(self._scorer, before, afters, original)

    def _key(self, original: str, attempt: Attempt, compared: Sequence[Attempt]) -> JudgeKey:
        assert attempt.image is not None, "only images are scored"
        others = [one.image.digest for one in compared if one.image and one.source == attempt.source]
        return score_key(
            name_of(self._scorer),
            attempt.source.digest if attempt.source else None,
            attempt.image.digest,
            original,
            others,
        )


def _by_source(keys: Iterable[JudgeKey]) -> list[list[JudgeKey]]:
    groups: dict[str | None, list[JudgeKey]] = {}
    for key in keys:
        groups.setdefault(key.before, []).append(key)
    return list(groups.values())
