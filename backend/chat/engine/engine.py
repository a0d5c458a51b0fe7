"""Decodes a Qwen3-VL without `generate`, with its own image features, prompt tensors and cache.

The language model is called directly with embeddings and position ids. This works the same way with every
version of transformers (no `mm_encoder_outputs`, no stale `rope_deltas`), avoids the overhead of `generate`,
and allows the cache to grow in place and to be cropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...machine.counters import count
from ...pictures import Picture
from .prefix_cache import common_length, drop_answer, forget_prefix, keep_prefix, take_prefix
from .qwen3_vl import device_of, image_token, merge_size
from .rope_positions import PromptTokens, prompt_tokens
from .sequence import BatchDecodingSession, DecodingSession, TextDecoder
from .settings import EngineSettings
from .vision_cache import VisionCache


class Engine:
    """Processes prompts for one base model. Its cache of image features is cleared with the weights."""

    def __init__(self, processor: Any, settings: EngineSettings) -> None:
        self._tokenizer = processor.tokenizer
        self._vision = VisionCache(processor.image_processor, settings.vision_bytes)
        self.inline_layers = settings.inline_layers
        self.prompt_lookup_tokens = settings.prompt_lookup_tokens
        self.prefix_tokens = settings.prefix_tokens

    def clear(self) -> None:
        """Empty the cache of image features."""
        self._vision.clear()

    def read(
        self, model: Any, adapter: str | None, prompt: str, pictures: Sequence[Picture]
    ) -> DecodingSession:
        """Process a prompt and return a session to decode its answer.

        Args:
            model: The library's model.
            adapter: Name of the selected adapter.
            prompt: The rendered chat template, with one image token for each image.
            pictures: The images.
        """
        tokens = self._tokens(model, adapter, prompt, pictures)
        cache, start = take_prefix(model, adapter, tokens)
        decoder = TextDecoder(model, self.inline_layers, cache)
        count(prefix_tokens_reused=start)
        logits = _read(model, decoder, [tokens], start)
        if len(tokens.ids) <= self.prefix_tokens:
            keep_prefix(model, adapter, tokens, decoder.cache)
        return DecodingSession(decoder, tokens, logits, self.prompt_lookup_tokens)

    @contextmanager
    def answering(self, model: Any) -> Iterator[None]:
        """Keep only the question that is read within this context for the next one, without its answer.

        Nothing is kept after an error, since memory may be short.
        """
        try:
            yield
        except BaseException:
            forget_prefix(model)
            raise
        drop_answer(model)

    def read_together(
        self, model: Any, adapter: str | None, prompt: str, shown: Sequence[Sequence[Picture]]
    ) -> BatchDecodingSession | None:
        """Process one prompt with several sets of images as a batch, and return a session for the answers.

        What all questions have in common at their beginning is processed once.

        Returns:
            The session. `None` if images of different shapes lead to prompts of different lengths.
        """
        rows = [self._tokens(model, adapter, prompt, pictures) for pictures in shown]
        first = rows[0]
        if any(row.ids != first.ids or not torch.equal(row.position_ids, first.position_ids) for row in rows):
            return None
        cache, kept = take_prefix(model, adapter, first)
        common = min(common_length(first, row) for row in rows) if len(first.ids) <= self.prefix_tokens else 0
        if cache is not None and kept > common:
            cache.crop_to(common)
        kept = min(kept, common)
        decoder = TextDecoder(model, self.inline_layers, cache)
        count(prefix_tokens_reused=kept + common * (len(rows) - 1))
        if kept < common:
            _read(model, decoder, [first], kept, common)
        logits = _read(model, decoder, rows, common)
        if len(first.ids) <= self.prefix_tokens:
            keep_prefix(model, adapter, first, decoder.cache)
        return BatchDecodingSession(decoder, first, logits)

    def _tokens(
        self, model: Any, adapter: str | None, prompt: str, pictures: Sequence[Picture]
    ) -> PromptTokens:
        images = [self._vision.features(model, adapter, picture) for picture in pictures]
        digests = [picture.digest for picture in pictures]
        return prompt_tokens(self._tokenizer, prompt, image_token(model), images, digests, merge_size(model))


def _read(
    model: Any, decoder: TextDecoder, rows: Sequence[PromptTokens], start: int = 0, stop: int | None = None
) -> torch.Tensor:
    """Read prompts of the same tokens, from `start` to `stop` (exclusive), into the decoder's cache.

    Returns:
        Logits `(rows, vocabulary)` after the last of these tokens.
    """
    device = device_of(model)
    ids = torch.tensor([row.ids[start:stop] for row in rows], device=device)
    position_ids = rows[0].position_ids[..., start:stop].to(device).expand(-1, len(rows), -1)
    images = [
        image.levels
        for row in rows
        for image, span in zip(row.images, row.spans, strict=True)
        if span.start >= start and (stop is None or span.start < stop)
    ]
    return decoder.read(ids, position_ids, images)
