"""Answers in the making: a model's language layers, called with embeddings and places, token by token.

Decision: an answer is given the token that was chosen and gives the logits of the next, whoever chose it and
however; how many tokens go through the layers at once (guesses, several answers) is decided here and seen by
nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from ...counters import count
from .decoder import can_be_written_out, next_hidden
from .kv_cache import GrowingCache
from .prompt_lookup import PromptLookup
from .rope_positions import PromptTokens
from .static_cache import StaticDecoding


class Layers:
    """A model's language layers with a cache of their own."""

    def __init__(self, model: Any, written_out: bool) -> None:
        self.cache = GrowingCache(model.config.get_text_config().num_hidden_layers)
        self._model = model
        self._written_out = written_out and can_be_written_out(model.model.language_model)

    def logits(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Logits `(batch, tokens, vocabulary)`, 32 bits, after each of a few tokens `(batch, tokens)` at
        their places `(4, batch, tokens)`, which the cache then holds."""
        embedded = self._model.get_input_embeddings()(ids)
        if not self._written_out:
            return self._model.lm_head(self.hidden(embedded, places)).float()
        tokens, kept, mask = ids.shape[1], self.cache.get_seq_length(), None
        if tokens > 1:
            mask = torch.ones((1, 1, tokens, kept + tokens), dtype=torch.bool, device=ids.device).tril(kept)
        count(lm_forwards=1, lm_tokens=ids.numel())
        hidden = next_hidden(self._model.model.language_model, embedded, places, self.cache.keep, mask)
        return self._model.lm_head(hidden).float()

    def hidden(self, embedded: torch.Tensor, places: torch.Tensor, **deepstack: Any) -> torch.Tensor:
        """Last hidden states `(batch, tokens, width)` of any embedded tokens, as the library has it."""
        count(lm_forwards=1, lm_tokens=embedded.shape[0] * embedded.shape[1])
        return self._model.model.language_model(
            input_ids=None,
            inputs_embeds=embedded,
            position_ids=places,
            past_key_values=self.cache,
            use_cache=True,
            **deepstack,
        ).last_hidden_state


class Answer:
    """An answer in the making. `ids` `(1, length)`: prompt and answer so far. `logits` `(1, vocabulary)`, 32
    bits: of the next token. Tokens that were guessed and then said need no pass of their own."""

    def __init__(
        self,
        layers: Layers,
        tokens: PromptTokens,
        logits: torch.Tensor,
        draft_tokens: int = 0,
        static: StaticDecoding | None = None,
    ) -> None:
        self.logits = logits
        self._layers, self._static = layers, static
        self._ids = torch.tensor([tokens.ids], device=logits.device)
        self._length = len(tokens.ids)
        self._place = tokens.next_place
        self._drafts = PromptLookup(tokens.ids, draft_tokens) if draft_tokens and static is None else None
        self._ahead: deque[tuple[int, torch.Tensor]] = deque()
        """Tokens that were guessed and read, each with the logits after it."""

    @property
    def ids(self) -> torch.Tensor:
        return self._ids[:, : self._length]

    def add(self, token: int, guess: Sequence[int] | None = None) -> None:
        """Go on with this token: `logits` are then those of the one after it. `guess`: what may follow,
        instead of what is looked up."""
        if self._length == self._ids.shape[1]:
            self._ids = torch.cat([self._ids, self._ids.new_zeros(1, self._length)], dim=1)
        self._ids[0, self._length] = token
        if self._drafts is not None:
            self._drafts.add(token)
        if self._ahead and self._ahead[0][0] == token:
            count(drafts_used=1)
            self.logits = self._ahead.popleft()[1]
        else:
            if self._ahead:
                self._layers.cache.cut(self._length)
                self._ahead.clear()
            if guess is None:
                guess = self._drafts.guess() if self._drafts is not None else ()
            self._read(token, guess)
        self._length += 1
        self._place += 1

    def _read(self, token: int, guess: Sequence[int]) -> None:
        """A pass for the token and what may follow it."""
        device, tokens = self.logits.device, 1 + len(guess)
        ids = torch.tensor([[token, *guess]], device=device)
        places = torch.arange(tokens, device=device).expand(4, 1, tokens) + self._place
        places[0] += self._length - self._place
        if self._static is not None and self._length >= self._static.size:
            self._static.hand_back(self._layers.cache, self._length)
            self._static = None
        if self._static is not None:
            self.logits = self._static.logits(ids, places, self._length)
            return
        count(drafts_read=len(guess))
        logits = self._layers.logits(ids, places)[0]
        self.logits = logits[:1]
        self._ahead.extend((after, logits[at : at + 1]) for at, after in enumerate(guess, start=1))


class Answers:
    """Several answers in the making, to prompts of the same length: each grows by one token in every pass.
    `ids` `(answers, length)`; `logits` `(answers, vocabulary)`, 32 bits: of the next token of each."""

    def __init__(self, layers: Layers, tokens: PromptTokens, logits: torch.Tensor) -> None:
        self.logits = logits
        self.ids = torch.tensor([tokens.ids], device=logits.device).expand(len(logits), -1)
        self._layers = layers
        self._place = tokens.next_place

    def add(self, tokens: Sequence[int]) -> None:
        """Go on with a token for each answer; one that has ended goes on with any."""
        ids = torch.tensor(tokens, device=self.logits.device).unsqueeze(1)
        places = torch.full((4, len(tokens), 1), self._place, device=ids.device)
        places[0] = self.ids.shape[1]
        self.logits = self._layers.logits(ids, places)[:, -1]
        self.ids = torch.cat([self.ids, ids], dim=1)
        self._place += 1
