"""Refuses answers that repeat their own prompt template: its examples, its placeholders or its rules.

Small models copy what they see, and a copied verdict looks like a real one. So the sentences of an answer are
compared with those of the template that it was asked with. Every template is covered by itself, also one that
a checkpoint brings along. Letters and digits alone count, so spaces, quotes and case make no difference.

A few equal sentences are no copy: a plan about an octopus may well have a caption of the example. What the
question asks for may be repeated too.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import lru_cache

from pydantic import BaseModel

from ...core.answers.answer_models import ONLY_DOTS
from ...core.errors import AnswerError

COPIED = "The answer repeats the example of the question instead of answering it."
ENDS = re.compile(r"[.!?…。！？:：;；\n\"“”«»「」『』{}<>\[\]()|\\]+|(?<!\w)'|'(?!\w)")
"""Separators of sentences, and of the texts of an object."""
NOT_TEXT = re.compile(r"[\W_]+")
WORD = re.compile(r"\w{4,}")
STEM = 4
"""Number of first letters by which words are compared, so that `wears` equals `wearing`."""
WIDE = "⺀"
"""First of the CJK characters. Each counts as `WIDTH` letters."""
WIDTH = 3
SENTENCE = 16
"""Minimum number of letters for an equal sentence to count as copied."""
START = 5
"""Number of first letters by which sentences are indexed."""
ALIKE = 30
"""Maximum number of sentences of a template that begin alike, which limits the time for strange templates."""
PHRASE = 40
"""Minimum number of letters for a sentence of the template to be searched inside a longer sentence."""
MUCH = 55
"""Number of copied letters that makes any answer a copy. With fewer, `SHARE` of the answer decides."""
SHARE = 1 / 2
NO_TEXTS = {"kind", "settings"}
"""Fields with a fixed set of values."""
KNOWN = 2 / 3
"""Minimum share of a sentence's words that are in the question, for the sentence to be excused."""


def check_copies(answer: object, reasoning: str, template: str, question: str) -> None:
    """Check that an answer does not repeat the template of its question.

    Args:
        answer: The parsed answer: a text, or an object of texts at any depth.
        reasoning: The thoughts of the reply.
        template: The prompt template.
        question: The template as it was filled. If it contains a sentence of the template again, it is the
            example's own question, and the example is a good answer.

    Raises:
        AnswerError: The answer is a copy.
    """
    known = _sentences_of(template)
    asked, own = _letters(question), _letters(template)
    if any(asked.count(one) > own.count(one) for one in known if len(one) >= SENTENCE):
        return
    given = {*(_stems(question) - _stems(template))}
    thoughts, texts = [reasoning], []
    for name, text in _texts(answer):
        (thoughts if name == "reasoning" else texts).append(text)
        if ONLY_DOTS.fullmatch(text) or (_is_shown(name) and _is_copied([text], known, given)):
            raise AnswerError(COPIED, text)
    copied = _copied([*texts, *thoughts], known, given)
    if sum(size for size in copied.values() if size >= SENTENCE) >= MUCH or _is_copied(
        texts if any(map(_letters, texts)) else thoughts, known, given
    ):
        raise AnswerError(COPIED, next(text for text in [*texts, *thoughts] if _copied([text], known, given)))


def _is_shown(name: str) -> bool:
    """Return whether the text of this name reaches the image model, so that it alone makes a copy."""
    return "prompt" in name or name == "problem"


def _is_copied(texts: Iterable[str], known: _Known, given: set[str]) -> bool:
    """Return whether `SHARE` of the letters is copied."""
    texts = list(texts)
    copied = sum(_copied(texts, known, given).values())
    return copied >= max(SENTENCE, SHARE * sum(map(_size, _sentences(texts))))


def _copied(texts: Iterable[str], known: _Known, given: set[str]) -> dict[str, int]:
    """Return the sentences of the template that the texts repeat, and how many letters of each."""
    found: dict[str, int] = {}
    for one in _sentences(texts):
        if one in known:
            found[one] = _size(one)
            continue
        for at in range(len(one)):
            for other in known.starts.get(one[at : at + START], ()):
                if other in found:
                    continue
                cut_off = not at and _size(one) >= SENTENCE and other.startswith(one)
                if cut_off or (_size(other) >= PHRASE and one.startswith(other, at)):
                    found[other] = min(_size(one), _size(other))
    return {one: size for one, size in found.items() if not _is_given(known[one], given)}


def _is_given(sentence: str, given: set[str]) -> bool:
    """Return whether most words of a sentence are in the question."""
    words = _stems(sentence)
    return len(words.keys() & given) >= KNOWN * len(words) > 0


class _Known(dict[str, str]):
    """The sentences of a template by their letters, and by the first of these, for speed."""

    def __init__(self, template: str) -> None:
        super().__init__(_sentences([template]))
        self.starts: dict[str, list[str]] = {}
        for one in self:
            alike = self.starts.setdefault(one[:START], [])
            if len(alike) < ALIKE:
                alike.append(one)


_sentences_of = lru_cache(maxsize=64)(_Known)


def _sentences(texts: Iterable[str]) -> dict[str, str]:
    """Return the different sentences of texts, by their letters."""
    found = {_letters(one): one for text in texts for one in ENDS.split(text)}
    found.pop("", None)
    return found


def _letters(text: str) -> str:
    return NOT_TEXT.sub("", unicodedata.normalize("NFKC", text).casefold())


def _size(letters: str) -> int:
    return len(letters) + (WIDTH - 1) * sum(one >= WIDE for one in letters)


def _stems(text: str) -> Counter[str]:
    return Counter(word[:STEM] for word in WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _texts(value: object, name: str = "prompt") -> Iterator[tuple[str, str]]:
    """Yield all texts of a value with the names of their fields. A text alone is a prompt."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields.keys() - NO_TEXTS:
            yield from _texts(getattr(value, key), key)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), field.name)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _texts(one, name)
