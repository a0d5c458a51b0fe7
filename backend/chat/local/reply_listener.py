"""Listens while a local model decodes: streaming, cancelling, P(success), stopping at a final verdict.

These are two callables for the two hooks of `generate`: one before a token is chosen (raw logits) and one
after it (the token). They are plain objects, so that this module does not import heavy libraries. The
engine's decoding (decoding.py) calls the same two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

from ...machine.counters import count
from ..protocol import Reply, ReplySettings
from ..verdict_watch import AnswerWatch, VerdictWatch, YesNoWatch, probability_of_true

# A character takes at most 4 bytes, so at most 4 byte-level tokens.
MAX_PENDING = 4


class RawLogits:
    """A logits processor that stores the raw logits of the next token and applies the temperature."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self.last: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores `(1, vocabulary)`, divided by the temperature unless it is 0."""
        self.last = scores
        return scores / self._temperature if self._temperature > 0 else scores


class ReplyListener:
    """A stopping criterion that assembles the reply of a batch of one, token by token."""

    def __init__(
        self,
        tokenizer: Any,
        end_tokens: Collection[int],
        watched_tokens: tuple[Sequence[int], Sequence[int]],
        settings: ReplySettings,
        thinking: bool,
        on_token: Callable[[str], None] | None,
        held: bool = False,
    ) -> None:
        """Start a reply.

        `watched_tokens` are those of the two words whose probability is measured. `held`: the reply is
        constrained to the grammar of verdicts, so that it may stop at true.
        """
        self.logits = RawLogits(settings.temperature)
        self._tokenizer = tokenizer
        self._end_tokens = end_tokens
        self._true_tokens, self._false_tokens = (list(side) for side in watched_tokens)
        self._on_token = on_token
        self._thinking = thinking
        self._watch: AnswerWatch | None = VerdictWatch(thinking, held) if settings.watch_verdict else None
        if settings.watch_yes_no:
            self._watch = YesNoWatch()
        self._pending: list[int] = []
        self._before: list[int] = []
        self._pieces: list[str] = []
        self._tokens = 0
        self._finish: Literal["end", "length", "verdict"] = "length"

    def __call__(self, input_ids: Any, scores: Any, **options: Any) -> Any:
        """Return a tensor `(1,)` that is true once the reply is complete."""
        import torch

        return torch.full((1,), self.take(int(input_ids[0, -1])), dtype=torch.bool, device=input_ids.device)

    def reply(self) -> Reply:
        """Return the reply so far."""
        self._flush()
        return Reply(
            text="".join(self._pieces),
            tokens=self._tokens,
            probability=self._watch.probability() if self._watch else None,
            finish=self._finish,
            thinking=self._thinking,
        )

    def take(self, token: int) -> bool:
        """Add the next token, and return whether the reply is complete."""
        self._tokens += 1
        if token in self._end_tokens:
            self._finish = "end"
            self._flush()
            return True
        self._pending.append(token)
        piece = self._text_of_pending()
        if piece.endswith("\ufffd") and len(self._pending) < MAX_PENDING:
            return False
        self._done()
        return self._add(piece, token)

    def _add(self, piece: str, token: int | None = None) -> bool:
        """Add a piece of text, and return whether it settles the answer that is watched."""
        watch = self._watch
        if (
            watch is not None
            and watch.add(piece)
            and (token in self._true_tokens or token in self._false_tokens)
        ):
            logits = self.logits.last[0].float()
            watch.measured(
                probability_of_true(logits[self._true_tokens].tolist(), logits[self._false_tokens].tolist())
            )
        is_settled = watch is not None and watch.settled
        if watch is not None and is_settled:
            self._finish = "verdict"
            piece = piece[: len(piece) - watch.stop()]
            count(stops_at_true=1)
        self._pieces.append(piece)
        if self._on_token is not None:
            self._on_token(piece)
        return is_settled

    def _flush(self) -> None:
        if self._pending:
            piece = self._text_of_pending()
            self._done()
            self._add(piece)

    def _done(self) -> None:
        self._before = self._pending[-1:]
        self._pending = []

    def _text_of_pending(self) -> str:
        # Some tokenizers drop the space before the first token of a text, so the token before is decoded too.
        before = self._text_of(self._before)
        whole = self._text_of([*self._before, *self._pending])
        return whole[len(before) :] if whole.startswith(before) else self._text_of(self._pending)

    def _text_of(self, tokens: Sequence[int]) -> str:
        # Tags are special tokens in some vocabularies and are part of the answer.
        return self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
