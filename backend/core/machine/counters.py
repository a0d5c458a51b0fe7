"""Counters of the work in a run: forward passes, tokens, image patches, encodings, sampling steps.

Timings depend on what else runs on a machine. Counts do not, so tests can check that work is saved. Nothing
is counted outside `with counting() as counts`; inside, each count costs one addition. The counters belong to
the process and not to a thread, because generating and judging can run in their own threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_lock = threading.Lock()


@dataclass
class Counts:
    """Work that was done, and work that a cached result saved."""

    lm_forwards: int = 0
    """Forward passes of a language model in this process that gave a token of each reply."""
    prompt_tokens: int = 0
    """Tokens of the prompts of agents, as servers count them, with those in a cache."""
    cached_tokens: int = 0
    """Those of them that were in a cache, since a question before began alike."""
    reply_tokens: int = 0
    """Tokens of replies that agents wrote."""
    tokens_held: int = 0
    """Tokens sampled under the constraint of a grammar."""
    agents_loaded: int = 0
    """Times that an agent's weights were moved from RAM or disk to its device."""
    agents_offloaded: int = 0
    """Times that an agent's weights were moved off its device."""
    loading_seconds: float = 0.0
    """Wall-clock seconds in which models were loaded from their files."""
    draws: int = 0
    """Images that the loop requested from a generator."""
    draws_kept: int = 0
    """Images that were cached: same prompt, source image and seed."""
    judgements: int = 0
    """Verdicts that the loop requested from a critic."""
    judgements_kept: int = 0
    """Verdicts that were cached."""


_accounts: list[Counts] = []


def count(**amounts: float) -> None:
    """Add to all active counters.

    Args:
        **amounts: Amounts by the field names of `Counts`.
    """
    if not _accounts:
        return
    with _lock:
        for account in _accounts:
            for name, amount in amounts.items():
                setattr(account, name, getattr(account, name) + amount)


@contextmanager
def counting() -> Iterator[Counts]:
    """Count the work of this process inside the block. Blocks can be nested."""
    account = Counts()
    _accounts.append(account)
    try:
        yield account
    finally:
        # Compare by identity: two counters with the same counts are equal.
        _accounts[:] = [one for one in _accounts if one is not account]
