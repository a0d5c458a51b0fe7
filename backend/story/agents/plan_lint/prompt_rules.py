"""Rules about one prompt: it names its subject, refers to no other text, only describes, and is complete.

Each prompt is given to the image model alone, and the model generates whatever it says. The tables are in
English, Spanish, German and Chinese.
"""

from __future__ import annotations

import re
from collections import Counter

from .findings import HAN, WORD, Checked, Found, language_of, shown, stem, without_quotes

OPENING = r"^\W*(?:(?:then|now|next|finally|suddenly|please|luego|entonces|ahora|dann|jetzt|nun|bitte)\W+)?"
NAMED = r"(?:,| is| are| was)(?: now| still)?(?: an?| the| two| three| four| one)\b"
SUBJECT_ENGLISH = (
    rf"(?:he|she|they)\b(?!{NAMED})(?:'s|'re)?",
    rf"it\b(?!{NAMED})(?!(?: is|'s| was)(?: \w+){{0,2}} (?:rain\w*|snow\w*|pour\w*|night\w*|day\w*|dark|"
    rf"morning|evening|"
    r"noon|midnight|dawn|dusk|late|early|cold|hot|warm|windy|foggy|cloudy|sunny|stormy|winter|spring|"
    r"summer|autumn|christmas|time)\b)(?! (?:rains|snows|pours|(?:gets|grows|becomes|begins|starts|seems|"
    r"looks as|takes)\b))(?:'s)?",
    r"(?:make|paint|color|colour|turn|change|give|move|rotate|flip|put|place|set|cut|open|close|fill|"
    r"cover|dress|let|show|draw|remove|lift|fold|tie|pull|push|take|keep|hang|wrap|decorate|replace|cook|"
    r"bake|pour|mix|stir) (?:it|them|him|her(?= (?:an?|the|in|on|into|to|with|walk|run|sit|stand|"
    r"smile)\b))\b",
)
SUBJECT_SPANISH = (
    r"(?:él|ella|ellos|ellas)\b(?!(?:,| es| son)(?: una?| dos| el| la| los| las)\b)",
    r"(?:haz|p[ií]nta|pon|c[aá]mbia|color[eé]a|dib[uú]ja|mu[eé]ve|g[ií]ra|c[oó]rta|[aá]bre|ci[eé]rra|"
    r"ll[eé]na|da|a[nñ][aá]de|qu[ií]ta|vu[eé]lve|ti[nñ]e|dec[oó]ra|d[oó]bla|m[eé]zcla|v[ií]ste|coloca|"
    r"col[oó]ca)(?:l[oae]s?)\b(?!.*\b(?:al|a la|a los|a las|a una?) )",
)
SUBJECT_GERMAN = (
    r"(?:er|sie)\b(?!(?:,| ist| sind)(?: eine?| zwei| drei| der| die| das)\b)",
    r"(?:f[aä]rbe?|male?|mache?|gib|stelle?|setze?|lege?|drehe?|öffne|schließe|schneide|fülle|ändere|"
    r"verwandle|zeige?|lass|zeichne|bewege|falte|koche|backe|streiche?) (?:es|ihn|ihm|ihnen|sie|ihr)\b(?! "
    r"(?-i:[A-ZÄÖÜ]))",
)
SUBJECT_SPACED = re.compile(
    rf"{OPENING}(?:{'|'.join((*SUBJECT_ENGLISH, *SUBJECT_SPANISH, *SUBJECT_GERMAN))})", re.IGNORECASE
)
SUBJECT_CHINESE = re.compile(
    r"^\W*(?:然后|接着|最后|现在|再|请)?[，,]?(?:(?:把|将|给|让|使|为|帮)[他她它]们?(?!的|们的)|[他她它]们?(?!的|们|是(?:一|两|个)))"
)
DESCRIBED = re.compile(r"\b(?:has|have|wears|is an?|hat|trägt|ist eine?|tiene|lleva)\b|[有穿戴]")
"""A style that describes someone names the subject of every prompt."""


