"""Decodes the logits of answers to tokens: one answer, or several as a batch.

The order is that of `generate`: the listener gets the raw logits, then processors change the scores, then a
token is chosen and the listener gets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ..protocol import ReplySettings
from .reply_listener import ReplyListener

if TYPE_CHECKING:
    from torch import Generator

    from ..engine.sequence import BatchDecodingSession, DecodingSession

Processor = Callable[[Any, Any], Any]
_global_rng = threading.Lock()


def sampling_processors(settings: ReplySettings) -> list[Processor]:
    """Return the processors that apply `top_k` and then `top_p`; none at temperature 0."""
    if settings.temperature == 0:
        return []
    from transformers import TopKLogitsWarper, TopPLogitsWarper

    processors: list[Processor] = []
    if settings.top_k > 0:
        processors.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1.0:
        processors.append(TopPLogitsWarper(settings.top_p))
    return processors


@dataclass
class Sampler:
    """Chooses the tokens of one reply.

    `seed` is the seed of the reply's own random numbers. With `None` the most likely token is chosen.
    """

    listener: ReplyListener
    processors: Sequence[Processor]
    seed: int | None
    _generator: Generator | None = field(default=None, init=False)

    def choose(self, ids: Any, logits: Any) -> int:
        """Return the next token after ids `(1, length)`, from logits `(1, vocabulary)`."""
        import torch

        scores = self.listener.logits(ids, logits)
        for process in self.processors:
            scores = process(ids, scores)
        if self.seed is None:
            return int(scores.argmax(dim=-1))
        if self._generator is None:
            self._generator = torch.Generator(scores.device).manual_seed(self.seed)
        return int(torch.multinomial(scores.softmax(dim=-1), num_samples=1, generator=self._generator))


@contextmanager
def seeded_globally(model: Any, seed: int | None) -> Iterator[None]:
    """Seed the process's random numbers within this context and restore them; `None` changes nothing.

    For `generate`, which does not accept a generator. Only one model at a time can use the process's.
    """
    import torch

    if seed is None:
        yield
        return
    device = next(model.parameters()).device
    with _global_rng, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def decode(session: DecodingSession, sampler: Sampler, room: int) -> None:
    """Extend the answer until the listener stops it, or it has `room` tokens."""
    for number in range(room):
        token = sampler.choose(session.ids, session.logits)
        if sampler.listener.take(token) or number == room - 1:
            return
        session.add(token)


def decode_together(batch: BatchDecodingSession, samplers: Sequence[Sampler], room: int) -> None:
    """Extend every answer to its own end.

    A finished answer is fed its last token, and its listener is not called.
    """
    tokens, going = [0] * len(samplers), set(range(len(samplers)))
    for number in range(room):
        for index in sorted(going):
            row = slice(index, index + 1)
            tokens[index] = samplers[index].choose(batch.ids[row], batch.logits[row])
            if samplers[index].listener.take(tokens[index]):
                going.remove(index)
        if not going or number == room - 1:
            return
        batch.add(tokens)


def decode_by_library(
    model: Any, inputs: dict[str, Any], sampler: Sampler, room: int, ends: Sequence[int]
) -> None:
    """Extend the answer with the library's `generate`.

    Args:
        model: The library's model.
        inputs: Tensors of the prompt, with `input_ids` `(1, length)`.
        sampler: Chooses the tokens.
        room: Token limit of the answer.
        ends: Tokens that end the answer.
    """
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    sampling = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    config = GenerationConfig(
        max_new_tokens=room,
        eos_token_id=list(ends),
        pad_token_id=ends[0],
        use_cache=True,
        **({"do_sample": False} if sampler.seed is None else sampling),
    )
    with seeded_globally(model, sampler.seed):
        model.generate(
            **inputs,
            generation_config=config,
            logits_processor=LogitsProcessorList(cast(Any, [sampler.listener.logits, *sampler.processors])),
            stopping_criteria=StoppingCriteriaList(cast(Any, [sampler.listener])),
        )
