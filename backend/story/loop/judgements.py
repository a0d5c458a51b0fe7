"""The critic's judgements in a run: cached, with failures as values.

A run whose critic returns no verdicts is stopped. An attempt without a verdict is followed by one with the
same prompt, which is wasted. If a critic returns no verdict twice in a row, it cannot judge. The run then
stops with an error that explains what to do:

- Verdicts that cannot be parsed (each of them is two replies): usually the critic is a planner's checkpoint,
  which answers every question with a plan.
- Failed judgements: the server cannot be reached, refuses the request or is out of memory. They are not
  recorded, so the next run judges the same images.

Recorded verdicts count too, but only a new one stops the run: records can always be replayed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...core.errors import AnswerError, ChatError
from ...core.machine.counters import count, counting
from ...core.seams.adoption import returned
from ...core.types import Attempt, Fault, Spent, Verdict
from ...core.types.checklist import ChecklistItem
from ...core.types.roles import CriticLike
from ..journal.store import JudgeKey, JudgementRecord, RunStore, checked_key
from .policy import is_read, with_items

IN_A_ROW = 2
LEAST_JUDGED = 6
"""Minimum number of verdicts before forced ones can stop a run. With fewer, a majority may be chance."""
MAX_NAME = 120


@contextmanager
def spending() -> Iterator[Callable[[], Spent]]:
    """Measure what agents need inside the block, without the loading of their weights."""
    began = time.monotonic()
    with counting() as counts:

        def spent() -> Spent:
            seconds = max(0.0, time.monotonic() - began - counts.loading_seconds)
            cached = min(counts.cached_tokens, counts.prompt_tokens)
            read, written = counts.prompt_tokens - cached, counts.reply_tokens
            return Spent(seconds=seconds, read=read, cached=cached, written=written)

        yield spent


class CachedJudgements:
    """A critic's judgements, with a cache of its verdicts."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def judge(
        self,
        critic: CriticLike,
        original: str,
        attempts: Sequence[Attempt],
    ) -> list[tuple[JudgementRecord, bool]]:
        """Judge the images of one attempt's candidates against the step's original prompt.

        A failure of the critic is returned as the `error` of the record.

        Args:
            critic: The critic.
            original: The step's prompt from the plan.
            attempts: The candidates. Each has an image, and all have the same source image and prompt.

        Returns:
            For each attempt the record of its judgement, and whether it came from the cache.

        Raises:
            Cancelled: The run was cancelled.
        """
        keys = [JudgeKey.of(critic.identity, original, attempt) for attempt in attempts]
        known = {key: found for key in keys if (found := self._store.judged(key)) is not None}
        count(judgements_kept=sum(key in known for key in keys))
        new = {key: attempt for key, attempt in zip(keys, attempts, strict=True) if key not in known}
        count(judgements=len(new))
        made: dict[JudgeKey, JudgementRecord] = {}
        together = critic.judges_together
        for some in [list(new)] if together and new else [[key] for key in new]:
            verdicts: Sequence[Verdict | None] = [None] * len(some)
            error = None
            with spending() as spent:
                try:
                    verdicts = _verdicts(critic, original, [new[key] for key in some])
                except ChatError as failure:
                    if failure.lasting:
                        raise
                    error = Fault(where="critic", message=str(failure))
                share = dict(spent().shared(len(some)))
            for key, verdict in zip(some, verdicts, strict=True):
                made[key] = JudgementRecord(key=key, verdict=verdict, error=error, **share)
                self._store.keep_judged(made[key])
        return [(known[key], True) if key in known else (made[key], False) for key in keys]

    def check(
        self,
        critic: CriticLike,
        items: Sequence[ChecklistItem],
        original: str,
        attempts: Sequence[Attempt],
        judged: Sequence[tuple[JudgementRecord, bool]],
    ) -> list[tuple[JudgementRecord, bool]]:
        """Complete verdicts with the answers to the items of the step's checklist.

        They have records of their own, so a run that was judged before only needs the answers.

        Args:
            critic: The critic.
            items: The items.
            original: The step's prompt from the plan.
            attempts: The judged attempts.
            judged: What `judge` returned for them. Without a verdict that could be parsed nothing is checked.

        Raises:
            Cancelled: The run was cancelled.
        """
        return [
            self._checked(critic, items, original, attempt, one) if is_read(one[0].verdict) else one
            for attempt, one in zip(attempts, judged, strict=True)
        ]

    def _checked(
        self,
        critic: CriticLike,
        items: Sequence[ChecklistItem],
        original: str,
        attempt: Attempt,
        judged: tuple[JudgementRecord, bool],
    ) -> tuple[JudgementRecord, bool]:
        plain, _ = judged
        key = checked_key(plain.key, items)
        known = self._store.judged(key)
        if known is not None:
            return known, True
        assert attempt.image is not None and plain.verdict is not None, (
            "only verdicts on images are completed"
        )
        verdict = error = None
        with spending() as spent:
            try:
                answers = critic.check(attempt.source, attempt.image, original, items)
                verdict = with_items(plain.verdict, answers, attempt.prompt)
            except ChatError as failure:
                if failure.lasting:
                    raise
                error = Fault(where="critic", message=str(failure))
            record = JudgementRecord(key=key, verdict=verdict, error=error, **dict(spent() + plain))
        self._store.keep_judged(record)
        return record, False


