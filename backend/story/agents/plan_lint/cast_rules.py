"""Rules about the cast: who is in a step, how many, and the colors of what they wear.

The prompt of a step is completed by the traits and the exact number of its characters (`types/cast.py`), so
a prompt that says otherwise gives the image model two orders. Clothes and hair should not change their color
without a word about it. A member of the cast is known by name, anyone else by a noun after a definite article
("the fox with the green scarf"). In Chinese, which has no articles, only names count. Other things change
with light and season.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ....core.types import Plan
from ....core.types.cast import CastMember, named_in
from ....core.types.checklist import LETTERING
from ....core.types.presence import Manner, Mention, members_in, mentions, without_marks
from .findings import HAN, HAN_NUMBER, NUMBER, Checked, Found, number_of, shown, stem, word_set

MARK = re.compile(r"(?<![\w@])@(\w+)")
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


class StepCast(NamedTuple):
    """Who is in a step by its prompt, in the order of the cast. `marked`: by `@Name` marks, not by name."""

    step: int
    names: tuple[str, ...]
    marked: bool


def found_casts(plan: Plan) -> list[StepCast]:
    """Return who is in each step with a prompt, if the step had no list. It is shown next to the findings."""
    found = []
    for step in plan.steps if plan.cast else ():
        prompt, marked = without_marks(plan.cast, step.prompt or "")
        if prompt:
            members = members_in(plan.cast, marked or None, prompt)
            found.append(StepCast(step.number, tuple(one.name for one in members), bool(marked)))
    return found


def cast_left_out(checked: Checked) -> Found:
    """Find prompts that differ from the list of the step, or mark a member who does not exist."""
    for step, prompt in checked.drawn:
        listed = members_in(checked.plan.cast, step.cast, prompt)
        manners: dict[str, set[Manner]] = {}
        for one in mentions(checked.plan.cast, prompt):
            manners.setdefault(one.member.name, set()).add(one.manner)
        for member in checked.plan.cast:
            found = manners.get(member.name, set())
            if "seen" in found and member not in listed:
                yield step.number, f"The prompt names '{member.name}', who is not in the step's cast."
            if found == {"gone"} and member in listed:
                yield step.number, f"The prompt leaves out '{member.name}', who is in the step's cast."
        for found in MARK.finditer(LETTERING.sub("", prompt)) if checked.plan.cast else ():
            yield step.number, f"The prompt marks '{shown(found.group())}', who is not in the cast."


def cast_missing(checked: Checked) -> Found:
    """Find members that no step shows although the request names them, or prompts with other capitals."""
    cast = checked.plan.cast
    seen = [one for step, prompt in checked.drawn for one in members_in(cast, step.cast, prompt)]
    asked = [one.member for one in mentions(cast, checked.request) if one.manner != "gone"]
    for member in cast:
        if not checked.drawn or member in seen:
            continue
        if member in asked:
            yield None, f"The request names '{member.name}', but no step shows it."
            continue
        for step, prompt in checked.drawn:
            other = next((one.group() for one in named_in(member.name, prompt) if step.cast is None), "")
            if other not in ("", member.name):
                yield step.number, f"'{shown(other)}' is not read as a member: capitals count in names."
                break


def cast_changed(checked: Checked) -> Found:
    """Find members in another color than their traits say, without a change in a prompt or a fact."""
    steps = [(*one, list(mentions(checked.plan.cast, one[1]))) for one in checked.drawn]
    for member in checked.plan.cast:
        known: dict[str, set[str]] = {}
        for one in _colored_in(member.traits):
            known.setdefault(one.nouns[-1], set()).add(one.color)
        for step, prompt, places in steps:
            for one in _colored_in(step.facts):
                known.setdefault(one.nouns[-1], set()).add(one.color)
            for one in _worn(places, member, prompt):
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


def _worn(places: Sequence[Mention], member: CastMember, prompt: str) -> Iterator[Colored]:
    """Yield the colored things directly after a name."""
    for found in places:
        if found.member == member and (verb := WEARS.match(prompt, found.end)):
            clause = CLAUSE_END.split(prompt[verb.end() : verb.end() + 60])[0]
            for one in _colored(clause):
                words = prompt[found.start : verb.end() + clause.index(one.words) + len(one.words)]
                yield one._replace(words=words)


def _colored_in(texts: Sequence[str]) -> Iterator[Colored]:
    return (one for text in texts for one in _colored(text))


def _colored(text: str) -> Iterator[Colored]:
    """Yield the colored things of a text."""
    for pattern in (CHINESE,) if HAN.search(text) else (ENGLISH_GERMAN, SPANISH):
        for found in pattern.finditer(text):
            color = next(name for name in COLORS if found[name])
            yield Colored(color, tuple(found["nouns"].casefold().split()), found.group())


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
        for one in _garments(checked, prompt):
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


def _garments(checked: Checked, prompt: str) -> Iterator[Worn]:
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
