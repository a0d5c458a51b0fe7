"""Answers in the making: a model's language layers, called token by token.

Decision: an answer takes the token that was chosen and gives the logits of the next, whoever chose it and
however; how many tokens go through the layers at once (drafts, several answers) is decided here and seen by
nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from ...counters import count
from .kv_cache import GrowingCache
from .prompt_lookup import PromptLookup
from .qwen3_vl import Features, has_known_layers, hidden_states, hidden_states_inline
from .rope_positions import PromptTokens


class TextDecoder:
    """A model's language layers with a cache of their own, empty at first. `inline`: without the library's
    calls around them, where they are known."""

    def __init__(self, model: Any, inline: bool, cache: GrowingCache | None = None) -> None:
        """`cache`: one that the beginning of the prompt is in already."""
        self.cache = cache or GrowingCache(model.config.get_text_config().num_hidden_layers)
        self._model = model
        self._text = hidden_states_inline if inline and has_known_layers(model) else hidden_states

    def read(self, ids: torch.Tensor, position_ids: torch.Tensor, images: Sequence[Features]) -> torch.Tensor:
        """Logits `(batch, vocabulary)`, 32 bits, after the last token of prompts `(batch, tokens)`."""
        count(lm_forwards=1, lm_tokens=ids.numel())
        hidden = hidden_states(self._model, ids, position_ids, self.cache, images)
        return self._model.lm_head(hidden[:, -1:])[:, -1].float()

    def logits(self, ids: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Logits `(batch, tokens, vocabulary)`, 32 bits, after each token `(batch, tokens)` of the
        answers."""
        count(lm_forwards=1, lm_tokens=ids.numel())
        return self._model.lm_head(self._text(self._model, ids, position_ids, self.cache)).float()


class DecodingSession:
    """An answer in the making. `ids` `(1, length)`: prompt and answer so far. `logits` `(1, vocabulary)`, 32
    bits: of the next token. Drafted tokens that are then chosen need no pass of their own."""

    def __init__(self, decoder: TextDecoder, prompt: PromptTokens, logits: torch.Tensor, lookup: int) -> None:
        """`lookup`: tokens of a draft at most."""
        self.logits = logits
        self._decoder = decoder
        self._ids = torch.tensor([prompt.ids], device=logits.device)
        self._length = len(prompt.ids)
        self._position = prompt.next_position
        self._lookup = PromptLookup(prompt.ids, lookup) if lookup else None
        self._ahead: deque[tuple[int, torch.Tensor]] = deque()
        """Drafted tokens that were read, each with the logits after it."""

    @property
    def ids(self) -> torch.Tensor:
        return self._ids[:, : self._length]

    def add(self, token: int, draft: Sequence[int] | None = None) -> None:
        """Go on with this token: `logits` are then those of the one after it. `draft`: what may follow,
        instead of what is looked up."""
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
        """A pass for the token and what may follow it."""
        device, tokens = self.logits.device, 1 + len(draft)
        position_ids = torch.arange(tokens, device=device).expand(4, 1, tokens) + self._position
        position_ids[0] += self._length - self._position
        count(drafts_read=len(draft))
        logits = self._decoder.logits(torch.tensor([[token, *draft]], device=device), position_ids)[0]
        self.logits = logits[:1]
        self._ahead.extend((after, logits[at : at + 1]) for at, after in enumerate(draft, start=1))


class BatchDecodingSession:
    """Several answers in the making, to prompts of the same length: each grows by one token in every pass.
    `ids` `(answers, length)`; `logits` `(answers, vocabulary)`, 32 bits: of the next token of each."""

    def __init__(self, decoder: TextDecoder, prompt: PromptTokens, logits: torch.Tensor) -> None:
        self.logits = logits
        self.ids = torch.tensor([prompt.ids], device=logits.device).expand(len(logits), -1)
        self._decoder = decoder
        self._position = prompt.next_position

    def add(self, tokens: Sequence[int]) -> None:
        """Go on with a token for each answer; one that has ended goes on with any."""
        ids = torch.tensor(tokens, device=self.logits.device).unsqueeze(1)
        position_ids = torch.full((4, len(tokens), 1), self._position, device=ids.device)
        position_ids[0] = self.ids.shape[1]
        self.logits = self._decoder.logits(ids, position_ids)[:, -1]
        self.ids = torch.cat([self.ids, ids], dim=1)
        self._position += 1
