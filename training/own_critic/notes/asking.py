"""Asks a critic about cases, with and without notes: a bounded number of questions, each of them once.

Verdicts are stored in a file as they come. So a run that was stopped asks only what is missing. A stored
verdict counts as a question too: the same settings then always choose the same notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from types import TracebackType

from ....backend.agents.critic import Critic
from ....backend.prompts.critic_notes import CriticNote, CriticNotes
from ...content_cache import ContentCache, key_of
from .cases import Case

SAID = {"True": True, "False": False, "None": None}


class NotedCritic:
    """A critic that is asked at most `most` questions, up to `parallel` at the same time."""

    def __init__(
        self, critic: Critic, most: int, parallel: int = 1, cache: ContentCache | None = None
    ) -> None:
        self.critic, self.most, self.parallel, self._cache = critic, most, parallel, cache
        self.questions = 0
        """Questions so far, with those whose answers were stored."""
        self._pool = ThreadPoolExecutor(parallel, thread_name_prefix="critic") if parallel > 1 else None

    def __enter__(self) -> NotedCritic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    @property
    def left(self) -> int:
        """Number of questions that may still be asked."""
        return self.most - self.questions

    def with_notes(self, notes: Sequence[CriticNote]) -> Critic:
        """Return the critic with these notes, without any for an empty sequence."""
        critic = copy(self.critic)
        critic.notes = CriticNotes(notes=tuple(notes)) if notes else None
        return critic

    def verdicts(self, critic: Critic, cases: Sequence[Case]) -> list[bool | None]:
        """Return the verdict of one of the critics of `with_notes` on each case.

        Raises:
            ChatError: The critic failed. Verdicts that it gave are stored.
        """
        self.questions += len(cases)
        identity = critic.identity
        if self._pool is None:
            return [self._verdict(critic, identity, case) for case in cases]
        return list(self._pool.map(lambda case: self._verdict(critic, identity, case), cases))

    def _verdict(self, critic: Critic, identity: str, case: Case) -> bool | None:
        key = key_of("notes", identity, case.key)
        stored = self._cache.text(key) if self._cache else None
        if stored in SAID:
            return SAID[stored]
        said = critic.judge(case.before, case.after, case.goal, case.used).success
        if self._cache:
            self._cache.keep_text(key, str(said))
        return said
