"""Texts that stop in the middle of a sentence, and a last step that announces another part."""

from __future__ import annotations

import re

from .findings import Checked, Found
from .texts import language_of, shown

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
