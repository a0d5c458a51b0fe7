"""Keeps the key/value cache of a model's last question; only the different part of the next one is processed.

Every question of a critic begins with the same instructions, and the attempts of a step share the image
before it and the goal. Questions of a batch share even more, which is read once for all of them. One question
is kept for each model, on the model's device, and it is freed when the weights leave.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .kv_cache import GrowingCache
    from .rope_positions import PromptTokens


class CachedQuestion(NamedTuple):
    """A processed question and the cache that begins with its tokens."""

    adapter: str | None
    tokens: PromptTokens
    cache: GrowingCache


_questions: weakref.WeakKeyDictionary[Any, CachedQuestion] = weakref.WeakKeyDictionary()


def take_prefix(model: Any, adapter: str | None, tokens: PromptTokens) -> tuple[GrowingCache | None, int]:
    """Return the cache of the last question, cropped to what this one has in common with it.

    The question is removed from here, so a cache is used by one answer at a time.

    Returns:
        The cache and the number of tokens in it. None and 0 if nothing is in common.
    """
    from .qwen3_vl import device_of

    found = _questions.pop(model, None)
    if found is None or found.adapter != adapter or found.cache.device != device_of(model):
        return None, 0
    length = common_length(found.tokens, tokens)
    if not length:
        return None, 0
    found.cache.crop_to(length)
    return found.cache, length


def keep_prefix(model: Any, adapter: str | None, tokens: PromptTokens, cache: GrowingCache) -> None:
    """Keep the cache of a question that was just processed. Its answer may still be appended."""
    _questions[model] = CachedQuestion(adapter, tokens, cache)


def drop_answer(model: Any) -> None:
    """Free the keys and values of the answers, so that only those of the question stay on the device.

    Of a batch, the first question stays.
    """
    found = _questions.get(model)
    if found is not None:
        found.cache.crop_to(len(found.tokens.ids), free=True)


def forget_prefix(model: Any) -> None:
    """Free the cache of a model whose weights leave the device."""
    _questions.pop(model, None)


def common_length(first: PromptTokens, second: PromptTokens) -> int:
    """Return how many tokens two questions have in common at their beginning.

    Image tokens are equal only if the image is, the number never ends inside an image, and it is smaller than
    the second question, whose last token is always read for its logits.
    """
    most = min(len(first.ids), len(second.ids) - 1)
    length = next((at for at in range(most) if first.ids[at] != second.ids[at]), most)
    for one, other in zip(first.spans, second.spans, strict=False):
        if one.start >= length:
            break
        if one != other:
            return min(length, one.start, other.start)
        if one.stop > length:
            return one.start
    return length
