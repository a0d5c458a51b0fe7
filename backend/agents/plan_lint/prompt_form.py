"""Prompts that are not only a description of an image: talk to the user, lists, labels, slots, options.

An image model generates whatever its prompt says, and what addresses a reader takes the place of the image.
"""

from __future__ import annotations

import re

from .findings import Checked, Found
from .texts import shown, without_quotes

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