class MissingVerdicts:
    """Counts a run's missing verdicts in a row, and its forced ones; `critic` is the critic's identity."""

    def __init__(self, critic: str) -> None:
        # The rest of the identity is the prompt set and the sampling settings, which do not help the user.
        self._name = critic.partition("|")[0][:MAX_NAME]
        self._unreadable = self._failed = 0
        self._read = self._forced = 0
        self._last: Fault | None = None

    def hear(self, judged: JudgementRecord, reused: bool) -> None:
        """Count a judgement.

        Raises:
            AnswerError: The second verdict in a row could not be parsed, or most verdicts were forced, and it
                is a new one.
            ChatError: The second judgement in a row failed, and it is a new one. Images that were judged
                together have one judgement.
        """
        if judged.verdict is None:
            self._hear_failure(judged.error, reused)
            return
        self._failed = 0
        self._unreadable = 0 if is_read(judged.verdict) else self._unreadable + 1
        if self._unreadable >= IN_A_ROW and not reused:
            raise AnswerError(
                f"Two verdicts in a row could not be parsed. Critic: {self._name}. "
                f"{judged.verdict.reasoning}",
                hint="Use a critic's checkpoint or a plain Qwen3-VL as the critic (node input 'critic', "
                "--critic). A planner's checkpoint can only plan (input 'agent' of the Planner, --planner). "
                "All images are saved: run again to continue.",
            )
        self._hear_forced(judged.verdict, reused)

    def _hear_forced(self, verdict: Verdict, reused: bool) -> None:
        self._read += is_read(verdict)
        self._forced += verdict.forced
        is_most = self._read >= LEAST_JUDGED and 2 * self._forced > self._read
        if is_most and verdict.forced and not reused:
            raise AnswerError(
                f"The critic's replies are not readable: {self._forced} of {self._read} had no verdict until "
                f"they were constrained to its form. Such verdicts are not reliable. Critic: {self._name}.",
                hint="Check the critic's checkpoint, adapter, quantization and chat template (`doctor`, "
                "`judge`), or allow longer replies (max_tokens). All images are saved: run again "
                "with another critic to judge them.",
            )

    def _hear_failure(self, error: Fault | None, reused: bool) -> None:
        self._failed += error is None or error is not self._last
        self._last = error
        if self._failed >= IN_A_ROW and not reused:
            reason = error.message if error else "It returned no verdict."
            raise ChatError(
                f"Two judgments in a row failed. Critic: {self._name}. {reason}",
                "All images are saved. Correct the cause and run again: images without a verdict are judged, "
                "and not generated again.",
            )


def _verdicts(critic: CriticLike, original: str, attempts: Sequence[Attempt]) -> Sequence[Verdict]:
    first = attempts[0]
    afters = [attempt.image for attempt in attempts if attempt.image is not None]
    if len(afters) == 1:
        verdicts: Sequence[object] = [critic.judge(first.source, afters[0], original, first.prompt)]
    else:
        verdicts = critic.judge_together(first.source, afters, original, first.prompt)
    return [
        returned(one, Verdict, "critic", "Return Verdict(success=True) from `judge`.") for one in verdicts
    ]
