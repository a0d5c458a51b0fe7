"""A scorer's scores in a run: cached, with failures as values.

A scorer is asked only when the choice of a step's image depends on it: if several attempts were accepted, or
none of several. So a step that is accepted at once costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.errors import ChatError, PictureError, ScorerError
from ...core.seams.scorer import Scorer
from ...core.types import Attempt, Fault
from ..journal.store import JudgeKey, JudgementRecord, RunStore, score_key
from .judgements import spending

TOGETHER = "together:"
"""Begins the names of scorers of release 0.3.0 that compared images: their scores depend on the others."""


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

        Returns:
            For each attempt the record of its score, and whether it came from the cache. A failure is the
            `error` of the record.

        Raises:
            Cancelled: The run was cancelled.
        """
        found: dict[JudgeKey, tuple[JudgementRecord, bool]] = {}
        keys = [self._key(original, one, attempts) for one in attempts]
        for key, attempt in zip(keys, attempts, strict=True):
            if key not in found:
                known = self._store.judged(key)
                found[key] = (known or self._scored(key, original, attempt), known is not None)
        return [found[key] for key in keys]

    def _scored(self, key: JudgeKey, original: str, attempt: Attempt) -> JudgementRecord:
        assert attempt.image is not None, "only images are scored"
        score = error = None
        before = attempt.source
        # The published scorer does this too: a judge takes another size for a change.
        after = attempt.image.scaled_to(before.size) if before else attempt.image
        with spending() as spent:
            try:
                score = self._scorer.score(before, after, original)
            except (ScorerError, ChatError, PictureError) as failure:
                if failure.lasting:
                    raise
                error = Fault(where="scorer", message=str(failure))
            record = JudgementRecord(key=key, score=score, error=error, **dict(spent()))
        self._store.keep_judged(record)
        return record

    def _key(self, original: str, attempt: Attempt, attempts: Sequence[Attempt]) -> JudgeKey:
        compared = attempts if self._scorer.identity.startswith(TOGETHER) else ()
        shown = [one.image.digest for one in compared if one.image and one.source == attempt.source]
        return score_key(self._scorer.identity, original, attempt, shown)
