"""A Qwen3-VL decoded by a loop of our own: image features, prompt heads and the cache are put together here.

Decision: the language model is called directly, with embeddings and places made here, instead of through `generate`. That is
one way for every version of transformers (no `mm_encoder_outputs`, no stale `rope_deltas`, no cropping), it saves the
bookkeeping of `generate`, and it lets the cache grow in place. A prompt with a head is always read in two pieces, whether
the head's keys and values are kept or not: pieces of other sizes round differently, and the same question must get the
same answer whatever was asked before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import torch

from ..counters import count
from ..kept import Kept, tensor_bytes
from ..pictures import Picture
from .drafts import Drafts
from .growing_cache import GrowingCache, Head
from .levers import Levers
from .prompt_tokens import PromptTokens, prompt_tokens
from .static_decoding import StaticDecoding, bucket_for
from .vision import Vision
from .written_out import can_be_written_out, next_hidden


class OwnDecoding:
    """Reads prompts for one base model; what it keeps is its own, so that it goes with the weights."""

    def __init__(self, processor: Any, levers: Levers) -> None:
        self._tokenizer = processor.tokenizer
        self._vision = Vision(processor.image_processor, levers.vision_bytes)
        self._heads: Kept[tuple[Any, ...], Head] = Kept(levers.prefix_bytes, tensor_bytes)
        self.prefix = levers.prefix_bytes > 0
        self.written_out = levers.written_out
        self.draft_tokens = levers.draft_tokens
        self.static = levers.static_cache
        self.compiler: Any = "inductor"
        self._buckets: dict[tuple[int, str | None], StaticDecoding] = {}

    def forget(self) -> None:
        """Forget all images, heads and buffers."""
        self._vision.kept.clear()
        self._heads.clear()
        self.free()

    def free(self) -> None:
        """Forget what lies where the weights lie."""
        self._buckets.clear()

    def read(
        self, model: Any, adapter: str | None, prompt: str, pictures: Sequence[Picture], room: int = 1
    ) -> Answer:
        """The answer to a prompt (the chat template's text, one image token for each picture), not a token of it yet.
        `room`: tokens that it may have."""
        images = [self._vision.features(model, adapter, picture) for picture in pictures]
        config = model.config
        tokens = prompt_tokens(
            self._tokenizer, prompt, config.image_token_id, images, config.vision_config.spatial_merge_size
        )
        cache = GrowingCache(config.get_text_config().num_hidden_layers)
        start = 0
        if self.prefix and tokens.head:
            self._read_head(model, tokens, cache, (adapter, pictures[0].digest))
            start = tokens.head
        logits = _pass(model, tokens, cache, start, len(tokens.ids))
        static = self._static(model, adapter, len(tokens.ids) + room)
        if static is not None:
            static.begin_with(cache)
        return Answer(model, cache, tokens, logits, self.written_out, self.draft_tokens, static)

    def _static(self, model: Any, adapter: str | None, length: int) -> StaticDecoding | None:
        """The bucket for so many tokens, made at its first use."""
        size = None if self.static == "off" else bucket_for(length)
        if size is None:
            return None
        found = self._buckets.get((size, adapter))
        if found is None or found.device != model.lm_head.weight.device:
            compiler = self.compiler if self.static == "compiled" else None
            found = self._buckets[size, adapter] = StaticDecoding(model, size, compiler)
        return found

    def _read_head(
        self, model: Any, tokens: PromptTokens, cache: GrowingCache, made_of: tuple[Any, ...]
    ) -> None:
        device = model.lm_head.weight.device
        key = (*made_of, str(device), tokens.ids[: tokens.head])
        kept = self._heads.get(key)
        if kept is not None:
            count(prefix_tokens_kept=tokens.head)
            cache.begin_with(kept, device)
            return
        _pass(model, tokens, cache, 0, tokens.head)
        self._heads.put(key, cache.head())


class Answer:
    """An answer in the making. `ids` `(1, length)`: prompt and answer so far. `logits` `(1, vocabulary)`, 32 bits: of the next
    token. Tokens that were guessed and then said need no pass of their own."""

    def __init__(
        self,
        model: Any,
        cache: GrowingCache,
        tokens: PromptTokens,
        logits: torch.Tensor,
        written_out: bool,
        draft_tokens: int = 0,
        static: StaticDecoding | None = None,
    ) -> None:
        self._static = static
        self.logits = logits
        self._written_out = written_out and can_be_written_out(model.model.language_model)
        self._model = model
        self._cache = cache
        self._ids = torch.tensor([tokens.ids], device=logits.device)
        self._length = len(tokens.ids)
        self._place = tokens.next_place
        self._drafts = Drafts(tokens.ids, draft_tokens) if draft_tokens and static is None else None
        self._ahead: deque[tuple[int, torch.Tensor]] = deque()
        """Tokens that were guessed and read, each with the logits after it."""

    @property
    def ids(self) -> torch.Tensor:
        return self._ids[:, : self._length]

    def add(self, token: int, guess: Sequence[int] | None = None) -> None:
        """Go on with this token: `logits` are then those of the one after it. `guess`: what may follow, instead of what is
        looked up."""
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
                self._cache.cut(self._length)
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
        if self._static is not None:
            self.logits = self._static.logits(ids, places, self._length)
            return
        count(drafts_read=len(guess))
        logits = self._grown(self._model.get_input_embeddings()(ids), places)
        self.logits = logits[:1]
        self._ahead.extend((after, logits[at : at + 1]) for at, after in enumerate(guess, start=1))

    def _grown(self, embedded: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Logits `(tokens, vocabulary)` after each of these tokens, with keys and values that grow."""
        if self._written_out:
            tokens, mask = embedded.shape[1], None
            count(lm_forwards=1, lm_tokens=tokens)
            if tokens > 1:
                shape = (1, 1, tokens, self._length + tokens)
                mask = torch.ones(shape, dtype=torch.bool, device=embedded.device).tril(self._length)
            hidden = next_hidden(self._model.model.language_model, embedded, places, self._cache.keep, mask)
        else:
            hidden = _run(self._model, embedded, places, self._cache)
        return self._model.lm_head(hidden)[0].float()


def _pass(model: Any, tokens: PromptTokens, cache: GrowingCache, start: int, end: int) -> torch.Tensor:
    """Read the prompt's tokens from start to end into the cache; logits `(1, vocabulary)` after the last one."""
    device = model.lm_head.weight.device
    ids = torch.tensor([tokens.ids[start:end]], device=device)
    embedded = model.get_input_embeddings()(ids)
    seen = ids == model.config.image_token_id
    images = _images_between(tokens, start, end, model.config.image_token_id)
    deepstack: dict[str, Any] = {}
    if images:
        pooled, *levels = (torch.cat(level).to(embedded.dtype) for level in zip(*images, strict=True))
        embedded = embedded.masked_scatter(seen.unsqueeze(-1), pooled)
        deepstack = {"visual_pos_masks": seen, "deepstack_visual_embeds": levels}
    hidden = _run(model, embedded, tokens.places[:, :, start:end].to(device), cache, **deepstack)
    return model.lm_head(hidden[:, -1:, :])[:, -1, :].float()


def _images_between(tokens: PromptTokens, start: int, end: int, image_token: int) -> list[tuple[Any, ...]]:
    """Features of the images whose tokens lie between two cuts, which never go through an image."""
    found, at = [], 0
    for image in tokens.images:
        at = tokens.ids.index(image_token, at)
        if start <= at < end:
            found.append(image.levels)
        at += image.tokens
    return found


def _run(
    model: Any, embedded: torch.Tensor, places: torch.Tensor, cache: GrowingCache, **deepstack: Any
) -> torch.Tensor:
    count(lm_forwards=1, lm_tokens=embedded.shape[1])
    return model.model.language_model(
        input_ids=None,
        inputs_embeds=embedded,
        position_ids=places,
        past_key_values=cache,
        use_cache=True,
        **deepstack,
    ).last_hidden_state
