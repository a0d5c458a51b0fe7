"""Finds how many steps a request asks for ("in 40 steps", "Drei Bilder: ...", 用十二步), and whether images.

The result decides whether a plan is written in one reply or in parts, how many lines an outline should have,
and whether the planner is asked again. It never rejects a plan: a missed number or a missed request for
images costs nothing, and its plan is used as it is. So only clear phrases count. A number is exact only if
its place in the request makes clear that it counts the steps, since a wrong one costs a second plan. Digits
and the small numbers are known in the languages of the interface; greater number words in English only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from ...core.types import MAX_STEPS, Request

MAX_READ = 20_000
"""Maximum length, in characters, of the part of a request that is read."""
AROUND = 60
"""Characters before and after a number that decide what it counts."""

_SMALL = """
one two three four five six seven eight nine ten eleven twelve
_ zwei drei vier fünf sechs sieben acht neun zehn elf zwölf
_ dos tres cuatro cinco seis siete ocho nueve diez once doce
_ deux trois quatre cinq six sept huit neuf dix onze douze
_ duas três quatro cinco seis sete oito nove dez onze doze
_ dois три четыре пять шесть семь восемь девять десять
_ iki üç dört beş altı yedi sekiz dokuz on
_ 두 세 네 다섯 여섯 일곱 여덟 아홉 열
"""
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
VALUES = {word: at for row in _SMALL.strip().splitlines() for at, word in enumerate(row.split(), 1)}
VALUES |= {"один": 1, "две": 2, "два": 2, **{word: at for at, word in enumerate(_TEENS.split(), 13)}}
TENS = {word: 10 * at for at, word in enumerate(_TENS.split(), 2)}
VALUES = {word: value for word, value in VALUES.items() if word != "_"} | TENS
HAN_DIGITS = {sign: at for at, sign in enumerate("零一二三四五六七八九")} | {"两": 2, "兩": 2}


def _any(words: object) -> str:
    return "|".join(sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


NUMBER = (
    rf"\d{{1,4}}|on\s(?:iki|üç|dört|beş)|(?:{_any(TENS)})[\s-](?:{_any(_SMALL.split()[:9])})|{_any(VALUES)}"
)
IMAGE_UNITS = (
    "pictures?|images?|illustrations?|drawings?|photos?|paintings?|sketch(?:es)?|bild(?:er)?n?|zeichnung(?:en)?|"
    "illustration(?:en)?|fotos?|im[aá]gen(?:es)?|dibujos?|ilustraci(?:ón|ones)|dessins?|imagens?|desenhos?|"
    "ilustraç(?:ão|ões)|картин\\w{1,3}|изображени\\w{1,2}|рисунк\\w{1,3}|resim\\w{0,4}|görsel\\w{0,4}"
)
STEP_UNITS = (
    "steps?|stages?|panels?|pages?|scenes?|frames?|slides?|shots?|schritte?n?|szenen?|seiten?|panele?|pasos?|"
    "etapas?|escenas?|páginas?|viñetas?|paneles|étapes?|scènes?|cases|passos?|cenas?|quadros?|шаг\\w{0,3}|"
    "сцен\\w{0,2}|страниц\\w{0,2}|кадр\\w{0,3}|adım\\w{0,5}|sahne\\w{0,5}|kare\\w{0,5}|sayfa\\w{0,4}"
)
NOT_ADJECTIVES = (
    "of|the|an?|and|or|in|on|at|to|from|with|by|for|is|are|has|have|as|that|these|those|this|my|your|no|than|"
    "von|der|die|das|den|und|oder|im|mit|zu|für|de|del|la|el|los|las|y|o|con|en|por|para|du|des|les|et|avec"
)
UNIT = re.compile(rf"[\s-](?:{IMAGE_UNITS}|{STEP_UNITS})(?!\w)", re.IGNORECASE)
SPACED = re.compile(
    rf"(?<![\w-])(?:(?P<digits>\d{{1,4}})\s?[-–—]\s?|(?P<least>{NUMBER})\s(?:to|or|bis|oder|a|o|à|ou|до|или)\s)?(?P<most>{NUMBER})"
    rf"(?P<gap>[\s-])(?:(?!(?:{NOT_ADJECTIVES})\s)[^\W\d]{{1,20}}\s){{0,2}}?"
    rf"(?:(?P<image>{IMAGE_UNITS})|(?:{STEP_UNITS}))(?!\w)",
    re.IGNORECASE,
)
LED = r"\b(?:in|into|exactly|precisely|genau|en|exactamente|exactement|em|exatamente|в|за|ровно|tam)\s{1,3}"
LEAD = re.compile(rf"{LED}(?:{LED})?$", re.IGNORECASE)
MAKER = re.compile(
    r"\b(?:draw|paint|sketch|illustrate|create|generate|make|show|give|zeichnet?|malt?|male|erstelle|zeige?|"
    r"dibuja|crea|genera|haz|muestra|dessine[zr]?|montre|desenhe|crie|mostre|нарисуй(?:те)?|покажи)"
    r"(?:-moi|\s(?:me|us|mir|uns|bitte|please|exactly|just|only|genau)){0,2}\s$",
    re.IGNORECASE,
)
GENRE = re.compile(
    r"\b(?:comics?|comic strip|story|tale|guide|recipe|tutorial|manga|storyboard|series|geschichte|märchen|"
    r"anleitung|rezept|cómic|cuento|historia|receta|guía|bande dessinée|conte|recette|quadrinhos|conto|"
    r"комикс|сказка|рассказ)\s(?:with|of|in|mit|aus|de|con|en|com|em|из|в)\s$",
    re.IGNORECASE,
)
EACH = "each|every|per|apiece|jede[mnrs]?|jeweils|pro|cada|chaque|par|кажд\\w{2,3}|her"
EACH_BEFORE = re.compile(rf"\b(?:{EACH})\b[^.!?:;]{{0,25}}$", re.IGNORECASE)
EACH_AFTER = re.compile(rf"\s(?:[^\W\d]{{1,5}}\s)?(?:{EACH})\b", re.IGNORECASE)
PLACE_AFTER = re.compile(r"\s+(?:on|at|hang\w*|above|over|auf|an|sur|sobre|на)\b", re.IGNORECASE)
GENRE_AFTER = re.compile(r"\s(?:[^\W\d]{1,20}\s)?(?:comic|story|guide|recipe|tutorial|strip|series)\b", re.I)
TURKISH = re.compile(r"(?:adım|sahne|kare|sayfa|resim)\w{0,2}(?:da|de|la|le|lık|lik)$", re.IGNORECASE)
TURKISH_VERB = re.compile(r"\s(?:çiz|göster|oluştur)", re.IGNORECASE)
BEGUN = re.compile(r"(^|[.!?:;,(—–\n。，：；！？、])\s*$")
ALONE = re.compile(
    r"\s*(?:$|[.!?:;)—–\n。！？：；])|,?\s(?:with|each|mit|jede|con|avec|com|с)\b", re.IGNORECASE
)
COMMA_AFTER = re.compile(r"\s*[,，、]")

HAN_NUMBER = rf"\d{{1,4}}|on\s(?:iki|üç|dört|beş)|[{''.join(HAN_DIGITS)}十百]{{1,5}}"
UNSPACED = re.compile(
    rf"(?:(?P<least>{HAN_NUMBER})\s?[-–~到至]\s?)?(?P<most>{HAN_NUMBER}|[두세네]|다섯|여섯|일곱|여덟|아홉|열)\s?"
    "[个個つ]?(?:の)?\\s?(?P<unit>ステップ|コマ|ページ|段階|场景|場景|場面|画面|畫面|シーン|步骤|步驟|단계|장면|"
    "페이지|[步歩格页頁컷]|[张張幅枚장])(?P<image>图|圖|画|畫|插|漫|绘|の絵|の画像|のイラスト)?"
)
SURE_UNITS = re.compile(r"[步歩格页頁컷]|\w\w")
UNSPACED_NOT = re.compile(r"(?:每|第|下|上|这|這|那|进|進|各|其|此|この|その|毎|走|退|前|이|그|각|매|제)\s?$")
UNSPACED_LEAD = re.compile(r"(?:用|分成|分|共|以|恰好|恰|配|全部で|計)\s?$")
UNSPACED_MADE = re.compile(r"(?:画|畫|绘制|繪製|生成|创作|制作|做|展示)(?:了|成|出)?\s?$")
UNSPACED_AFTER = re.compile(r"で|に分け|을? ?描|描|展示|讲|講|教|说明|說明|完成|(?:으)?로|\s?만화|의\s?그림")


@dataclass(frozen=True)
class AskedCount:
    """A number of steps, from `least` to `most`.

    Attributes:
        least: Smallest number.
        most: Greatest number.
        exact: There is one number, and it clearly counts the steps.
        of_images: It counts images, and text-only steps may be added.
    """

    least: int
    most: int
    exact: bool = False
    of_images: bool = field(default=False, compare=False)

    @property
    def is_clear(self) -> bool:
        """Whether it clearly counts the steps: an exact number, or a range."""
        return self.exact or self.least < self.most

    @property
    def words(self) -> str:
        """The count as it is inserted into a prompt."""
        return f"{self.most}" if self.least == self.most else f"{self.least} to {self.most}"

    def distance(self, count: int) -> int:
        """Return by how many steps a number of steps is outside of the range."""
        return max(self.least - count, count - self.most, 0)


class _Found(NamedTuple):
    """A number in a request. `rank`: 2 after "in" or "exactly", 1 in another clear place, else 0."""

    least: int
    most: int
    rank: int
    of_images: bool


def asked_count(text: str) -> AskedCount | None:
    """Return the count that a request names: the first exact one, else the largest; `None` if none.

    Numbers in clear places that differ are not exact.
    """
    counts = _counts(text)
    led = [one for one in counts if one.rank == 2 and one.least == one.most]
    if led:
        return AskedCount(led[0].most, led[0].most, exact=True)
    clear = [one for one in counts if one.rank == 1 and one.least == one.most]
    if clear and len({one.most for one in clear}) == 1:
        return AskedCount(clear[0].most, clear[0].most, True, all(one.of_images for one in clear))
    best = max(counts, key=lambda one: one.most, default=None)
    return best and AskedCount(best.least, best.most)


def asked_images(text: str) -> int | None:
    """Return the one number of images that a request clearly names, or `None`."""
    clear = {one.most for one in _counts(text) if one.rank and one.of_images and one.least == one.most}
    return clear.pop() if len(clear) == 1 else None


def _counts(text: str) -> list[_Found]:
    """Return all numbers of a request that may count steps."""
    text, found = text[:MAX_READ], []
    # A unit is found much faster than a number with its unit.
    spaced = ((SPACED, _spaced_rank),) if UNIT.search(text) else ()
    for pattern, rank_of in (*spaced, (UNSPACED, _unspaced_rank)):
        for one in pattern.finditer(text):
            before = text[max(0, one.start() - AROUND) : one.start()]
            after = text[one.end() : one.end() + AROUND]
            if pattern is UNSPACED and UNSPACED_NOT.search(before):
                continue
            most = _value(one["most"])
            lowest = one["least"] or one.groupdict().get("digits")
            least = _value(lowest) if lowest else most
            found.append(_Found(least, most, rank_of(one, before, after), bool(one["image"])))
    return [one for one in found if 1 <= one.least <= one.most <= MAX_STEPS]


def _spaced_rank(found: re.Match[str], before: str, after: str) -> int:
    if EACH_BEFORE.search(before) or EACH_AFTER.match(after):
        return 0
    if LEAD.search(before):
        return 2
    if found["gap"] == "-":
        return int(GENRE_AFTER.match(after) is not None)
    if GENRE.search(before) or TURKISH.search(found.group()) or TURKISH_VERB.match(after):
        return 1
    is_made = MAKER.search(before) and not PLACE_AFTER.match(after)
    return int(bool(is_made) or _is_alone(before, after))


def _unspaced_rank(found: re.Match[str], before: str, after: str) -> int:
    if UNSPACED_LEAD.search(before):
        return 2
    sure = bool(SURE_UNITS.match(found["unit"]) or found["image"])
    made = sure and (BEGUN.search(before) or UNSPACED_MADE.search(before))
    return int(bool(made or UNSPACED_AFTER.match(after)) or _is_alone(before, after))


def _is_alone(before: str, after: str) -> bool:
    """Return whether a number with its unit is a phrase of its own, as in "A boat. Eight scenes."."""
    begun = BEGUN.search(before)
    if begun is None:
        return False
    if ALONE.match(after):
        return True
    return begun[1] not in ("", ",", "，", "、") and COMMA_AFTER.match(after) is not None


def _value(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if text[0] in HAN_DIGITS or text[0] in "十百":
        total, one = 0, 0
        for sign in text:
            if sign in "十百":
                total, one = total + (one or 1) * (10 if sign == "十" else 100), 0
            else:
                one = HAN_DIGITS[sign]
        return total + one
    words = re.split(r"[\s-]", text.lower())
    return sum(VALUES[word] for word in words)


START = (
    r"(?:^|[.!?:;,\n。！？：；，、]|\b(?:and|then|please|und|dann|bitte|et|puis|y|luego|e|depois|и|затем|"
    r"can you|could you|por favor)\s|请|請|再|并|帮我|然后)\s{0,9}"
)
VERB = re.compile(
    rf"{START}(?:(?:draw|paint|sketch|illustrate|visuali[sz]e|depict|zeichnet?|malt?|male|illustrier[et]|"
    r"dib[uú]ja(?:me)?|dibuje|pinta|ilustr[ae]|dessine[zr]?|illustre[zr]?|desenh[ae]|нарисуй(?:те)?|рисуй)\b|"
    r"(?:show|zeige?t?|muestra|muestre|muéstrame|montre[zr]?|mostr[ae]|покажи(?:те)?)\b(?!,?[\s-](?:(?:me |"
    r"us |mir |uns )?,? ?(?:that|why|your|whether|if|how many|how much|the (?:proof|code|math)|dass|warum|ob|"
    r"wie ?viele?|que|pourquoi|por qué|что|почему)\b))|画(?!家|展|廊|框|像|中|里|上|風|质)|"
    r"畫(?!家|展|廊|框|像|中|裡|上)|绘制|繪製|生成|展示)|그려|描いて|\b(?:çiz|göster)\b\s{0,9}(?:$|[.!?:;,\n])",
    re.IGNORECASE,
)
_NOUN = (
    "pictures?|images?|illustrations?|drawings?|photos?|bild(?:er)?n?|illustrationen|zeichnungen|"
    "im[aá]gen(?:es)?|ilustraciones|dibujos?|dessins?|imagens|desenhos?|картинк\\w{2,3}|иллюстраци\\w{2,3}"
)
PHRASE = re.compile(
    r"\b(?:with|in|as|using|mit|als|avec|en|con|com|с|в)(?!\s(?:the|this|these|those|my|your|de[nmr]|diese[nmr]?|"
    rf"les?|la|las?|los?|estas?|estos?)\s)(?:\s[^\W\d]{{1,15}}){{0,2}}?\s(?:{_NOUN})\b|"
    r"\b(?:picture|image|illustration|drawing|photo|bild|image|imagen)s? (?:for|with|in|per|par|por|pro|für) "
    r"(?:each|every|étape|cada|jede)|"
    r"\ban? (?:comic|storyboard|picture book)(?: strip)?(?: about| in| of| with|:)|"
    r"\b(?:ein comic|un c[oó]mic|une bd|uma hq|комикс) (?:über|mit|aus|sobre|de|con|sur|com|из|про)\b|"
    r"illustrated (?:story|guide|recipe|tale)|\b(?:create|generate|make) (?:an?|some) (?:picture|image|"
    r"illustration|drawing|photo)s? of|resimli|配图|配圖|插图|插圖|图文|圖文|绘本|繪本|"
    r"格漫[画畫]|展示(?:。|$)|"
    r"(?:絵|画像|イラスト|写真)(?:で|を(?:作|生成))|(?:그림|이미지|삽화)으로",
    re.IGNORECASE,
)
NO_IMAGES = re.compile(
    rf"\b(?:without(?: any)?|no|ohne(?: jegliche)?|keine|sans|sin|sem|без) (?:{_NOUN}|картин\w{{0,4}})\b|"
    r"\btext[ -]only|only (?:text|words)|words only|just (?:text|words)|in words|"
    r"(?:do not|don't) (?:draw|paint|illustrate|show)|nur (?:text|worte|in worten)|zeichne nicht|"
    r"s[oó]lo (?:texto|palabras)|no dibujes|texte seul|ne dessine|resim olmadan|resimsiz|"
    r"(?:不要|不用|不需要|没有|沒有|无|無|不配|不画|不畫)(?:任何)?(?:图|圖|插|"
    r"配|画|畫)|(?:只要|只用)文字|(?:画像|絵|イラスト)(?:なし|は不要)|(?:그림|이미지) ?(?:없이|없는)",
    re.IGNORECASE,
)


def asks_for_none(text: str) -> bool:
    """Return whether the text of a request says that there are to be no images."""
    return NO_IMAGES.search(text[:MAX_READ]) is not None


def asks_for_images(request: Request) -> bool:
    """Return whether a request clearly asks for images.

    With images in the request, only a verb at the start of a sentence counts ("Draw ..."), since the request
    may be to describe or count them.
    """
    text = request.text[:MAX_READ]
    if asks_for_none(text):
        return False
    if VERB.search(text):
        return True
    counted = any(one.rank and one.of_images for one in _counts(text))
    return not request.images and (PHRASE.search(text) is not None or counted)
