"""Numbers that contradict a list ("three kittens: a black and a white one") or the request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .findings import Checked, Found
from .texts import HAN_NUMBER, NUMBER, language_of, number_of, shown, stem, word_set

DETERMINER = r"(?:an?|one|the|another|una?|uno|otr[oa]|el|la|eine?[rs]?|der|die|das|noch eine?)"
ITEM = rf"(?:{DETERMINER}|{NUMBER})\s[^,.;:!?()\n]*?"
AND = r"(?:,\s|,?\s(?:and|y|und)\s)"
LISTED = re.compile(
    rf"\b({NUMBER})\s((?:[^\W\d]+\s)?[^\W\d]+)(?::\s|\s\()({ITEM}(?:{AND}{ITEM})*?,?\s(?:and|y|"
    rf"und)\s{ITEM})(?=[,.;:!?()\n]|$)",
    re.IGNORECASE,
)
EACH_ONE = re.compile(
    rf"\b({NUMBER})\s((?:[^\W\d]+\s)?[^\W\d]+),\s((?:one|uno|una|eine?[rs])\s[^.;:!?()\n]*)", re.IGNORECASE
)
ONES = re.compile(
    r"(?:^|,\s|\s(?:and|y|und)\s)(?:one|another|the other|the third|un[oa]|otr[oa]|eine?[rs]|der|die|das "
    r"andere|noch eine?[rs])(?:\s(?:with|holds?|has|in|is|con|tiene|lleva|mit|hat|hält|ist)\s)",
    re.IGNORECASE,
)
HAN_LISTED = re.compile(
    rf"({HAN_NUMBER})[只个名位条]([^，。：:、；]{{1,8}})[：:]([^。；！？]*?[和与及][^，。；！？]*)"
)
HAN_ONE = re.compile(r"(?:^|[，、和与及])(?:另)?一[只个名位条]")
HAN_EACH_ONE = re.compile(rf"({HAN_NUMBER})[只个名位条]([^，。：:、；]{{1,8}})，(一[只个名位条][^。；！？]*)")
COUNTED = re.compile(rf"\b({NUMBER})\s(?:(?:[^\W\d]+)\s)??([^\W\d]{{3,}})\b", re.IGNORECASE)
GROWS = re.compile(
    r"\b(?:more|another|join\w*|add|adds|hatch\w*|becomes?|multipl\w+|grow\w*|double\w*|each|every|más|"
    r"otr[oa]s?|añad\w+|cada|weitere\w*|mehr|jede\w*|füge)\b",
    re.IGNORECASE,
)
"""Words of a request in which a number may rise."""
LISTED_WRONG = "'{}' is followed by a list of {}."
NOT_HEADS = word_set(
    "step panel page scene pictur imag shot frame paso escen imagen vinet schritt bild szen seit minut "
    "hour day week year time part piec slic side season stunde tag woche jahr mal vez hora dia semana ano"
)


def head_count(checked: Checked) -> Found:
    """Find numbers that do not add up."""
    of_request = _counts(checked.request) if not GROWS.search(checked.request) else {}
    for step, prompt in checked.drawn:
        contradiction = next(_in_prompt(prompt), None) or next(_with_request(prompt, of_request), None)
        if contradiction is not None:
            yield step.number, contradiction


def _in_prompt(prompt: str) -> Iterator[str]:
    for found in LISTED.finditer(prompt):
        items = re.split(AND, found[3], flags=re.IGNORECASE)
        listed = sum(_number_at(item) for item in items)
        if listed != number_of(found[1]):
            yield LISTED_WRONG.format(_group(found), listed)
    for found in HAN_LISTED.finditer(prompt):
        listed = len(HAN_ONE.findall(found[3]))
        if listed and listed != number_of(found[1]):
            yield LISTED_WRONG.format(_group(found), listed)
    # Not all of a group need to be described, so only too many are a contradiction.
    for found, one in ((EACH_ONE.search(prompt), ONES), (HAN_EACH_ONE.search(prompt), HAN_ONE)):
        if found and (listed := len(one.findall(found[3]))) > number_of(found[1]):
            yield LISTED_WRONG.format(_group(found), listed)


def _group(found: re.Match[str]) -> str:
    """Return the number with its noun, which come before the list."""
    return shown(found.group()[: found.start(3) - found.start()].rstrip("：:，,( "))


def _number_at(item: str) -> int:
    found = re.match(rf"({NUMBER})\s", item, re.IGNORECASE)
    return number_of(found[1]) if found else 1


def _with_request(prompt: str, of_request: dict[str, tuple[int, str]]) -> Iterator[str]:
    for noun, (number, words) in _counts(prompt).items():
        asked = of_request.get(noun, (number, ""))[0]
        if number > asked:
            yield f"The prompt has '{shown(words)}', but the request has {asked}."


def _counts(text: str) -> dict[str, tuple[int, str]]:
    """Return the numbers of a text by noun, with their words; without nouns that have several numbers."""
    found: dict[str, set[tuple[int, str]]] = {}
    if language_of(text) == "zh":
        return {}
    for one in COUNTED.finditer(text):
        noun = stem(one[2])
        if noun not in NOT_HEADS:
            found.setdefault(noun, set()).add((number_of(one[1]), one.group()))
    return {
        noun: next(iter(counts)) for noun, counts in found.items() if len({one[0] for one in counts}) == 1
    }
