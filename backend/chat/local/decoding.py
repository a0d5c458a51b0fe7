"""From the logits of an answer to its tokens: one answer, or several in the same passes.

Decision: the same order for both, as in `generate`: the listener sees the raw logits, then processors change
the scores, then a token is chosen and the listener takes it in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol import ReplySettings
from .reply_listener import ReplyListener

if TYPE_CHECKING:
    from ..engine.sequence import Answer, Answers

Processor = Callable[[Any, Any], Any]
_sampling = threading.Lock()


@dataclass
class Sampler:
    """Chooses the tokens of one reply: the likeliest, or drawn ones."""

    listener: ReplyListener
    processors: Sequence[Processor]
    draws: bool

    def choose(self, ids: Any, logits: Any) -> int:
        """The next token after ids `(1, length)` from logits `(1, vocabulary)`."""
        import torch

        scores = self.listener.logits(ids, logits)
        for process in self.processors:
            scores = process(ids, scores)
        if self.draws:
            return int(torch.multinomial(scores.softmax(dim=-1), num_samples=1))
        return int(scores.argmax(dim=-1))


@contextmanager
def seeded(model: Any, settings: ReplySettings) -> Iterator[None]:
    """Random numbers from the settings' seed inside the block, where any are needed; the process's own are
    left alone. The source of them is the process's, so one model draws from it at a time."""
    import torch

    device = next(model.parameters()).device
    forked = [device] if device.type == "cuda" else []
    draws = settings.temperature > 0
    with _sampling if draws else nullcontext(), torch.random.fork_rng(devices=forked, enabled=draws):
        if draws:
            torch.manual_seed(settings.seed)
        yield


def decode(answer: Answer, sampler: Sampler, room: int) -> None:
    """Grow the answer until the listener wants no more, or it has `room` tokens."""
    for number in range(room):
        token = sampler.choose(answer.ids, answer.logits)
        if sampler.listener.take(token) or number == room - 1:
            return
        answer.add(token)


def decode_together(answers: Answers, samplers: Sequence[Sampler], room: int) -> None:
    """Every answer to its own end; one that has ended is fed its last token and not listened to."""
    tokens, going = [0] * len(samplers), set(range(len(samplers)))
    for number in range(room):
        for index in sorted(going):
            row = slice(index, index + 1)
            tokens[index] = samplers[index].choose(answers.ids[row], answers.logits[row])
            if samplers[index].listener.take(tokens[index]):
                going.remove(index)
        if not going or number == room - 1:
            return
        answers.add(tokens)