def no_subject(checked: Checked) -> Found:
    """Find prompts that begin with a pronoun."""
    if DESCRIBED.search(checked.plan.style):
        return
    words = [_words(prompt) for _, prompt in checked.drawn]
    often = Counter(word for one in words for word in one)
    for (step, prompt), mine in zip(checked.drawn, words, strict=True):
        # A word of most other prompts names what the plan is about, also after the pronoun.
        named = len(words) > 1 and any(often[word] - 1 >= (len(words) - 1) / 2 for word in mine)
        # The loop adds the names of those whom the step lists.
        if not named and not step.cast and (SUBJECT_SPACED.match(prompt) or SUBJECT_CHINESE.match(prompt)):
            yield step.number, f"The prompt does not name its subject: '{shown(prompt)}'."


def _words(text: str) -> set[str]:
    """Return the beginnings of the longer words of a text; for Chinese, its pairs of characters."""
    if HAN.search(text):
        return {
            text[at : at + 2]
            for at in range(len(text) - 1)
            if HAN.match(text[at]) and HAN.match(text[at + 1])
        }
    return {stem(word) for word in WORD.findall(text) if len(word) > 4}


STAIRS = re.compile(r"\b(?:stair\w*|ladder|staircase|porch|doorsteps?|stepping)\b", re.IGNORECASE)
"""With these, "the last step" is a thing in the image."""
STEP_WORDS = (
    r"(?:step|prompt) (?:no\. ?|number |#)?\d{1,3}\b(?! of (?:the|a) (?:stair|ladder|porch))",
    r"(?:using|based on|build(?:ing)? on|from|keep(?:ing)?|take) the last (?:image|picture|frame|scene)\b",
    r"(?:previous|preceding|earlier|prior) (?:step|prompt|instruction|panel|scene|frame|shot|image|"
    r"picture)s?\b",
    r"(?:from|in|since|like|as|than|see|after|of) the (?:last|next|first|second|third) (?:step|prompt|"
    r"instruction)s?\b",
)
META_ENGLISH = (
    *STEP_WORDS,
    r"(?:as|like|from|see|than) (?:in )?(?:scene|panel|frame|shot|page) \d{1,3}\b",
    r"(?:(?:as|like) (?:before|earlier|previously|above)|from (?:before|earlier))(?=\s*(?:[,.;:!)]|$|"
    r"but\b|except\b|only\b))",
    r"(?:as|like) (?:already )?(?:described|mentioned|shown|seen|stated|specified) (?:above|before|"
    r"earlier|previously)\b",
    r"same (?:[\w-]+ ){0,3}as (?:before|above|earlier|previously|last time)\b(?! (?:the|a|an) )",
    r"see above\b|above-mentioned\b|aforementioned\b",
)
META_SPANISH = (
    r"paso (?:n[.ºo]{1,2} ?|número )?\d{1,3}\b",
    r"(?:paso|imagen|escena|viñeta|instrucción|dibujo) (?:anterior|previ[oa])\b",
    r"(?:igual|lo mismo|mism[oa] [\w-]+) que (?:antes|arriba)\b",
    r"como (?:antes|arriba|anteriormente)(?=\s*(?:[,.;:!)]|$|pero\b))",
    r"como se (?:describ|mencion|indic|explic|muestra|dij)\w* (?:arriba|antes|anteriormente)\b",
    r"(?:descrit|mencionad|indicad)[oa]s? (?:arriba|antes|anteriormente)\b",
)
META_GERMAN = (
    r"Schritt(?:s|es)? \d{1,3}\b",
    r"(?:vorige|vorherige|vorangegangene|vorhergehende)[nmrs]? (?:Schritt|Bild|Szene|Panel|Prompt|"
    r"Anweisung)\w{0,2}\b",
    r"(?:im|vom|aus dem) letzten (?:Schritt|Bild)\b",
    r"wie (?:zuvor|vorher|vorhin|bisher|oben|eben|gehabt)(?=\s*(?:[,.;:!)]|$|aber\b|nur\b))",
    r"(?:oben|zuvor|vorher|bereits) (?:beschrieben|erwähnt|genannt)\w{0,3}\b",
    r"siehe oben\b",
)
META_CHINESE = (
    r"(?<!迈出)(?<!走出)(?<!迈开)第\s?[0-9一二三四五六七八九十]{1,3}\s?步",
    r"步骤\s?[0-9一二三四五六七八九十]{1,3}",
    r"(?<![走迈登])(?:上|前)一步(?:骤|中|的|所|里|一样|相同)?",
    r"[上前]一[张幅](?:图片?|画面)(?:的基础|的画面|里|中|一样|相同|不变)",
    r"(?:如|正如)(?:上|前|之前|上文|前文|上面|前面)所(?:述|说|示)",
    r"同上|同前(?![^，。]{0,2}行)",
    r"(?:和|与|跟|同|像|如)(?:之前|前面|上面|上次|先前|上一(?:张|幅|步|格)(?:图)?)(?:的[^，。]{0,8})?(?:一样|相同|一致|那样)",
)
META_SPACED = re.compile(
    "|".join(rf"(?<![\w-])(?:{pattern})" for pattern in (*META_ENGLISH, *META_SPANISH, *META_GERMAN)),
    re.IGNORECASE,
)
META = re.compile("|".join(META_CHINESE))
LAST_STEP = re.compile(r"the (?:last|next|first|second|third) step", re.IGNORECASE)


