"""Constrains a local model's answer to a grammar while it decodes, by the library llguidance, so that no
reply is unreadable.

Decision: a logits processor that leaves only the tokens with which the grammar can go on; P(True) is read
before it. A grammar alone does not end a reply, so the last tokens that a reply may have are for closing: the
reasoning is ended, quotes and brackets are closed as soon as the grammar lets them be.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from typing import Any

from ...answers.grammar import GrammarName, answer_grammar
from ...answers.reply_text import open_quote
from ...counters import count
from ...errors import ChatError

logger = logging.getLogger(__name__)

CLOSING = 320
"""Tokens reserved for closing: a plan's shortest end, one character to a token, has less than 300."""
CLOSE_REASONING = "</think>"
CLOSERS = b"]},:nN\"'<"
"""Bytes that lead out of a list or an object, in the order in which they are taken."""


class GrammarTokens:
    """A tokenizer's tokens as the grammar library needs them: made once for a model, since that takes a
    second."""

    def __init__(self, tokenizer: Any, ends: Sequence[int], width: int) -> None:
        """`width`: length of the model's logits, which may be more than the tokenizer has tokens."""
        from llguidance import LLTokenizer, TokenizerWrapper

        self.bytes = token_bytes(tokenizer, width)
        self.single = {token[0]: number for number, token in enumerate(self.bytes) if len(token) == 1}
        self.close_reasoning = tokenizer.encode(CLOSE_REASONING, add_special_tokens=False)
        special = [number for number, token in enumerate(self.bytes) if not token]
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Tokens(self.bytes, special, ends[0], tokenizer)), eos_token=list(ends)
        )

    def processor(self, name: GrammarName, thinking: bool, max_tokens: int) -> GrammarProcessor:
        """The processor of one reply. `thinking`: the prompt has opened `<think>`."""
        return GrammarProcessor(self, name, thinking, max_tokens)


class _Tokens:
    """A tokenizer as TokenizerWrapper expects one."""

    def __init__(self, tokens: list[bytes], special: list[int], end: int, tokenizer: Any) -> None:
        self.eos_token_id = end
        self.bos_token_id = None
        self.tokens = [token or f"<|special {number}|>".encode() for number, token in enumerate(tokens)]
        self.special_token_ids = special
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


class GrammarProcessor:
    """A logits processor for one reply, a batch of one."""

    def __init__(self, tokens: GrammarTokens, name: GrammarName, thinking: bool, max_tokens: int) -> None:
        from llguidance import LLMatcher

        self._tokens = tokens
        self._matcher = LLMatcher(tokens.tokenizer, answer_grammar(name, thinking), log_level=0)
        self._close_at = max_tokens - min(CLOSING, max_tokens // 2)
        self._text = b"<think>" if thinking else b""
        self._read: int | None = None
        self._length = 0
        self._forced: list[int] = []
        self._check()

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores `(1, vocabulary)` with minus infinity wherever the grammar cannot go on. Raises
        ChatError."""
        length = input_ids.shape[1]
        if self._read is not None:
            for token in input_ids[0, self._read :].tolist():
                self._matcher.consume_token(token)
                self._text += self._tokens.bytes[token]
                self._length += 1
        self._read = length
        self._check()
        count(tokens_held=1)
        allowed = self._allowed(scores)
        if self._length >= self._close_at:
            chosen = self._closing(allowed)
            if chosen is not None:
                allowed = allowed.new_zeros(allowed.shape)
                allowed[chosen] = True
        return scores.masked_fill(~allowed.to(scores.device), float("-inf"))

    def _allowed(self, scores: Any) -> Any:
        import numpy
        import torch

        bits = numpy.frombuffer(self._matcher.compute_bitmask(), dtype=numpy.uint8)
        flags = numpy.unpackbits(bits, bitorder="little")[: scores.shape[-1]]
        self._check()
        return torch.from_numpy(flags).bool()

    def _closing(self, allowed: Any) -> int | None:
        """The allowed token that leads towards the end; None where the grammar itself does."""
        if not self._forced and self._text.rfind(b"<think>") > self._text.rfind(b"</think>"):
            self._forced = list(self._tokens.close_reasoning)
        if self._forced:
            # Not in the middle of a character.
            return self._forced.pop(0) if allowed[self._forced[0]] else None
        answer = self._text[self._text.rfind(b"<answer>") + 8 :].decode(errors="replace").lstrip()
        quote = open_quote(answer).encode() if answer.startswith("{") else b""
        for byte in quote or CLOSERS:
            number = self._tokens.single.get(byte)
            if number is not None and allowed[number]:
                return number
        return None

    def _check(self) -> None:
        if self._matcher.is_error():
            problem = self._matcher.get_error().splitlines()[0][:200]
            raise ChatError(
                f"The reply cannot be constrained to its grammar ({problem}).",
                "Set constrained_decoding to never, or use another agent.",
            )


def grammar_is_installed() -> bool:
    """Whether answers can be constrained to a grammar here; if not, a warning says so once."""
    if importlib.util.find_spec("llguidance") is not None:
        return True
    global _warned
    if not _warned:
        _warned = True
        logger.warning(
            "Answers are not constrained to their grammar: the library llguidance is not installed "
            "(pip install llguidance). They are decoded freely."
        )
    return False


_warned = False


def token_bytes(tokenizer: Any, width: int) -> list[bytes]:
    """The bytes of every token of a byte-level vocabulary, empty for control tokens and numbers without a
    token.

    Raises ChatError for a vocabulary of another kind.
    """
    alphabet = _byte_alphabet()
    added = tokenizer.added_tokens_decoder
    found = [b""] * width
    for text, number in tokenizer.get_vocab().items():
        if number >= width:
            continue
        known = added.get(number)
        if known is not None:
            # Tags are tokens of their own in some vocabularies, and belong to the answer all the same.
            control = known.special and str(known).startswith("<|")
            found[number] = b"" if control else str(known).encode()
        elif all(character in alphabet for character in text):
            found[number] = bytes(alphabet[character] for character in text)
        else:
            raise ChatError(
                "This vocabulary is not made of bytes: its answers cannot be constrained to a grammar."
            )
    return found


def _byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for (as GPT-2 numbered them: printable
    Latin-1 stands for itself, the other 68 bytes for the characters from 256 on)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
