"""Rules that compare prompts with the request: goals, lettering, numbers.

Only instructions ("add a red kite", "make it blue") name a goal in words that a plan should repeat. A story's
plan may call its hero otherwise, so other nouns are not compared, and neither is a plan in another language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .findings import (
    HAN,
    HAN_NUMBER,
    NUMBER,
    WORD,
    Checked,
    Found,
    Quote,
    language_of,
    mentions,
    number_of,
    plain,
    quotes,
    shown,
    stem,
    without_quotes,
    word_set,
)

NUMBER_EN = "an?|the|some|another|one|two|three|four|five|six|seven|eight|nine|ten|\\d{1,2}"
GOAL_ENGLISH = re.compile(
    rf"\b(?:add|draw|paint|put|place|insert|include|attach|hang)(?: also| in)? "
    rf"(?:{NUMBER_EN})\s+((?:[a-z-]+\s?){{1,4}})",
    re.IGNORECASE,
)
ENGLISH_ENDS = word_set(
    "to in on at into onto next beside with above below under behind that who which and then so from over "
    "near around of for as about where while it by between there here inside outside"
)
GOAL_SPANISH = re.compile(
    r"\b(?:añade|agrega|dibuja|pinta|pon|coloca|incluye)(?: también| además| luego)? (?:una?|unos|unas|"
    r"dos|tres|cuatro|cinco|seis|el|la|los|las|\d{1,2}) ([a-záéíóúñü]+)",
    re.IGNORECASE,
)
GOAL_GERMAN = re.compile(
    r"\b(?:[Ff]üge?|[Mm]ale?|[Zz]eichne|[Ss]etze?|[Ss]telle?|[Ll]ege?|[Hh]änge?|[Gg]ib)(?: (?:dann|noch|"
    r"zum Schluss|am Ende|danach|auch|bitte|schließlich))* (?:eine?[nmrs]?|zwei|drei|vier|fünf|sechs|"
    r"de[nrms]|die|das|\d{1,2}) (?:[a-zäöüß]+ ){0,2}([A-ZÄÖÜ][a-zäöüß]+)"
)
GOAL_CHINESE = re.compile(
    r"(?:加上|添加|加入|画上|再画|放上|增加|添上)(?:了)?"
    r"(?:[一两二三四五六七八九十几0-9]{1,2}[只个条朵棵张把盏座辆匹头顶块面群颗本艘位名支]?)?"
    r"([\u4e00-\u9fff]{1,8})(?=[，。、；！？,.!?\s]|$|和|在|到)"
)
GOAL_COLORS = "red|blue|green|yellow|orange|purple|pink|black|white|gray|grey|brown|golden|silver"
MADE = re.compile(
    rf"\b(?:make|paint|turn|color|colour) (?:it|them|him|her|the [a-z-]+(?: [a-z-]+)?) ({GOAL_COLORS})\b",
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
        for found in GOAL_ENGLISH.finditer(request):
            noun = _last_before(found[1].split(), ENGLISH_ENDS)
            if noun and noun.casefold() not in WORKS:
                yield noun
        yield from (found[1] for found in MADE.finditer(request))
    elif language == "zh":
        for found in GOAL_CHINESE.finditer(request):
            noun = found[1].rpartition("的")[2]
            if noun and not HAN_WORKS.search(noun):
                yield noun[-2:]
    else:
        for found in (GOAL_SPANISH if language == "es" else GOAL_GERMAN).finditer(request):
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


AROUND = 45
"""Characters before and after a quote that decide whether it is lettering."""
OBJECTS = (
    r"\b(?:signs?|banner|billboard|board|poster|flag|plaque|cards?|cover|label(?:l?ed)?s?|sticker|mug|t?-?shirt|"
    r"screen|note|headline|slogan|logo|written|painted|engraved|letrero|cartel|pancarta|rótulo|etiqueta|"
    r"schild|banner|plakat|beschriftet|fahne|karte)\b|写着|写有|写上|标语|牌子|横幅|招牌|印着|刻着|牌上|幅上"
)
"""What carries lettering, some words before the quote."""
TEXTS = (
    r"\b(?:texts?|words?|lettering|letters|inscription|textos?|palabras?|letras|inscripción|aufschrift|"
    r"worte?n?|wort|schriftzug|inschrift)\b|文字|字样"
)
"""Names of the lettering itself, directly before the quote. A person's words are farther away."""
BUBBLES = (
    r"\b(?:captions?|titled?|speech bubbles?|subtitles?|heading|título|subtítulo|bocadillo|globo|"
    r"überschrift|titel|sprechblase)\b|标题|字幕|对话框|气泡"
)
"""What is lettering in a prompt. In a request these are the texts next to an image."""
NEAR, AT_ONCE = r"[^.!?。！？]{0,25}$", r"[\s:：,，]{0,3}$"
IN_BEFORE = re.compile(rf"(?:{OBJECTS}){NEAR}|(?:{TEXTS}){AT_ONCE}", re.IGNORECASE)
DRAWN_BEFORE = re.compile(rf"(?:{OBJECTS}|{BUBBLES}){NEAR}|(?:{TEXTS}){AT_ONCE}", re.IGNORECASE)
AFTER = re.compile(
    r"^\s*(?:[一两二三四五六七八九]个?字|的(?:牌子|横幅|招牌|海报|标语|旗)|"
    r"(?:is |are )?(?:written|painted|in (?:big|large|white|red|bold) (?:letters|paint))|"
    r"(?:sign|banner|label|sticker|logo|poster)\b)",
    re.IGNORECASE,
)
NOT_LETTERING = re.compile(
    r"\b(?:captions?|subtitles?|titled?|called|named|narrator|story|tale|book|subtítulos?|titulad[oa]|"
    r"llamad[oa]|cuento|namens|genannt|heißt|geschichte|titel|untertitel|(?:who|shout|cr[yi]e|call|whisper|"
    r"ask|answer|sing|think)s?|grita|pregunta|ruft|fragt)\b|字幕|名叫|题为|叫|故事|喊|问",
    re.IGNORECASE,
)
AS_CAPTION = re.compile(r"\s*(?:as|for) (?:the |a |its )?(?:caption|title|subtitle|name)\b", re.IGNORECASE)
WELCOME = re.compile(
    r"\b(?:texts?|words?|letter(?:s|ing)?|signs?|labels?|labell?ed|posters?|titles?|titled|headlines?|"
    r"speech|bubbles?|comics?|manga|infographics?|diagrams?|logos?|cards?|covers?|banners?|textbook|"
    r"worksheet|menu|advert\w*|flyer|newspaper|annotat\w+|memes?|textos?|palabras?|letreros?|carteles?|"
    r"títulos?|cómics?|historietas?|etiquetas?|infografías?|schrift\w*|wort|wörter|schild\w*|plakat\w*|"
    r"titel|beschrift\w*|infografik\w*|logo|karte|sprechblasen?|bande dessinée|storyboard)\b|"
    r"(?<!说明)文字|标题|海报|漫画|标签|标注|招牌|牌子|横幅|卡片|封面|信息图|课本|对话",
    re.IGNORECASE,
)
"""Words of a request for images that may contain lettering."""
TEXT = (
    r"(?:captions?|texts?|descriptions|subtitles|bildunterschriften|bildtexte?|texte?|subtítulos|textos?|"
    r"leyendas?)\b"
)
NOT_WITHIN = r"(?!\s(?:in|on|inside|within|im|auf|en)\b)"
NO_CAPTIONS = re.compile(
    rf"\b(?:no|without(?: any)?|sin(?: ning[uú]n)?|ohne(?: jeden)?|keine?) {TEXT}{NOT_WITHIN}|"
    r"(?:^|[.,;:(]\s?|\b(?:and|with|ganz|e|und)\s)(?:no|without|sin|ohne|keine) (?:any )?"
    r"(?:words|palabras|worte)\b|"
    r"\b(?:don't|do not|never) (?:add|write|include|put|use|want|need) (?:any )?"
    rf"(?:{TEXT}|words\b){NOT_WITHIN}|"
    rf"\b(?:leave out|omit|skip|avoid) (?:any |the )?{TEXT}{NOT_WITHIN}|\b(?:wordless|textless)\b|"
    r"\b(?:(?:just|only) (?:the )?(?:pictures|images)|nur bilder|s[oó]lo imágenes)(?=\W*$|[,.;!])|"
    r"(?:不要|不需要|没有|无|不用|不加|不带)(?:配)?(?:任何)?(?:文字|说明|字幕|配文)|只要(?:图片|图像|图)",
    re.IGNORECASE,
)
"""A request without captions. "No text in the image" forbids lettering alone."""
NAMED = r"(?-i:[A-ZÄÖÜ][^\W\d_]*(?: (?:[A-ZÄÖÜ][^\W\d_]*|of|the|and|und|de|la|y)){0,6})"
BARE = re.compile(
    rf"(?:{OBJECTS})(?: (?:that |which )?(?:reading|reads|says|saying)|"
    r"[^.!?,\"'“„«‘]{0,25}? (?:with the (?:words?|text)|que dice|mit der aufschrift)) "
    rf"(?P<named>{NAMED})|"
    r"(?P<capitals>(?-i:[A-Z]{2,}(?: [A-Z]{2,}){0,5})) (?:is |are )?(?:written|painted|in (?:big|bold))",
    re.IGNORECASE,
)
"""Lettering without quotes. In Chinese, what is written and what it is about look the same."""


