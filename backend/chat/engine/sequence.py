"""Answers that are being decoded: the language layers of a model, called token by token.

An answer takes the chosen token and returns the logits of the next one, whichever way the token was chosen.
How many tokens are processed in one pass (drafts, several answers) is decided here and not visible outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from ...machine.counters import count
from .kv_cache import GrowingCache
from .prompt_lookup import PromptLookup
from .qwen3_vl import Features, has_known_layers, hidden_states, hidden_states_inline
from .rope_positions import PromptTokens


class TextDecoder:
    """The language layers of a model with their own cache, which is empty at first.

    `inline`: use the inlined layers of qwen3_vl.py, if the model has them.
    """

    def __init__(self, model: Any, inline: bool, cache: GrowingCache | None = None) -> None:
        """`cache`: one that the beginning of the prompt is in already."""
        self.cache = cache or GrowingCache(model.config.get_text_config().num_hidden_layers)
        self._model = model
        self._text = hidden_states_inline if inline and has_known_layers(model) else hidden_states

    def read(self, ids: torch.Tensor, position_ids: torch.Tensor, images: Sequence[Features]) -> torch.Tensor:
        """Process prompts and return the logits after their last token.

        Args:
            ids: Token ids `(batch, tokens)`.
            position_ids: Position ids `(4, batch, tokens)`.
            images: Features of the images, in their order.

        Returns:
            Logits `(batch, vocabulary)` in 32 bits.
        """
        count(lm_forwards=1, lm_tokens=ids.numel())
        hidden = hidden_states(self._model, ids, position_ids, self.cache, images)
        return self._model.lm_head(hidden[:, -1:])[:, -1].float()

    def logits(self, ids: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Process tokens of the answers and return the logits after each of them.

        Args:
            ids: Token ids `(batch, tokens)`.
            position_ids: Position ids `(4, batch, tokens)`.

        Returns:
            Logits `(batch, tokens, vocabulary)` in 32 bits.
        """
        count(lm_forwards=1, lm_tokens=ids.numel())
        return self._model.lm_head(self._text(self._model, ids, position_ids, self.cache)).float()


class DecodingSession:
    """An answer that is being decoded.

    `ids` `(1, length)` are the prompt and the answer so far, `logits` `(1, vocabulary)` in 32 bits those of
    the next token. Accepted tokens of a draft do not need a pass of their own.
    """

    def __init__(self, decoder: TextDecoder, prompt: PromptTokens, logits: torch.Tensor, lookup: int) -> None:
        """Start an answer. `lookup` is the maximum number of tokens in a draft."""
        self.logits = logits
        self._decoder = decoder
        self._ids = torch.tensor([prompt.ids], device=logits.device)
        self._length = len(prompt.ids)
        self._position = prompt.next_position
        self._lookup = PromptLookup(prompt.ids, lookup) if lookup else None
        self._ahead: deque[tuple[int, torch.Tensor]] = deque()
        """Tokens of the draft that were processed, each with the logits after it."""

    @property
    def ids(self) -> torch.Tensor:
        """Token ids `(1, length)` of the prompt and the answer so far."""
        return self._ids[:, : self._length]

    def add(self, token: int, draft: Sequence[int] | None = None) -> None:
        """Append a token and update `logits`.

        Args:
            token: The token.
            draft: Tokens that may follow, instead of those from prompt lookup.
        """
        if self._length == self._ids.shape[1]:
            self._ids = torch.cat([self._ids, self._ids.new_zeros(1, self._length)], dim=1)
        self._ids[0, self._length] = token
        if self._lookup is not None:
            self._lookup.add(token)
        if self._ahead and self._ahead[0][0] == token:
            count(drafts_used=1)
            self.logits = self._ahead.popleft()[1]
        else:
            if self._ahead:
                self._decoder.cache.crop_to(self._length)
                self._ahead.clear()
            if draft is None:
                draft = self._lookup.draft() if self._lookup is not None else ()
            self._read(token, draft)
        self._length += 1
        self._position += 1

    def _read(self, token: int, draft: Sequence[int]) -> None:
        """Process the token and its draft in one pass."""
        device, tokens = self.logits.device, 1 + len(draft)
        position_ids = torch.arange(tokens, device=device).expand(4, 1, tokens) + self._position
        position_ids[0] += self._length - self._position
        count(drafts_read=len(draft))
        logits = self._decoder.logits(torch.tensor([[token, *draft]], device=device), position_ids)[0]
        self.logits = logits[:1]
        self._ahead.extend((after, logits[at : at + 1]) for at, after in enumerate(draft, start=1))


class BatchDecodingSession:
    """Several answers that are being decoded, to prompts of equal length; each grows by one token per pass.

    `ids` `(answers, length)` are the tokens so far, `logits` `(answers, vocabulary)` in 32 bits those of the
    next token of each answer.
    """

    def __init__(self, decoder: TextDecoder, prompt: PromptTokens, logits: torch.Tensor) -> None:
        self.logits = logits
        self.ids = torch.tensor([prompt.ids], device=logits.device).expand(len(logits), -1)
        self._decoder = decoder
        self._position = prompt.next_position

    def add(self, tokens: Sequence[int]) -> None:
        """Append a token to each answer. For an answer that has ended, any token may be given."""
        ids = torch.tensor(tokens, device=self.logits.device).unsqueeze(1)
        position_ids = torch.full((4, len(tokens), 1), self._position, device=ids.device)
        position_ids[0] = self.ids.shape[1]
        self.logits = self._decoder.logits(ids, position_ids)[:, -1]
        self.ids = torch.cat([self.ids, ids], dim=1)
        self._position += 1
