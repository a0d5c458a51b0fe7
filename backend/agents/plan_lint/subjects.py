"""Prompts that begin with a pronoun instead of the thing that is meant ("Make it blue").

Each prompt is given to the image model alone. A pronoun later in a prompt may refer to a noun before it, so
only the beginning counts, and only if no word of most other prompts follows. Pronouns of weather and time
("It is raining") do not stand for a thing.
"""

from __future__ import annotations

import re
from collections import Counter

from .findings import Checked, Found
from .texts import HAN, WORD, shown, stem

OPENING = r"^\W*(?:(?:then|now|next|finally|suddenly|please|luego|entonces|ahora|dann|jetzt|nun|bitte)\W+)?"
NAMED = r"(?:,| is| are| was)(?: now| still)?(?: an?| the| two| three| four| one)\b"
ENGLISH = (
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
SPANISH = (
    r"(?:él|ella|ellos|ellas)\b(?!(?:,| es| son)(?: una?| dos| el| la| los| las)\b)",
    r"(?:haz|p[ií]nta|pon|c[aá]mbia|color[eé]a|dib[uú]ja|mu[eé]ve|g[ií]ra|c[oó]rta|[aá]bre|ci[eé]rra|"
    r"ll[eé]na|da|a[nñ][aá]de|qu[ií]ta|vu[eé]lve|ti[nñ]e|dec[oó]ra|d[oó]bla|m[eé]zcla|v[ií]ste|coloca|"
    r"col[oó]ca)(?:l[oae]s?)\b(?!.*\b(?:al|a la|a los|a las|a una?) )",
)
GERMAN = (
    r"(?:er|sie)\b(?!(?:,| ist| sind)(?: eine?| zwei| drei| der| die| das)\b)",
    r"(?:f[aä]rbe?|male?|mache?|gib|stelle?|setze?|lege?|drehe?|öffne|schließe|schneide|fülle|ändere|"
    r"verwandle|zeige?|lass|zeichne|bewege|falte|koche|backe|streiche?) (?:es|ihn|ihm|ihnen|sie|ihr)\b(?! "
    r"(?-i:[A-ZÄÖÜ]))",
)
SPACED = re.compile(rf"{OPENING}(?:{'|'.join((*ENGLISH, *SPANISH, *GERMAN))})", re.IGNORECASE)
CHINESE = re.compile(
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
        if not named and not step.cast and (SPACED.match(prompt) or CHINESE.match(prompt)):
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
