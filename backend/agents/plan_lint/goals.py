"""Things and colors that the request tells to add, and that no prompt mentions.

Only instructions ("add a red kite", "make it blue") name a goal in words that a plan should repeat. A story's
plan may call its hero otherwise, so other nouns are not compared, and neither is a plan in another language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .findings import Checked, Found
from .texts import WORD, language_of, mentions, shown, word_set

NUMBER_EN = "an?|the|some|another|one|two|three|four|five|six|seven|eight|nine|ten|\\d{1,2}"
ENGLISH = re.compile(
    rf"\b(?:add|draw|paint|put|place|insert|include|attach|hang)(?: also| in)? "
    rf"(?:{NUMBER_EN})\s+((?:[a-z-]+\s?){{1,4}})",
    re.IGNORECASE,
)
ENGLISH_ENDS = word_set(
    "to in on at into onto next beside with above below under behind that who which and then so from over "
    "near around of for as about where while it by between there here inside outside"
)
SPANISH = re.compile(
    r"\b(?:añade|agrega|dibuja|pinta|pon|coloca|incluye)(?: también| además| luego)? (?:una?|unos|unas|"
    r"dos|tres|cuatro|cinco|seis|el|la|los|las|\d{1,2}) ([a-záéíóúñü]+)",
    re.IGNORECASE,
)
GERMAN = re.compile(
    r"\b(?:[Ff]üge?|[Mm]ale?|[Zz]eichne|[Ss]etze?|[Ss]telle?|[Ll]ege?|[Hh]änge?|[Gg]ib)(?: (?:dann|noch|"
    r"zum Schluss|am Ende|danach|auch|bitte|schließlich))* (?:eine?[nmrs]?|zwei|drei|vier|fünf|sechs|"
    r"de[nrms]|die|das|\d{1,2}) (?:[a-zäöüß]+ ){0,2}([A-ZÄÖÜ][a-zäöüß]+)"
)
CHINESE = re.compile(
    r"(?:加上|添加|加入|画上|再画|放上|增加|添上)(?:了)?"
    r"(?:[一两二三四五六七八九十几0-9]{1,2}[只个条朵棵张把盏座辆匹头顶块面群颗本艘位名支]?)?"
    r"([\u4e00-\u9fff]{1,8})(?=[，。、；！？,.!?\s]|$|和|在|到)"
)
COLORS = "red|blue|green|yellow|orange|purple|pink|black|white|gray|grey|brown|golden|silver"
MADE = re.compile(
    rf"\b(?:make|paint|turn|color|colour) (?:it|them|him|her|the [a-z-]+(?: [a-z-]+)?) ({COLORS})\b",
    re.IGNORECASE,
)
WORKS = word_set(
    "story tale picture image comic scene panel page poster illustration drawing step recipe guide diagram "
    "series storyboard style caption text description explanation instruction version sequence stories "
    "pictures images comics scenes panels pages illustrations drawings steps captions texts sentence line "
    "book bedtime cuento historia cómic imagen imágenes dibujo dibujos escena escenas pasos paso viñetas "
    "cartel geschichte bild bilder comic szene szenen seite seiten plakat schritte text texte "
    "gutenachtgeschichte bildergeschichte rezept anleitung märchen"
)
HAN_WORKS = re.compile(r"[图画]$|故事|漫画|文字|说明|标题|步|字$")


def missing_goal(checked: Checked) -> Found:
    """Find goals of the request that no prompt mentions."""
    prompts = " ".join([checked.plan.style, *(prompt for _, prompt in checked.drawn)])
    language = language_of(checked.request)
    if not checked.drawn or language is None or language_of(prompts) != language:
        return
    for goal in dict.fromkeys(_goals(checked.request, language)):
        if not mentions(prompts, goal):
            yield None, f"The request asks for '{shown(goal)}', but no prompt mentions it."


def _goals(request: str, language: str) -> Iterator[str]:
    """Yield the nouns and colors of the instructions in a request."""
    if language == "en":
        for found in ENGLISH.finditer(request):
            noun = _last_before(found[1].split(), ENGLISH_ENDS)
            if noun and noun.casefold() not in WORKS:
                yield noun
        yield from (found[1] for found in MADE.finditer(request))
    elif language == "zh":
        for found in CHINESE.finditer(request):
            noun = found[1].rpartition("的")[2]
            if noun and not HAN_WORKS.search(noun):
                yield noun[-2:]
    else:
        for found in (SPANISH if language == "es" else GERMAN).finditer(request):
            if found[1].casefold() not in WORKS:
                yield found[1]


def _last_before(words: list[str], ends: frozenset[str]) -> str:
    """Return the last word before one that ends a noun phrase."""
    noun = ""
    for word in words:
        if word.casefold() in ends or not WORD.match(word):
            break
        noun = word
    return noun
