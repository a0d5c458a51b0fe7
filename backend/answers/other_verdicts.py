"""Finds every verdict in the objects of a reply, at any depth, also encoded or under other names.

An envelope may have its own `success` ("the tool ran"), while the verdict is deeper: in an object, a list or
a text that encodes one as JSON or as a Python literal, possibly several times. Models also correct themselves
under another name. So each of these counts as a further answer, and answers that differ are not a verdict.
Only the refined prompt is not searched, since it may quote anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import AnswerError
from ..types import Verdict
from .found_object import FoundObject
from .objects import read_object
from .plan_shapes import normal_key
from .reply_text import find_objects, split_reply

VERDICT_KEYS = ("previous_step_success", "success")
REFINE_KEYS = ("refine_prompt", "refined_prompt")
DIFFER = "The reply contains several different verdicts."
MAX_ENCODED = 6
"""Maximum number of times that a text within a text is decoded."""
MARKUP = r"(?:[\"'“”*`~]|&(?:quot|apos|#\d{1,3});){0,4}"
"""Quotes, also as HTML, and Markdown's marks."""
# A verdict anywhere in a text, except an answer format with both words. All repetitions are limited: failing
# models may write spaces without an end.
STATED_VERDICT = re.compile(
    rf"(?:succe(?:ss(?:ful)?|eded)|\bverdict)\\{{0,99}}{MARKUP}\s{{0,30}}"
    rf"(?:[:=|]|-{{1,2}}>|→|is\b|should be\b){MARKUP}\s{{0,30}}\\{{0,99}}{MARKUP}\s{{0,30}}(true|false)\b"
    rf"(?!\s{{0,30}}{MARKUP}\s{{0,30}}(?:or\b|/|\|\s{{0,30}}{MARKUP}(?:true|false)\b))",
    re.IGNORECASE,
)
VERDICT_LIKE = re.compile(r"succe(?:ss|ed)")
VERDICT_ITSELF = re.compile(r"succe(?:ss|ssful|ssfully|ed|eds|eded)$")
FAILURE_LIKE = re.compile(r"fail|unsucce|(?:^|_)(?:no|not|non)_.*succe")
REFINED_LIKE = re.compile(r"refined?_?prompt")
ENCODED = re.compile(r"\s*[{\[<`\"']")


def bool_from_word(value: object) -> object:
    """Return True or False for the words `true` and `false` in any case, and any other value unchanged."""
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(word, value)


def is_envelope_like(found: FoundObject) -> bool:
    """Return whether an answer has only `success`, so that its texts may contain the verdict."""
    names = {normal_key(key) for key in found.value}
    return VERDICT_KEYS[0] not in names and not any(REFINED_LIKE.search(name) for name in names)


def check_other_verdicts(
    verdict: Verdict, answers: Iterable[FoundObject], others: Iterable[FoundObject]
) -> None:
    """Check that nothing in these objects of a reply contradicts its verdict.

    Args:
        verdict: The verdict that was parsed.
        answers: The objects that it was parsed from.
        others: The other objects of the reply. One with a refined prompt and without a verdict looks like an
            answer that cannot be parsed.

    Raises:
        AnswerError: Something contradicts the verdict.
    """
    for one in answers:
        stated = list(_statements(one.value))
        for name, value in stated:
            if _differs(verdict, name, value):
                raise AnswerError(DIFFER, f"{name}: {value!r} in {one.raw}")
        asks = [name for name, value in stated if REFINED_LIKE.search(name) and _refined_text(value)]
        if asks and is_envelope_like(one) and len(stated) == len(asks) + 1:
            # An envelope's success next to a judgement of which only the refined prompt has a known name.
            raise AnswerError(DIFFER, one.raw)
    for one in others:
        stated = list(_statements(one.value))
        if any(_differs(verdict, name, value) for name, value in stated) or (
            stated and all(REFINED_LIKE.search(name) for name, _ in stated)
        ):
            raise AnswerError(DIFFER, one.raw)


def _differs(verdict: Verdict, name: str, value: Any) -> bool:
    """Return whether a value under this normalized name differs from the verdict, or might differ."""
    if REFINED_LIKE.search(name):
        refined = _refined_text(value)
        return not verdict.success and bool(refined) and refined != verdict.refined_prompt
    said = bool_from_word(value)
    if FAILURE_LIKE.search(name):
        return isinstance(said, bool) and said is verdict.success
    if isinstance(said, bool):
        return said is not verdict.success
    return VERDICT_ITSELF.search(name) is not None


def _refined_text(value: Any) -> str:
    return value if isinstance(value, str) and value.strip().lower() not in ("", "none", "null") else ""


def _statements(value: Any, decoded: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield all members of a value that look like a verdict or a refined prompt, by normalized name."""
    if isinstance(value, dict):
        for key, item in value.items():
            name = normal_key(key)
            is_refined = REFINED_LIKE.search(name) is not None
            if is_refined or VERDICT_LIKE.search(name) or FAILURE_LIKE.search(name):
                yield name, item
            if not (is_refined and isinstance(item, str)):
                yield from _statements(item, decoded)
    elif isinstance(value, list):
        for item in value:
            yield from _statements(item, decoded)
    elif isinstance(value, str) and ENCODED.match(value):
        if decoded == MAX_ENCODED:
            raise AnswerError(f"The answer contains texts encoded more than {MAX_ENCODED} times.", value)
        inner = [one for item in _decoded(value) for one in _statements(item, decoded + 1)]
        yield from inner
        if "{" in value and all(REFINED_LIKE.search(name) for name, _ in inner):
            # It looks like an object and cannot be parsed; its statements still count.
            yield from (("success", stated.group(1)) for stated in STATED_VERDICT.finditer(value))


def _decoded(text: str) -> list[Any]:
    """Return what a text encodes as a whole: an object, a list, a text, or a reply with tags or fences.

    The list is empty for any other text.
    """
    body = text.strip()
    try:
        if body[0] in "<`":
            return [one.value for place in split_reply(body).places for one in find_objects(place)]
        source = f'{{"text": {body}}}'
        found = read_object(source, 0, len(source))
    except AnswerError:
        return []
    return [] if found.open_depth or found.end < len(source) else list(found.value.values())