def meta_words(checked: Checked) -> Found:
    """Find words that refer to another step or to an earlier text."""
    for step, prompt in checked.drawn:
        text = without_quotes(prompt)
        for found in (*META_SPACED.finditer(text), *META.finditer(text)):
            if not (LAST_STEP.search(found.group()) and STAIRS.search(text)):
                yield step.number, f"The prompt refers to another step: '{shown(found.group())}'."
                break


WORK = (
    r"(?:images?|pictures?|illustrations?|descriptions?|scenes?|steps?|details?|style|mood|bild(?:er|es)?|"
    r"beschreibung|schritt|stil|imagen|descripción|escena|paso|estilo)\b"
)
"""What talk about a prompt is about."""
TALK = re.compile(
    # The text names itself, or its author.
    r"\bprompts?\b|提示词|\b(?:AI|language) model\b|"
    # An answer to the user, before the description.
    r"^\W*(?:(?:sure|certainly|of course|absolutely|okay|alright|natürlich|gerne?|selbstverständlich|"
    r"por supuesto|desde luego)\s*[!,.:—–-]\s|(?:[^\W\d]+ ?){1,3}[!！]\s?(?=[^\W\d])|"
    r"(?:好的|当然)[，,。：:])|"
    # What follows is announced.
    rf"\b(?:here(?:'s| is| are)|hier (?:ist|sind|kommt)|aquí (?:tienes|está|va))\b[^.:!?\n]{{0,60}}\b{WORK}|"
    r"(?:以下|下面)是[^。：:\n]{0,16}(?:描述|图像|画面)|"
    # Someone speaks of the work, or to the reader.
    r"(?:^|[.!?,;:(—]\s*|\b[a-z]+\s)(?-i:I)(?:'(?:m|ll|d|ve)|\s(?:am|can|can't|cannot|will|would|need|have|"
    r"think|hope|suggest|described?|created?|generated?))\b|"
    r"\b(?:we|ich|wir)(?:'(?:ll|d|ve)|\s(?:can|will|should|could|need|want|have|kann|habe|werde|möchte|brauchen|"
    rf"können)\b)[^.!?\n]{{0,80}}\b{WORK}|"
    r"\byou(?:'d like|\s(?:would like|can use|(?:are|were) looking for|requested|asked for))\b|"
    r"\b(?:let me know|feel free to|hope this|ich hoffe|lassen sie mich|espero que|avísame|si quieres|"
    r"(?:falls|wenn) sie (?:möchten|wünschen))\b|"
    r"希望[您你这]|如[有需](?:需要|修改|调整)|如果[您你](?:需要|想|希望)",
    re.IGNORECASE,
)
LABEL = (
    r"(?:(?:image|picture|scene|visual) description|caption|bildbeschreibung|descripción de la imagen|"
    r"(?:画面|图片|图像)描述)\s*[:：]"
)
LINE = r"[^\n]{0,200}"
BULLET, NUMBER = r"[ \t]*[-*•·][ \t]", r"\s*\d{1,2}[.)][ \t]"
FORM = re.compile(
    rf"^\W*{LABEL}|\bnegative\s*:|"
    # Markup, and lists of things or of labels with values.
    rf"^#{{1,4}} {LINE}$|\*\*[^*\n]{{1,60}}\*\*|"
    rf"```|</?(?:p|b|i|br|div|span|strong|em|h\d)\b|"
    rf"^{BULLET}{LINE}\n+{BULLET}|\A{NUMBER}{LINE}\n+{NUMBER}|"
    rf"(?:^[^\W\d_][^\W\d]{{0,20}}[:：]{LINE}(?:\n|\Z)){{3}}|"
    # Slots that wait for their value.
    r"[\[<{][^\W\d]+(?:_[^\W\d]+)+[\]>}]|"
    r"[\[<{][^\[\]<>{}|:\d]{0,40}\b(?:names?|character|describe|description|insert|object from|here|"
    r"placeholder|hier|einfügen|nombre|insertar|aquí)\b[^\[\]<>{}|:\d]{0,40}[\]>}]|"
    r"[\[【<{][^\[\]<>{}|:\d]{0,12}(?:插入|填写|角色名|名字|描述|此处)[^\[\]<>{}|:\d]{0,12}[\]】>}]|"
    r"^\W*(?-i:TODO|TBD|FIXME)\b|"
    # Options of other programs.
    r"(?<=\s)--(?:ar|v|style|stylize|niji|seed|no|q|s|chaos)\s|<lora:|\b(?:cfg(?: scale)?|sampler)\s*:",
    re.IGNORECASE | re.MULTILINE,
)


