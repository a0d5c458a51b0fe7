"""Clothes and hair that change their color from one prompt to another, without a word about it.

A member of the cast is known by name, anyone else by a noun after a definite article ("the fox with the green
scarf"). In Chinese, which has no articles, only names count. Other things change with light and season.
Colors that the traits of the cast tell are checked in cast.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...cast import named_in
from .cast import CHANGES, CHINESE, CLAUSE_END, COLORS, ENGLISH_GERMAN, SPANISH, WEARS
from .findings import Checked, Found
from .texts import HAN, shown, stem, word_set

CLOTHES = frozenset(
    map(
        stem,
        word_set(
            "coat raincoat jacket vest hat cap beanie helmet scarf dress shirt blouse sweater hoodie "
            "beard eyes trousers pants jeans overalls skirt apron cape cloak boots shoes gloves "
            "backpack collar hair mantel regenmantel jacke weste hut mütze helm schal kleid hemd "
            "bluse pullover hose rock latzhose schürze umhang stiefel schuhe handschuhe rucksack "
            "haare bart augen abrigo impermeable chaqueta sombrero gorra gorro casco bufanda vestido "
            "camisa camiseta jersey pantalones falda capa delantal botas zapatos guantes mochila pelo "
            "barba ojos 外套 大衣 雨衣 毛衣 衬衫 上衣 背心 裙子 裤子 帽子 围巾 围裙 鞋子 靴子 手套 "
            "书包 头发 胡子"
        ),
    )
)
OWNER = re.compile(
    r"\b(?:(?P<same>the|der|die|das|dem|den|el|la)|an?|eine?[nrms]?|una?)\s"
    r"(?:[^\W\d_]+\s){0,2}?(?P<noun>[^\W\d_]+)$",
    re.IGNORECASE,
)
MAX_OWNER = 60
EXCHANGED = re.compile(
    r"\b(?:trad\w+|exchang\w+|tausch\w*|intercambi\w+|different|magic\w*|every|each|next|later|\w+day|week|years?|"
    r"spring|summer|autumn|winter|jede[nmrs]?|nächste[nmrs]?|später|tags?|woche|jahr|sommer|herbst|frühling|"
    r"cada|siguiente|después|días?|año|verano|otoño|invierno|primavera)\b|[每春夏秋冬]|交换|第二天|后来",
    re.IGNORECASE,
)
"""Words after which other clothes are expected: a change of clothes, another day or season."""


class Worn(NamedTuple):
    """A garment: who wears it, its noun, its color, whether its owner was seen before, and the words."""

    owner: str
    noun: str
    color: str
    known: bool
    words: str


def color_changed(checked: Checked) -> Found:
    """Find a garment in another color than the only color that it had before."""
    if CHANGES.search(checked.request) or EXCHANGED.search(checked.request):
        return
    told = {stem(noun) for one in checked.plan.cast for trait in one.traits for noun in trait.split()}
    before: dict[tuple[str, str], dict[str, int]] = {}
    for step, prompt in checked.drawn:
        words = " ".join((prompt, step.auxiliary_text or "", *step.facts))
        changes = CHANGES.search(words) or EXCHANGED.search(words)
        now: dict[tuple[str, str], dict[str, Worn]] = {}
        for one in _worn(checked, prompt):
            now.setdefault((one.owner, one.noun), {})[one.color] = one
        for key, colors in now.items():
            had = before.setdefault(key, {})
            (color, one), *others = colors.items()
            asked = re.search(COLORS[color], checked.request, re.IGNORECASE)
            quiet = others or changes or asked or key[1] in told
            if one.known and not quiet and len(had) == 1 and color not in had:
                (number,) = had.values()
                yield step.number, f"'{shown(one.words)}' has another color than in step {number}."
            had |= dict.fromkeys(colors.keys() - had.keys(), step.number)


def _worn(checked: Checked, prompt: str) -> Iterator[Worn]:
    """Yield the garments of a prompt whose color and owner it names."""
    names = {found.end(): one.name for one in checked.plan.cast for found in named_in(one.name, prompt)}
    for verb in WEARS.finditer(prompt):
        owner = OWNER.search(prompt, max(0, verb.start() - MAX_OWNER), verb.start())
        name = names.get(verb.start()) or (owner and stem(owner["noun"]))
        clause = CLAUSE_END.split(prompt[verb.end() : verb.end() + 60])[0]
        for pattern in (CHINESE,) if HAN.search(clause) else (ENGLISH_GERMAN, SPANISH):
            for found in pattern.finditer(clause) if name else ():
                noun = next((noun for noun in map(stem, found["nouns"].split()) if noun in CLOTHES), None)
                if name and noun:
                    known = verb.start() in names or bool(owner and owner["same"])
                    yield Worn(name, noun, next(key for key in COLORS if found[key]), known, found.group())
