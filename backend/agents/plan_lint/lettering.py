"""Texts in quotes that are to be readable in an image: missing ones, and those not asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .findings import Checked, Found
from .texts import HAN, Quote, plain, quotes, shown, without_quotes

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
