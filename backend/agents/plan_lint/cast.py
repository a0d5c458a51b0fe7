"""Plans that contradict their cast: who is in a step, how many, and the colors of what they wear.

The prompt of a step is completed by the traits and the exact number of its characters (backend/cast.py), so
a prompt that says otherwise gives the image model two orders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...cast import members_in, named_in
from .findings import Checked, Found
from .texts import HAN, HAN_NUMBER, NUMBER, number_of, shown

ELSEWHERE = re.compile(
    r"(?:\b(?:to|for|of|about|from|without|like|an|für|von|vom|über|ohne|wie|para|de|sobre|sin|como|a)"
    r"\s(?:the |el |la |der |dem |den |die )?|[给为写像])$",
    re.IGNORECASE,
)
"""Words before the name of somebody who need not be seen: a letter to Tom, a photo of Tom."""
LONGEST = 20
"""Maximum length of such words, in characters."""
OWNED = re.compile(r"['’]s?\b|的")
"""What follows the name of somebody whose thing is seen: Tom's house."""
COLORS = {
    "red": r"red|roj[oa]s?|rot(?:e[nmrs]?)?|红",
    "blue": r"blue|azul(?:es)?|blau(?:e[nmrs]?)?|蓝",
    "green": r"green|verdes?|grün(?:e[nmrs]?)?|绿",
    "yellow": r"yellow|amarill[oa]s?|gelb(?:e[nmrs]?)?|黄",
    "orange": r"orange|naranjas?|橙",
    "purple": r"purple|violet|moradas?|morados?|violetas?|lila|紫",
    "pink": r"pink|rosas?|粉",
    "black": r"black|negr[oa]s?|schwarz(?:e[nmrs]?)?|黑",
    "white": r"white|blanc[oa]s?|weiß(?:e[nmrs]?)?|白",
    "gray": r"gr[ae]y|gris(?:es)?|grau(?:e[nmrs]?)?|灰",
    "brown": r"brown|marr(?:ón|ones)|braun(?:e[nmrs]?)?|棕",
    "blond": r"blonde?|rubi[oa]s?|金",
}
COLOR = "|".join(f"(?P<{name}>{words})" for name, words in COLORS.items())
ENGLISH_GERMAN = re.compile(rf"\b(?:{COLOR})\s(?P<nouns>[^\W\d_]+(?:\s[^\W\d_]+){{0,2}})", re.IGNORECASE)
SPANISH = re.compile(rf"\b(?P<nouns>[^\W\d_]+)(?:\s(?:cort|larg)[oa]s?)?\s(?:{COLOR})\b", re.IGNORECASE)
CHINESE = re.compile(rf"(?:{COLOR})色?的?(?P<nouns>[\u4e00-\u9fff]{{1,2}})")
CLAUSE_END = re.compile(
    r"[,.;:，。；：！]|\s(?:and|und|y|with|con|mit|next|beside|behind|in|on|at|neben|hinter|auf|junto|en)\s|[和在]"
)
WEARS = re.compile(
    r"(?:,?\s(?:in|with|wears|wearing|has|who wears|con|lleva|vestid[oa] (?:con|de)|tiene|mit|trägt|hat|im)"
    r"(?:\s(?:an?|her|his|their|the|una?|el|la|su|eine[nmrs]?|de[nmr]|ihre[nmrs]?|seine[nmrs]?))?|['’]s|"
    r"(?:穿|戴|披)着?(?:一?[件顶条双只])?)\s?",
    re.IGNORECASE,
)
CHANGES = re.compile(
    r"\b(?:now|new|another|changes?|swaps?|puts? on|becomes?|turns?|dyes?|paints?|tries on|ahora|nuev[oa]|"
    r"cambia|se pone|tiñe|pinta|jetzt|neue[nmrs]?|zieht|wechselt|färbt|malt)\b|换|变|染|新|涂",
    re.IGNORECASE,
)
PEOPLE = (
    "children|kids|friends|characters|people|persons|girls|boys|companions|siblings|brothers|sisters|heroes|"
    "niñ[oa]s|amig[oa]s|personas|personajes|herman[oa]s|chic[oa]s|kinder[n]?|freunde[n]?|freundinnen|"
    "personen|figuren|leute[n]?|geschwister[n]?|mädchen|jungen"
)
COUNTED = re.compile(rf"\b({NUMBER})\s(?:[^\W\d]+\s)?(?:{PEOPLE})\b", re.IGNORECASE)
HAN_COUNTED = re.compile(rf"({HAN_NUMBER})[个名位](?:小?孩子?|小?朋友|人|角色|女孩|男孩)")


