"""Finds the cast members in a prompt. `@Name` marks decide, and names are a proposal.

A name does not always mean that somebody is to be seen: "the mill without Mia", "Remove Mia", "Mia's dog", "a
photo of Mia". The tables have what says so in the languages of the plan check: English, Spanish, German and
Chinese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from .cast import MAX_CAST, UNSPACED, CastMember
from .checklist import LETTERING

AROUND = 60
"""Number of characters that are read before and after a name."""
OWN_LETTERS = "äöüÄÖÜ"
"""Letters that are not read as their letter without an accent: in German, Bär and Bar are two words."""
CONNECTED = re.compile(r"(,? ?(?:\b(?:and|or|nor|und|oder|noch|y|e|o|ni)\b|&)(?: a)?|,|[和与跟及、或]) ?")
ARTICLE = re.compile(
    r"(?:\b(?:the|el|la|los|las|de[rmn]|die|das|his|her|their|sus?|ihre?n?|seine?n?) )$", re.I
)

HAN = re.compile("[\u4e00-\u9fff]")


def _any(words: str) -> str:
    """Return the alternatives of a table of words. In a word, _ is a space."""
    return f"(?:{'|'.join(words.split())})".replace("_", " ")


BODY = _any("""
    face hair head eyes? hands? fingers? arms? legs? feet foot mouth lips smile back shoulders? cheeks? gaze
    expression nose neck lap side left right front shadow reflection silhouette profile paws? tail ears?
    cara rostro pelo cabello cabeza ojos? manos? dedos? brazos? piernas? pies? boca sonrisa espalda hombros?
    mirada nariz cuello regazo lado izquierda derecha sombra reflejo silueta perfil
    gesicht haare?n? kopf augen? hand hände?n? finger arme?n? beine?n? füßen? mund lächeln rücken schultern?
    blick nase hals schoß seite linken rechten schatten spiegelbild nähe
""")
"""Body parts and positions: "Mia's hand" shows Mia."""
HAN_BODY = (
    r"(?:[前后左右旁身对].?[面边方侧旁后前上]|[左右旁]|.{0,3}(?:脸|面[部容孔]|头(?![盔巾像])|眼(?!镜)|手(?![机表套提电工])|"
    "脚(?!踏)|腿|肩|背影|身[影体]|影子|倒影|嘴|怀|笑|表情|特写))"
)
FRAMED = _any(r"""
    group pair view shot close-?up sheet version pose figure scene image illustration study company presence
    grupo plano vista hoja figura escena imagen ilustración cerca delante detrás encima debajo alrededor lejos
    junto dentro enfrente gruppe \w*ansicht \w*aufnahme figur szene
""")
"""What an image is of: "a close-up of Mia" shows Mia. Also places next to somebody."""
WORN = _any("""
    coat jacket dress shirt hat cap scarf skirt trousers pants shoes boots sweater cape glasses clothes
    abrigo chaqueta vestido camisa sombrero gorr[oa] bufanda falda pantal(?:ón|ones) zapatos botas gafas ropa
    mantel jacke kleid hemd hut mütze schal rock hose schuhe stiefel pullover brille kleidung
""")
HAN_WORN = "(?:衣|裙|帽|外套|围巾|裤|鞋|靴|眼镜|衬衫)"
EDIT = _any("""
    change make turn give paint recolor color remove replace adjust
    cambia pinta haz quita tiñe pon dale elimina änder färb mach entfern mal ersetz
""")
PORTRAIT = _any("""
    portrait photo photograph picture painting drawing sketch retrato foto fotografía dibujo pintura
    porträt bild gemälde zeichnung
""")
PICTURE = _any(rf"""
    {PORTRAIT} statue bust sculpture poster figurine mural cuadro estatua busto escultura cartel
    \w*statue büste skulptur plakat wandbild
""")
ON_SHOW = _any(r"""
    (?:hangs?|hung|lies|leans|stands|cuelga|hängt|liegt|steht)\b
    (?:in|on)_(?:an?|the|his|her)_(?:\w+_)?(?:wall|frame|table|desk|shelf|drawer)
    (?:en|sobre)_(?:la|el|un|una)_(?:pared|marco|mesa|estante)
    (?:an|auf|in)_(?:der|dem|einem|einer)_(?:wand|rahmen|tisch|regal)
""")
REMOVE = _any("""
    removes? erases? deletes? omit exclude (?:cut|crop|edit|leave)_out get_rid_of
    (?:quit|elimin|borr|retir)(?:a|ar|e) suprim(?:e|ir) omite excluye
    entfern(?:e|en|t) lösch(?:e|en|t) streiche radiere retuschiere
""")
ADVERB = _any("""
    please also now completely bitte auch jetzt ganz vollständig también por_completo completamente
