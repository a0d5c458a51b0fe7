"""What a run has cost, counted where it happens: forward passes, tokens, patches, encodings, sampling steps.

Decision: clocks suffer from whatever else runs on a machine, counts do not, so that a saving can be tested.
Nobody counts unless somebody asked (`with counting() as counts`); then every count costs one addition. The
account is the process's and not the thread's, because drawing and judging may happen in threads of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass
class Counts:
    """Work done, and beside it the same kind of work that was not needed because its result was kept."""

    lm_forwards: int = 0
    """Forward passes of a language model in this process."""
    lm_tokens: int = 0
    """Tokens that went through them."""
    prefix_tokens_reused: int = 0
    """Tokens of prompts that were in the cache already, since the question before began alike."""
    images_seen: int = 0
    """Images that went through a vision tower."""
    vision_patches: int = 0
    """Patches of these images."""
    images_kept: int = 0
    """Images whose features were kept."""
    drafts_read: int = 0
    """Tokens that were drafted (prompt lookup) and read before they were chosen."""
    drafts_used: int = 0
    """Of these, those that were then chosen, which needed no pass of their own."""
    tokens_held: int = 0
    """Tokens chosen among those that a grammar let through."""
    agents_loaded: int = 0
    """Times that an agent's weights were brought from main memory, or the disk, to its device."""
    agents_offloaded: int = 0
    """Times that they left it."""
    stops_at_true: int = 0
    """Replies that ended at a True verdict."""
    draws: int = 0
    """Images asked of a generator by the loop."""
    draws_kept: int = 0
    """Images that were there already: equal prompt, source and seed."""
    draws_ahead: int = 0
    """Draws that were begun while the critic read the image before."""
    draws_ahead_used: int = 0
    """Of these, those that were wanted: the time of a judgement, or of a draw, is gained."""
    draws_ahead_wasted: int = 0
    """And those that were thrown away, because the critic refused or the run ended."""
    judgements: int = 0
    """Verdicts asked of a critic by the loop."""
    judgements_kept: int = 0
    """Verdicts that were there already."""
    text_encodes: int = 0
    """Prompts that went through an image model's text encoder."""
    text_kept: int = 0
    """Prompts whose encoding was kept."""
    image_encodes: int = 0
    """Images that went through an image model's encoder (VAE)."""
    latents_kept: int = 0
    """Images whose latents were kept."""
    sampler_steps: int = 0
    """Denoising steps."""

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


_accounts: list[Counts] = []
_lock = threading.Lock()


def count(**amounts: int) -> None:
    """Add to whoever counts; the names are fields of `Counts`."""
    if not _accounts:
        return
    with _lock:
        for account in _accounts:
            for name, amount in amounts.items():
                setattr(account, name, getattr(account, name) + amount)


@contextmanager
def counting() -> Iterator[Counts]:
    """Count what this process does inside the block; blocks may be nested."""
    account = Counts()
    _accounts.append(account)
    try:
        yield account
    finally:
        # By identity: two accounts that counted the same are equal.
        _accounts[:] = [one for one in _accounts if one is not account]


@contextmanager
def not_counting() -> Iterator[None]:
    """Keep the work inside the block out of every account: checks of our own, which are no part of a run."""
    kept, _accounts[:] = list(_accounts), []
    try:
        yield
    finally:
        _accounts[:] = kept + _accounts
