"""A Qwen3-VL decoded by a loop of our own: image features, prompt heads and the cache are put together here.

Decision: the language model is called directly, with embeddings and places made here, instead of through
`generate`. That is one way for every version of transformers (no `mm_encoder_outputs`, no stale
`rope_deltas`, no cropping), it saves the bookkeeping of `generate`, and it lets the cache grow in place. A
prompt with a head is always read in two pieces, whether the head's keys and values are kept or not: pieces of
other sizes round differently, and the same question must get the same answer whatever was asked before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...byte_lru import ByteLRU, tensor_bytes
from ...counters import count
from ...pictures import Picture
from .kv_cache import Head
from .rope_positions import PromptTokens, prompt_tokens
from .sequence import Answer, Answers, Layers
from .settings import EngineSettings
from .static_cache import StaticDecoding, bucket_for
from .vision_cache import Vision

MOST_STATIC = 2048
"""Tokens of an answer that buffers of a fixed size are made for: every step reads a buffer whole, and few
answers are longer. A longer one goes on without."""


class Engine:
    """Reads prompts for one base model; what it keeps is its own, so that it goes with the weights."""

    def __init__(self, processor: Any, levers: EngineSettings) -> None:
        self._tokenizer = processor.tokenizer
        self._vision = Vision(processor.image_processor, levers.vision_bytes)
        self._heads: ByteLRU[tuple[Any, ...], Head] = ByteLRU(levers.prefix_bytes, tensor_bytes)
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
        """The answer to a prompt (the chat template's text, one image token for each picture), not a token of
        it yet. `room`: tokens that it may have."""
        tokens = self._tokens(model, adapter, prompt, pictures)
        layers = Layers(model, self.written_out)
        logits = self._begin(model, adapter, [tokens], [pictures], layers)
        static = self._static(model, adapter, len(tokens.ids) + min(room, MOST_STATIC))
        if static is not None:
            static.begin_with(layers.cache)
        return Answer(layers, tokens, logits, self.draft_tokens, static)

    def read_together(
        self, model: Any, adapter: str | None, prompt: str, shown: Sequence[Sequence[Picture]]
    ) -> Answers | None:
        """The answers to one prompt about several rows of pictures, in the same passes; None where pictures
        of other shapes make prompts of other lengths."""
        rows = [self._tokens(model, adapter, prompt, pictures) for pictures in shown]
        if any(row.ids != rows[0].ids or not torch.equal(row.places, rows[0].places) for row in rows):
            return None
        layers = Layers(model, self.written_out)
        return Answers(layers, rows[0], self._begin(model, adapter, rows, shown, layers))

    def _tokens(
        self, model: Any, adapter: str | None, prompt: str, pictures: Sequence[Picture]
    ) -> PromptTokens:
        images = [self._vision.features(model, adapter, picture) for picture in pictures]
        config = model.config
        return prompt_tokens(
            self._tokenizer, prompt, config.image_token_id, images, config.vision_config.spatial_merge_size
        )

    def _begin(
        self,
        model: Any,
        adapter: str | None,
        rows: Sequence[PromptTokens],
        shown: Sequence[Sequence[Picture]],
        layers: Layers,
    ) -> torch.Tensor:
        """Read prompts of the same tokens into the layers' empty cache; logits `(rows, vocabulary)` of the
        first token of each answer."""
        start = 0
        firsts = {pictures[0].digest for pictures in shown if pictures}
        if self.prefix and rows[0].head and len(firsts) == 1:
            self._read_head(model, rows[0], layers, (adapter, *firsts), len(rows))
            start = rows[0].head
        return _pass(model, rows, layers, start, len(rows[0].ids))

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
        self, model: Any, tokens: PromptTokens, layers: Layers, made_of: tuple[Any, ...], batch: int
    ) -> None:
        device = model.lm_head.weight.device
        key = (*made_of, str(device), tokens.ids[: tokens.head])
        kept = self._heads.get(key)
        if kept is not None:
            count(prefix_tokens_kept=tokens.head * batch)
            layers.cache.begin_with(kept, device, batch)
            return
        alone = layers if batch == 1 else Layers(model, self.written_out)
        _pass(model, [tokens], alone, 0, tokens.head)
        head = alone.cache.head()
        self._heads.put(key, head)
        if batch > 1:
            count(prefix_tokens_kept=tokens.head * (batch - 1))
            layers.cache.begin_with(head, device, batch)


def _pass(model: Any, rows: Sequence[PromptTokens], layers: Layers, start: int, end: int) -> torch.Tensor:
    """Read the prompts' tokens from start to end into the layers' cache; logits `(rows, vocabulary)` after
    the last ones."""
    device, image_token = model.lm_head.weight.device, model.config.image_token_id
    ids = torch.tensor([row.ids[start:end] for row in rows], device=device)
    embedded = model.get_input_embeddings()(ids)
    seen = ids == image_token
    images = [image for row in rows for image in _images_between(row, start, end, image_token)]
    deepstack: dict[str, Any] = {}
    if images:
        pooled, *levels = (torch.cat(level).to(embedded.dtype) for level in zip(*images, strict=True))
        embedded = embedded.masked_scatter(seen.unsqueeze(-1), pooled)
        deepstack = {"visual_pos_masks": seen, "deepstack_visual_embeds": levels}
    places = rows[0].places[:, :, start:end].to(device).expand(-1, len(rows), -1)
    hidden = layers.hidden(embedded, places, **deepstack)
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
