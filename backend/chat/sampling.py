"""Which tokens may be drawn above temperature 0: the likeliest so many, or those that together are likely
enough.

Decision: written here once, for the engine and for `generate`, so that both draw from the same tokens.
"""

from __future__ import annotations

from typing import Any

from .protocol import ReplySettings


class Narrowed:
    """A logits processor: minus infinity for all tokens but those that `top_k` and then `top_p` leave, always
    one at least."""

    def __init__(self, settings: ReplySettings) -> None:
        drawn = settings.temperature > 0
        self._top_k = settings.top_k if drawn else 0
        self._top_p = settings.top_p if drawn else 1.0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores `(rows, vocabulary)`, temperature applied, of the same shape."""
        import torch

        if 0 < self._top_k < scores.shape[-1]:
            least = torch.topk(scores, self._top_k).values[..., -1:]
            scores = scores.masked_fill(scores < least, float("-inf"))
        if self._top_p < 1.0:
            ordered, order = scores.sort(dim=-1, descending=True)
            shares = ordered.softmax(dim=-1)
            # A token stays if those before it have not reached the sum yet.
            beyond = shares.cumsum(dim=-1) - shares >= self._top_p
            scores = scores.masked_fill(beyond.gather(-1, order.argsort(dim=-1)), float("-inf"))
        return scores