def prompt_form(checked: Checked) -> Found:
    """Find prompts that contain something else than the description of an image."""
    for step, prompt in checked.drawn:
        found = TALK.search(without_quotes(prompt)) or FORM.search(prompt)
        if found:
            yield step.number, f"The prompt is not only a description: '{shown(found.group())}'."


CUT_OFF = {
    "en": re.compile(
        r"\s(?:and|or|the|an?|of|but|while|into|its|their|his|my|our|your|with|from|than|very|because)$",
        re.IGNORECASE,
    ),
    "es": re.compile(r"\s(?:y|el|la|los|las|una?|del?|con|que|pero|en|por|para|sus?|al|muy)$", re.IGNORECASE),
    "de": re.compile(
        r"\s(?:und|oder|der|die|das|den|dem|eine?[nmrs]?|aber|weil|ihre[nmrs]?|neben|für|von|vom|zum)$",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"(?:和|与|以及|并且|而且|然后|但是|因为|旁边有|一[个只条座张本把件艘棵](?:[^，。]{0,6}的))$"
    ),
}
"""Last words after which something is missing. Those that can end a sentence ("walks in") are not listed."""
NO_END = re.compile(r"[:;：；、(\[（„«]$|[(（][^()（）]{0,80}$")
"""An unfinished end of a prompt. A caption may end in this way: "To the moon:"."""
CONTINUED = re.compile(
    r"to be continued|stay tuned|keep reading|read on\b|sigue leyendo|bleibt? dran|lest weiter|"
    r"(?:find out|see|read|more|continues?|continued) (?:in|on) (?:the )?(?:next|part)\b|"
    r"next (?:part|episode|chapter)\W*$|continuará|(?:próxim[oa]|siguiente) (?:parte|entrega|capítulo)|"
    r"fortsetzung folgt|nächste[nrs]? (?:teil|folge|kapitel)|未完待续|待续|下一?[集回章篇页]|敬请期待",
    re.IGNORECASE,
)
MAX_END = 300
"""Number of characters at the end of a text that are read."""
PARTS_ASKED = re.compile(
    r"continu|\bpart\b|episode|chapter|cliffhanger|\bparte\b|capítulo|episodio|fortsetz|\bteil\b|folge|"
    r"kapitel|续|集|部分|章",
    re.IGNORECASE,
)


def _is_cut_off(text: str) -> bool:
    # The last word alone does not identify the language.
    cut_off = CUT_OFF.get(language_of(text.rpartition(" ")[0] or text) or "")
    return cut_off is not None and cut_off.search(text) is not None


def unfinished(checked: Checked) -> Found:
    """Find texts that are cut off, and an ending that is none."""
    for step in checked.plan.steps:
        for name, text in (("prompt", step.prompt), ("text", step.auxiliary_text)):
            end = (text or "").rstrip()[-MAX_END:]
            if _is_cut_off(end) or (name == "prompt" and NO_END.search(end)):
                end = end[-30:]
                yield step.number, f"The {name} is cut off: it ends with '{shown(end)}'."
    last = checked.plan.steps[-1]
    if PARTS_ASKED.search(checked.request):
        return
    for text in (last.auxiliary_text, last.prompt):
        if text and (found := CONTINUED.search(text[-MAX_END:])):
            yield last.number, f"The last step announces another one: '{shown(found.group())}'."
            return