""")
HAN_REMOVE = "(?:移除|移走|去掉|去除|除去|删除|删掉|删去|抹去|抹掉|擦掉|擦除|拿掉|消除|裁掉)"
LETTER = _any("""
    letter note message (?:post)?card parcel present gift invitation carta nota mensaje postal paquete regalo
    invitación brief nachricht (?:post)?karte paket geschenk einladung zettel
""")
OF = "(?:of|de|von)"
SHOWING = "(?:of|showing|depicting|with|de|con|von|mit)"
OWNER = "(?!['’]?s )"
W, SOME = r"(?:[\w-]+ )?", r"(?:[\w-]+ ){0,3}"
"""Optional words between others: at most one, and at most three."""

BUT = "(?:but|except(?: for)?|excepto|salvo|menos|außer)"
END = r"[,.;]|$"

SEEN = rf"""
    (?:no ?body|no one|none|nothing|without anyone|nadie|niemand|{REMOVE}) {W}{BUT} §
    除了?§(?:以外|之外|外)?[，,]?(?:没有|无|空无)
    ^(?:\w{{1,4}} )?(?!framed|torn|gerahmt|enmarcad){W}{PORTRAIT} {SHOWING} §(?! {ON_SHOW})
    ^(?:一[幅张])?§的(?:肖像|画像|照片)(?:[，。,.]|$)
    {EDIT}\w* {SOME}§(?:['’]s?|s) {SOME}{WORN}\b
    {EDIT}\w* {SOME}{WORN} {W}{OF} §
    [把将给]§(?:身上|头上)?的[^，。,.]{{0,4}}{HAN_WORN}
    (?:{HAN_REMOVE}|摘掉|脱掉)§.{{0,6}}{HAN_WORN}
"""
"""Phrases that show a member although `GONE` or `APART` matches too. § is the name without its article."""
GONE = rf"""
    (?:without|every(?:one|body) but|except(?: for)?|instead of|minus|neither|nor|not) §
    no (?:(?:sign|trace) of )?§
    § (?:is|are|was|were) {W}(?:(?:gone|absent)\b(?! in)|(?:removed|erased|deleted)\b)
    § (?:is|are|was|were) (?:away\b|missing(?= from|{END}))
    § (?:is|are|was|were)(?:n't| not| no longer) (?:here|there|in|at|on|visible|present|around|to be seen)\b
    § (?:has|have|had) {W}(?:disappeared|vanished)\b
    § (?:has|have|had) {W}(?:gone|left)(?={END}| (?:and|home|away|out|the (?:room|house|scene|picture))\b)
    § (?:used to|left(?! of| side| \w+ (?:hand|arm|foot)))\b
    § (?:(?:is |are )?nowhere(?= to be|{END})|(?:removed|erased|deleted)\b)
    (?:before|until) § (?:arrives?|comes?|enters?|appears?)\b
    after § (?:left|leaves?|has|had)\b
    {REMOVE} (?:{ADVERB} )?(?:a )?§{OWNER}
    {REMOVE} {W}(?:figure|person|figura|persona) {OF} §{OWNER}
    (?:make § (?:disappear|vanish)|haz desaparecer a §|lass(?:e|t)? § {SOME}verschwinden)
    (?:take|cut|crop|leave|edit|paint) § (?:out (?:of|and)|away)
    (?:replace|swap) § (?:with|by|for)\b
    (?:sin|ni|excepto|salvo|en (?:lugar|vez) de|faltan?|no (?:está|están|aparecen?|se ven?)(?: a)?) §
    § (?:(?:ya|todavía|aún) )?no (?:aparecen?|se ven?|han?|viene|están?(?= (?:aquí|ahí|allí|en|más)\b|{END}))
    § (?:se (?:ha|han|fue|fueron)|(?:ha|han) (?:desaparecido|salido de la imagen)|faltan?)\b
    § (?:está |están )?(?:eliminad|borrad|quitad|ausente)
    (?:saca|sacar) a § de la (?:imagen|escena|foto)
    (?:sustituye|reemplaza) a § por\b
    (?:ohne|au(?:ß|ss)er|statt|anstelle von|weder|noch|keine?n?|nicht|fehl(?:t|en)) §
    § (?:ist|sind|war|waren) {SOME}(?:weg|fort|verschwunden|abgereist|(?:weg|fort)?gegangen)\b
    § (?:ist|sind|war|waren) {SOME}nicht (?:mehr )?(?:da|hier|dort|in|im|am|auf|zu sehen|dabei)\b
    § (?:wurden?|wird|werden) {SOME}(?:entfernt|gelöscht)
    § (?:fehl(?:t|en)|entfernt|gelöscht|(?:aus \w+ \w+ )?(?:entfernen|löschen|weglassen|herausnehmen))\b
    (?:nachdem § (?:gegangen|fort|weg)|bevor § kommt)\b
    (?:(?:nimm|nehmt) § (?:aus|weg)|ersetze § durch|lass(?:e|t)? § weg)\b
    (?:没有?|无|除了?|缺少|少了|看不[到见]|不见|不含|不包括)§
    §(?:已经|已|早已|早就|都|并|也|还)?(?:不在|不见|没有?[来到出]|消失|缺席|[已被]{{1,2}}{HAN_REMOVE})
    §(?:已经|已|早已|早就|刚刚?|刚才)(?:离开|走)
    §[都全]?(?:离开|走)(?:之?后|以后|了?(?:[，。,.]|$))
    让§(?:从.{{1,8}})?消失
    {HAN_REMOVE}了?(?:画面|图片?|图像|照片|场景)?[里中上内]?的?§(?![的头身])
    [把将]§(?:从[^，。]{{1,8}})?(?:{HAN_REMOVE}|换成|替换)
    用.{{1,8}}(?:替换|换掉|代替)§
"""
APART = rf"""
    §(?:['’]s?|s) (?!{SOME}{BODY}\b)
    §(?:的(?!{HAN_BODY})|家|(?:小时候|年轻时)的)
    (?:the|an?|some|this|that|his|her|their|two) (?!{W}(?:{BODY}|{FRAMED})\b){W}[\w-]+ of §{OWNER}
    (?:el|la|los|las|una?|unos|unas|sus?) (?!{W}(?:{BODY}|{FRAMED})\b){W}[\w-]+ de §
    (?!(?:{BODY}|{FRAMED})\b)(?-i:[A-ZÄÖÜ])\w+ von §{OWNER}
    {PICTURE}s? (?:(?:of|de|aus) )?{W}{SHOWING} §{OWNER}
    (?:wood(?:en)?|clay|snow|paper|toy|wax|bronze|marble) {W}of §
    (?:(?:belongs|belonging) to|(?:reserved|built|meant) for) §
    (?:gehört|gehören|perteneciente a|pertenece a|about) §
    (?:libro|novela|cuento|historia|canción|película|buch|roman|geschichte|lied|film|gedicht) (?:sobre|über) §
    {LETTER}\w{{0,2}} {W}(?:to|for|from|about|of|a|para|de|an|für|von) §{OWNER}
    (?:writ(?:es?|ing)|escriben?|schreib(?:t|en)) {SOME}(?:to|a|an) §
    (?:wait|look|search|long)(?:s|es|ing)? for §
    (?:think|dream)(?:s|ing)? of §
    (?:miss(?:es|ing)?|remembers?|dressed (?:up )?as) §
    (?:esperan?|buscan?|extrañan?|recuerdan?|echan? de menos) a §
    (?:piensan?|sueñan?) (?:en|con) §
    wart(?:et|en) {SOME}auf §
    such(?:t|en) (?:nach )?§
    (?:denk(?:t|en) {SOME}an|träum(?:t|en) von|vermiss(?:t|en)) §
    (?:给§写|[写寄]给§|等[着待候]?§|想[着念起]§|思念§|[寻找]找?§|[印画刻]着§|梦见§|关于§|属于§)
"""
"""Phrases that only mention a member: owners, pictures, and objects of writing, waiting and thinking."""


@cache
def _pattern_of(phrases: str) -> re.Pattern[str]:
    """Return the pattern of a table with a phrase in each line. Words of the spaced scripts are whole."""
    rows = [row.strip() for row in phrases.strip().splitlines()]
    whole = [row if row[0] in "§^" or HAN.search(row) else rf"\b{row}" for row in rows]
    return re.compile("|".join(whole), re.IGNORECASE)


Manner = Literal["seen", "gone", "apart"]
_Place = tuple[CastMember, int, int]
"""A member with the start and the end of its name."""


class Mention(NamedTuple):
    """A member that a text names.

    Attributes:
        member: The member.
        start: Where the name begins.
        end: Where it ends.
        manner: Whether it is seen there, said to be absent ("gone"), or only spoken of ("apart").
    """

    member: CastMember
    start: int
    end: int
    manner: Manner


def members_in(cast: Sequence[CastMember], names: Sequence[str] | None, prompt: str) -> list[CastMember]:
    """Return the members that are in a step, in the order of the cast.

    Args:
        cast: The members.
        names: Names that the step lists. `None`: those whom its prompt shows by name are proposed.
        prompt: Prompt of the step, without the style.
    """
    if names is None:
        listed = {one.member.name.casefold() for one in mentions(cast, prompt) if one.manner == "seen"}
    else:
        listed = {name.casefold() for name in names}
    return [member for member in cast if member.name.casefold() in listed]


def mentions(cast: Sequence[CastMember], text: str) -> Iterator[Mention]:
    """Yield where a text names members, outside of quotes. The longest name counts: not Tom in "Old Tom".

    Capitals count in the name of a character, so Will is not in "it will rain".
    """
    text = LETTERING.sub(lambda found: '"' * len(found.group()), text)
    found = list(_named(cast, text))
    seen: set[str] = set()
    at = 0
    while at < len(found):
        end = _last_of_list(found, at, text)
        for member, start, stop in found[at : end + 1]:
            # Once a member is seen, other places do not change that, and reading them takes time.
            around = "" if member.name in seen else _around(member, text, found[at][1], found[end][2])
            manner = _manner(around, member.kind == "character")
            if manner == "seen":
                seen.add(member.name)
            yield Mention(member, start, stop, manner)
        at = end + 1


def without_marks(cast: Sequence[CastMember], prompt: str) -> tuple[str, tuple[str, ...]]:
    """Return a prompt without the `@` of `@Name` marks, which no capitals need, and the marked names."""
    found = list(_named(cast, prompt, "@")) if "@" in prompt else []
    for _, start, _ in reversed(found):
        prompt = prompt[:start] + prompt[start + 1 :]
    return prompt, tuple(dict.fromkeys(member.name for member, _, _ in found))


def _around(member: CastMember, text: str, start: int, end: int) -> str:
    """Return the words around a name, or a list of names, which is § in them."""
    before = ARTICLE.sub("", text[max(0, start - AROUND) : start])
    if member.kind != "character":
        before = re.sub(r"\ban? $", "", before, flags=re.IGNORECASE)
    return f"{'…' if start > AROUND else ''}{before}§{text[end : end + AROUND]}".replace("\n", " ")


@lru_cache(1024)
def _manner(around: str, is_character: bool) -> Manner:
    if _pattern_of(SEEN).search(around):
        return "seen"
    if _pattern_of(GONE).search(around):
        return "gone"
    # "The door of the mill" shows the mill.
    return "apart" if is_character and _pattern_of(APART).search(around) else "seen"


def _last_of_list(found: Sequence[_Place], first: int, text: str) -> int:
    """Return the place of the last name of a list such as "Mia, Tom and Rose" that begins at `first`."""
    last = first
    for place in range(first + 1, min(len(found), first + MAX_CAST)):
        between = CONNECTED.fullmatch(text[found[place - 1][2] : found[place][1]].lstrip(" "))
        if between is None:
            break
        # In "not Rose, and Mia", no list has begun.
        if between[1] != "," and not (place == first + 1 and between[1].startswith(",")):
            last = place
    return last


def _named(cast: Sequence[CastMember], text: str, mark: str = "") -> Iterator[_Place]:
    """Yield the names in a text; of several at one place the longest. A marked name matches in any case."""
    known: dict[str, list[CastMember]] = {}
    for member in cast:
        known.setdefault(_folded(member.name).casefold(), []).append(member)
    names = sorted(cast, key=lambda one: -len(one.name))
    either = "|".join(
        _name_pattern(_folded(one.name), bool(mark) or one.kind != "character") for one in names
    )
    before = r"(?<![A-Za-z0-9_.@])" if mark else ""
    for found in re.finditer(f"{before}{mark}(?:{either})", _folded(text)) if cast else ():
        written = text[found.start() + len(mark) : found.end()]
        # Of two names that differ only in accents, use the one in the text.
        members = known.get(_folded(written).casefold(), [])
        members = [one for one in members if one.name.casefold() == written.casefold()] or members
        if members:
            yield members[0], *found.span()


def _name_pattern(name: str, any_case: bool) -> str:
    """Return the pattern of a folded name in a folded text."""
    first, space, rest = map(re.escape, name.partition(" "))
    if any_case or not name.split()[-1][:1].isupper():
        words = f"(?i:{re.escape(name)})"
    elif space:
        words = f"(?:(?i:{first}) {rest}|{re.escape(name.upper())})"
    else:
        words = f"(?:{first}|{re.escape(name.upper())})"
    before = "" if name[0] >= UNSPACED else r"(?<!\w)"
    # In German, the owner has an s: "Mias Haus".
    after = "" if name[-1] >= UNSPACED else r"(?:(?!\w)|(?=s\s))"
    return f"{before}{words}{after}"


def _folded(text: str) -> str:
    """Return a text of the same length without the accents of Latin letters."""
    return text if text.isascii() else "".join(map(_bare, text))


def _bare(letter: str) -> str:
    bare = unicodedata.normalize("NFD", letter)[0]
    return bare if bare.isascii() and letter not in OWN_LETTERS else letter
