"""Forms of the agents' answers for servers: a GBNF grammar for llama.cpp, a JSON schema for all others.

The grammar leaves the reasoning free and then allows exactly the form that agents are asked for. A schema
allows only JSON, so its first property is the reasoning. Both exclude what small models write instead of an
answer, as far as they can: the grammar numbers the steps in order, and its texts contain no tags, braces or
rows of dots. reading.py can parse everything they allow, except for copies of an example.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from ...core.answers.grammar import KINDS, GrammarName, answer_grammar
from ...core.answers.objects import REASONING, open_quote
from ...core.errors import ChatError
from ...core.machine.counters import count
from ...core.types import MAX_STEPS

TEXT = {"type": "string"}
NULL = {"type": "null"}
TEXT_OR_NULL = {"type": ["string", "null"]}
# "words" have five characters or more, which excludes "None" and "null", and do not start with dots.
RULES = r"""
reasoning ::= "<think>" thought
thought ::= [^<]* "</think>"
gap ::= [ \n]{0,4}
answer ::= "<answer>" w body w "</answer>"
w ::= [ \n]{0,16}
char ::= [^"\\<{}\x00-\x1f] | "\\" ["\\/n]
text ::= "\"" char* "\""
words ::= "\"" [^"\\<{}.…\x00-\x20] char char char char+ "\""
"""
logger = logging.getLogger(__name__)
CLOSING = 320
"""Tokens reserved for closing: the shortest end of a plan, one character per token, has fewer than 300."""
CLOSE_REASONING = "</think>"
CLOSERS = b"]},:nN\"'<"
"""Bytes that lead out of a list or an object, in the order of preference."""
_warned = False


@cache
def answer_gbnf(name: GrammarName, thinking: bool = False) -> str:
    """Return the GBNF grammar of a whole reply.

    Args:
        name: Kind of the answer. A verdict may also come before its reasoning.
        thinking: Whether the prompt already contains the opening `<think>`.
    """
    root = "thought gap answer" if thinking else "(reasoning gap)? answer"
    if name == "verdict" and not thinking:
        root += " | answer gap reasoning"
    bodies = {
        "plan": _plan,
        "part": lambda: _plan(f" {_comma('state')} text"),
        "verdict": lambda: _object(
            f'{_key("previous_step_success")} ("true" | "false") {_comma("refine_prompt")} text'
        ),
        "outline": lambda: _object(
            f'{_key("outline")} "[" w words (w "," w words)* w "]" {_comma("always")} text'
        ),
        "cast": _cast,
    }
    return f"root ::= {root}\n{RULES.lstrip()}{bodies[name]()}"


def answer_schema(name: GrammarName) -> dict[str, Any]:
    """Return the JSON schema of an answer with its reasoning.

    It has only keywords that all servers support, and all properties are required, as OpenAI's strict mode
    demands.
    """
    step = {"step_number": {"type": "integer"}, "step_name": TEXT_OR_NULL, "instruction": TEXT_OR_NULL}
    steps = {
        "type": "array",
        "minItems": 1,
        "items": {
            "anyOf": [
                _schema({**step, "prompt": TEXT, "auxiliary_text": TEXT_OR_NULL}),
                _schema({**step, "prompt": NULL, "auxiliary_text": TEXT}),
            ]
        },
    }
    kind = {"type": "string", "enum": list(KINDS)}
    member = _schema({"name": TEXT, "kind": kind, "traits": _list(TEXT)})
    entry = _schema({"step_number": {"type": "integer"}, "cast": _list(TEXT), "facts": _list(TEXT)})
    bodies: dict[GrammarName, dict[str, Any]] = {
        "plan": {"execution_plan": steps},
        "part": {"execution_plan": steps, "state": TEXT},
        "verdict": {"previous_step_success": {"type": "boolean"}, "refine_prompt": TEXT},
        "outline": {"outline": {"type": "array", "minItems": 1, "items": TEXT}, "always": TEXT},
        "cast": {"cast": _list(member), "steps": _list(entry)},
    }
    return _schema({REASONING: TEXT, **bodies[name]})


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _plan(after: str = "") -> str:
    """Return the rules of a plan: one rule per step number, because a grammar cannot count."""
    numbers = range(1, MAX_STEPS + 1)
    first = " | ".join(f"n{number}" for number in numbers)
    rules = [
        _object(f'{_key("execution_plan")} "[" w begin ({first}) w "]"{after}'),
        f'begin ::= "{{" w {_key("step_number")}',
        f'rest ::= {_comma("step_name")} (text | "null") {_comma("instruction")} (text | "null") '
        '(drawn | told) w "}"',
        f'drawn ::= {_comma("prompt")} words {_comma("auxiliary_text")} (text | "null")',
        f'told ::= {_comma("prompt")} "null" {_comma("auxiliary_text")} words',
    ]
    for number in numbers:
        later = f' (w "," w begin n{number + 1})?' if number < MAX_STEPS else ""
        rules.append(f'n{number} ::= "{number}" rest{later}')
    return "\n".join(rules)


def _cast() -> str:
    """Return the rules of a cast. A name may be short, so its text has any length."""
    kinds = " | ".join(rf'"\"{kind}\""' for kind in KINDS)
    return "\n".join(
        [
            _object(
                f'{_key("cast")} "[" w (member (w "," w member)*)? w "]" '
                f'{_comma("steps")} "[" w entry (w "," w entry)* w "]"'
            ),
            f'member ::= "{{" w {_key("name")} name {_comma("kind")} ({kinds}) '
            f'{_comma("traits")} names w "}}"',
            f'entry ::= "{{" w {_key("step_number")} [1-9] [0-9]? [0-9]? {_comma("cast")} names '
            f'{_comma("facts")} names w "}}"',
            'names ::= "[" w (name (w "," w name)*)? w "]"',
            r'name ::= "\"" [^"\\<{}.…\x00-\x20] char* "\""',
        ]
    )


def _object(members: str) -> str:
    return f'body ::= "{{" w {members} w "}}"'


def _key(name: str) -> str:
    return rf'"\"{name}\"" w ":" w'


def _comma(name: str) -> str:
    return f'w "," w {_key(name)}'


class GrammarTokens:
    """A tokenizer's vocabulary for the grammar library.

    It is created once per model, since this takes a second.
    """

    def __init__(self, tokenizer: Any, ends: Sequence[int], width: int) -> None:
        """Convert the vocabulary.

        Args:
            tokenizer: The library's tokenizer.
            ends: Tokens that end a reply.
            width: Length of the model's logits, which may exceed the number of tokens.
        """
        from llguidance import LLTokenizer, TokenizerWrapper

        self.bytes = token_bytes(tokenizer, width)
        self.single = {token[0]: number for number, token in enumerate(self.bytes) if len(token) == 1}
        self.close_reasoning = tokenizer.encode(CLOSE_REASONING, add_special_tokens=False)
        special = [number for number, token in enumerate(self.bytes) if not token]
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Tokens(self.bytes, special, ends[0], tokenizer)), eos_token=list(ends)
        )

    def processor(self, name: GrammarName, thinking: bool, max_tokens: int) -> GrammarProcessor:
        """Return the processor of one reply. `thinking`: the prompt has opened `<think>`."""
        return GrammarProcessor(self, name, thinking, max_tokens)


class _Tokens:
    """A tokenizer with the interface that TokenizerWrapper expects."""

    def __init__(self, tokens: list[bytes], special: list[int], end: int, tokenizer: Any) -> None:
        self.eos_token_id = end
        self.bos_token_id = None
        self.tokens = [token or f"<|special {number}|>".encode() for number, token in enumerate(tokens)]
        self.special_token_ids = special
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)


class GrammarProcessor:
    """A logits processor for one reply (a batch of one)."""

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
        """Return the scores `(1, vocabulary)`, with minus infinity for tokens outside of the grammar.

        Raises:
            ChatError: The grammar library failed.
        """
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
        """Return the allowed token that leads to the end; `None` if the grammar itself does."""
        if not self._forced and self._text.rfind(b"<think>") > self._text.rfind(b"</think>"):
            self._forced = list(self._tokens.close_reasoning)
        if self._forced:
            # Wait if a character is incomplete.
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
    """Return whether answers can be constrained to a grammar here. If not, a warning is logged once."""
    if importlib.util.find_spec("llguidance") is not None:
        return True
    global _warned
    if not _warned:
        _warned = True
        logger.warning(
            "Answers are not constrained to their grammar, because the library llguidance is not installed. "
            "Install it: pip install llguidance"
        )
    return False


def token_bytes(tokenizer: Any, width: int) -> list[bytes]:
    """Return the bytes of every token of a byte-level vocabulary.

    They are empty for control tokens and for numbers without a token.

    Raises:
        ChatError: The vocabulary is of another kind.
    """
    alphabet = _byte_alphabet()
    added = tokenizer.added_tokens_decoder
    found = [b""] * width
    for text, number in tokenizer.get_vocab().items():
        if number >= width:
            continue
        known = added.get(number)
        if known is not None:
            # Tags are separate tokens in some vocabularies and are part of the answer.
            control = known.special and str(known).startswith("<|")
            found[number] = b"" if control else str(known).encode()
        elif all(character in alphabet for character in text):
            found[number] = bytes(alphabet[character] for character in text)
        else:
            raise ChatError(
                "Answers cannot be constrained to a grammar: the vocabulary is not byte-level.",
                "Set constrained_decoding to never, or use another agent.",
            )
    return found


def _byte_alphabet() -> dict[str, int]:
    """Return the byte of each character in a byte-level vocabulary.

    This is the mapping of GPT-2: printable Latin-1 characters are their own bytes, and the other 68 bytes are
    the characters from 256.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