def missing_text(checked: Checked) -> Found:
    """Find texts that the request asks for in an image and that no prompt has."""
    texts = [checked.plan.style, *(prompt for _, prompt in checked.drawn)]
    for quote in _lettering(checked.request, IN_BEFORE):
        clause = re.split(
            r"[.!?。！？，,;:]\s?", checked.request[max(0, quote.start - AROUND) : quote.start]
        )[-1]
        other = NOT_LETTERING.search(clause) or AS_CAPTION.match(checked.request[quote.end :])
        if checked.drawn and not other and not any(_has(text, quote.text) for text in texts):
            yield None, f"No prompt has the requested text '{shown(quote.text)}'."


def _has(prompt: str, text: str) -> bool:
    """Return whether a prompt has a text as whole words; in Chinese, alone in quotes or without any."""
    wanted = plain(text)
    if HAN.search(wanted):
        return wanted in plain(without_quotes(prompt)) or any(
            plain(one.text) == wanted for one in quotes(prompt)
        )
    return f" {wanted} " in f" {plain(prompt)} "


def unasked_words(checked: Checked) -> Found:
    """Find lettering in prompts, and captions, that the request does not ask for."""
    if not checked.request.strip():
        return
    if NO_CAPTIONS.search(checked.request):
        for step in checked.plan.steps:
            if step.prompt and step.auxiliary_text:
                yield step.number, "The step has a caption, but the request asks for none."
    if WELCOME.search(NO_CAPTIONS.sub("", checked.request)):
        return
    asked = plain(checked.request)
    for step, prompt in checked.drawn:
        for quote in _lettering(prompt, DRAWN_BEFORE):
            if plain(quote.text) not in asked:
                yield step.number, f"No one asked for the text '{shown(quote.text)}' in the image."
                break


def _lettering(text: str, before: re.Pattern[str]) -> Iterator[Quote]:
    """Yield the texts without quotes, and the quotes that words around them make lettering."""
    for bare in BARE.finditer(text):
        yield Quote(bare["named"] or bare["capitals"], *bare.span())
    for quote in quotes(text):
        around = text[max(0, quote.start - AROUND) : quote.start], text[quote.end : quote.end + AROUND]
        if before.search(around[0]) or AFTER.match(around[1]):
            yield quote


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
