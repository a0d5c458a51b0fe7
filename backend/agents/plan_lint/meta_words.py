"""Words in a prompt that refer to the plan ("as before", "step 3"), which an image model cannot resolve.

Numbered images ("image 2", "Picture 2") are not listed: that is how references are named in a prompt.
"""

from __future__ import annotations

import re

from .findings import Checked, Found
from .texts import shown, without_quotes

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
ENGLISH = (
    *STEP_WORDS,
    r"(?:as|like|from|see|than) (?:in )?(?:scene|panel|frame|shot|page) \d{1,3}\b",
    r"(?:(?:as|like) (?:before|earlier|previously|above)|from (?:before|earlier))(?=\s*(?:[,.;:!)]|$|"
    r"but\b|except\b|only\b))",
    r"(?:as|like) (?:already )?(?:described|mentioned|shown|seen|stated|specified) (?:above|before|"
    r"earlier|previously)\b",
    r"same (?:[\w-]+ ){0,3}as (?:before|above|earlier|previously|last time)\b(?! (?:the|a|an) )",
    r"see above\b|above-mentioned\b|aforementioned\b",
)
SPANISH = (
    r"paso (?:n[.ºo]{1,2} ?|número )?\d{1,3}\b",
    r"(?:paso|imagen|escena|viñeta|instrucción|dibujo) (?:anterior|previ[oa])\b",
    r"(?:igual|lo mismo|mism[oa] [\w-]+) que (?:antes|arriba)\b",
    r"como (?:antes|arriba|anteriormente)(?=\s*(?:[,.;:!)]|$|pero\b))",
    r"como se (?:describ|mencion|indic|explic|muestra|dij)\w* (?:arriba|antes|anteriormente)\b",
    r"(?:descrit|mencionad|indicad)[oa]s? (?:arriba|antes|anteriormente)\b",
)
GERMAN = (
    r"Schritt(?:s|es)? \d{1,3}\b",
    r"(?:vorige|vorherige|vorangegangene|vorhergehende)[nmrs]? (?:Schritt|Bild|Szene|Panel|Prompt|"
    r"Anweisung)\w{0,2}\b",
    r"(?:im|vom|aus dem) letzten (?:Schritt|Bild)\b",
    r"wie (?:zuvor|vorher|vorhin|bisher|oben|eben|gehabt)(?=\s*(?:[,.;:!)]|$|aber\b|nur\b))",
    r"(?:oben|zuvor|vorher|bereits) (?:beschrieben|erwähnt|genannt)\w{0,3}\b",
    r"siehe oben\b",
)
CHINESE = (
    r"(?<!迈出)(?<!走出)(?<!迈开)第\s?[0-9一二三四五六七八九十]{1,3}\s?步",
    r"步骤\s?[0-9一二三四五六七八九十]{1,3}",
    r"(?<![走迈登])(?:上|前)一步(?:骤|中|的|所|里|一样|相同)?",
    r"[上前]一[张幅](?:图片?|画面)(?:的基础|的画面|里|中|一样|相同|不变)",
    r"(?:如|正如)(?:上|前|之前|上文|前文|上面|前面)所(?:述|说|示)",
    r"同上|同前(?![^，。]{0,2}行)",
    r"(?:和|与|跟|同|像|如)(?:之前|前面|上面|上次|先前|上一(?:张|幅|步|格)(?:图)?)(?:的[^，。]{0,8})?(?:一样|相同|一致|那样)",
)
SPACED = re.compile(
    "|".join(rf"(?<![\w-])(?:{pattern})" for pattern in (*ENGLISH, *SPANISH, *GERMAN)), re.IGNORECASE
)
META = re.compile("|".join(CHINESE))
LAST_STEP = re.compile(r"the (?:last|next|first|second|third) step", re.IGNORECASE)


def meta_words(checked: Checked) -> Found:
    """Find words that refer to another step or to an earlier text."""
    for step, prompt in checked.drawn:
        text = without_quotes(prompt)
        for found in (*SPACED.finditer(text), *META.finditer(text)):
            if not (LAST_STEP.search(found.group()) and STAIRS.search(text)):
                yield step.number, f"The prompt refers to another step: '{shown(found.group())}'."
                break