class Colored(NamedTuple):
    """A colored thing in a text: its color (a key of `COLORS`), nouns that it may be, and its words."""

    color: str
    nouns: tuple[str, ...]
    words: str


def cast_left_out(checked: Checked) -> Found:
    """Find prompts that name a member who is not in the list of the step."""
    for step, prompt in checked.drawn:
        if step.cast is None:
            continue
        listed = members_in(checked.plan.cast, step.cast, prompt)
        for member in checked.plan.cast:
            if member not in listed and _is_seen(member.name, prompt):
                yield step.number, f"The prompt names '{member.name}', who is not in the step's cast."


def cast_missing(checked: Checked) -> Found:
    """Find members that the request names and no step shows."""
    seen = {
        member.name
        for step, prompt in checked.drawn
        for member in members_in(checked.plan.cast, step.cast, prompt)
    }
    for member in checked.plan.cast:
        if checked.drawn and member.name not in seen and any(named_in(member.name, checked.request)):
            yield None, f"The request names '{member.name}', but no step shows it."


def cast_changed(checked: Checked) -> Found:
    """Find members in another color than their traits say, without a change in a prompt or a fact."""
    for member in checked.plan.cast:
        known: dict[str, set[str]] = {}
        for one in _colored_in(member.traits):
            known.setdefault(one.nouns[-1], set()).add(one.color)
        for step, prompt in checked.drawn:
            for one in _colored_in(step.facts):
                known.setdefault(one.nouns[-1], set()).add(one.color)
            for one in _worn(member.name, prompt):
                noun = next((noun for noun in one.nouns if noun in known), None)
                if noun is None or one.color in known[noun]:
                    continue
                if CHANGES.search(prompt):
                    known[noun].add(one.color)
                else:
                    yield step.number, f"'{shown(one.words)}' is unlike the traits of the cast."


def cast_count(checked: Checked) -> Found:
    """Find more people in a prompt than characters in the list of the step."""
    for step, prompt in checked.drawn:
        if step.cast is None:
            continue
        listed = members_in(checked.plan.cast, step.cast, prompt)
        number = sum(member.kind == "character" for member in listed)
        for found in (HAN_COUNTED if HAN.search(prompt) else COUNTED).finditer(prompt):
            if number and number_of(found[1]) > number:
                yield (
                    step.number,
                    f"The prompt has '{shown(found.group())}', but the step's cast has {number}.",
                )
                break


def _is_seen(name: str, prompt: str) -> bool:
    """Return whether a prompt names somebody who is to be seen, not only spoken of."""
    return any(
        not ELSEWHERE.search(prompt, max(0, found.start() - LONGEST), found.start())
        and not OWNED.match(prompt, found.end())
        for found in named_in(name, prompt)
    )


def _worn(name: str, prompt: str) -> Iterator[Colored]:
    """Yield the colored things directly after a name."""
    for found in named_in(name, prompt):
        if verb := WEARS.match(prompt, found.end()):
            clause = CLAUSE_END.split(prompt[verb.end() : verb.end() + 60])[0]
            for one in _colored(clause):
                words = prompt[found.start() : verb.end() + clause.index(one.words) + len(one.words)]
                yield one._replace(words=words)


def _colored_in(texts: Sequence[str]) -> Iterator[Colored]:
    return (one for text in texts for one in _colored(text))


def _colored(text: str) -> Iterator[Colored]:
    """Yield the colored things of a text."""
    for pattern in (CHINESE,) if HAN.search(text) else (ENGLISH_GERMAN, SPANISH):
        for found in pattern.finditer(text):
            color = next(name for name in COLORS if found[name])
            yield Colored(color, tuple(found["nouns"].casefold().split()), found.group())
