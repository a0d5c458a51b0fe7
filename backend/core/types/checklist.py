"""Checklist of a step: short statements that the critic answers one by one with yes or no.

`read_yes_no` reads such an answer, here and wherever a model is asked for yes or no.

A plan may state the items of a step. Otherwise they can be derived from its prompt and its cast, with words
alone and no model. `CheckedItem` is the critic's answer. Its kind matters, since a critic may be good at
colors and unable to count (`prompts/agent_card.py` stores how reliable it is for each kind).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from .cast import MAX_TRAIT, ShortText
from .values import MAX_TEXT, Several, SparseValue, Value

if TYPE_CHECKING:
    from .cast import CastMember

MAX_ITEMS = 12
QuestionKind = Literal["count", "color", "place", "text", "identity", "anatomy", "other"]

COLORS = (
    "red orange yellow green blue purple violet pink brown black white gray grey golden silver turquoise "
    "beige"
)
COLOR = re.compile(rf"\b(?:{'|'.join(COLORS.split())})\b", re.IGNORECASE)
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNT = re.compile(
    rf"\b(?:exactly )?(?:{'|'.join(NUMBERS)}|[2-9]|10) [a-z]{{1,40}}(?: [a-z]{{1,40}})?s\b", re.IGNORECASE
)
NOT_COUNTED = re.compile(r"\b(?:hours|minutes|seconds|days|weeks|months|years|times|o'clock|steps)\b", re.I)
LETTERING = re.compile(r"[\"“„«「]([^\"”“»」\n]{1,60})[\"”“»」]")
PLACE = re.compile(
    r"\b(?:on|at|in) the (?:(?:far|upper|lower|top|bottom) )*"
    r"(?:left|right|top|bottom|middle|center|centre|background|foreground|corner)\b",
    re.IGNORECASE,
)
ANATOMY = re.compile(r"\b(?:hands?|fingers?|arms?|legs?|eyes?|face|teeth|ears?|feet|foot)\b", re.IGNORECASE)


ANSWERS = {
    True: "yes y yeah yep yup true correct 是 是的 對 对 对的 對的 正确 正確 はい ええ 正しい 네 예 "
    "맞아요 맞습니다 oui vrai sí si verdadero cierto correcto да верно правда sim verdadeiro correto evet "
    "doğru ja wahr richtig",
    False: "no n nope nah false incorrect 否 不 不是 不对 不對 错 錯 错误 錯誤 いいえ 違います 아니요 아니오 "
    "아뇨 아닙니다 non faux falso incorrecto нет неверно неправда não nao incorreto hayır yanlış nein falsch",
}
"""The words for yes and no in the languages of the nodes, and in German."""


def _folded(text: str) -> str:
    """Return a text without case, full-width letters and the two kinds of i of Turkish."""
    return unicodedata.normalize("NFKC", text).casefold().replace("ı", "i").replace("\u0307", "")


WORDS = {_folded(word): passed for passed, words in ANSWERS.items() for word in words.split()}
WORD = "|".join(sorted(map(re.escape, WORDS), key=len, reverse=True))
AT_END = r"(?=\s*(?:$|[^\w\s/|]))"
"""After an answer comes nothing, or a mark: `No boats are left` and `N/A` are no answers."""
ANSWER = re.compile(rf"\W*(?:(?:the )?(?:final )?answer(?: is)?\W+)?(?:({WORD}){AT_END}|(yes)\b)")
FURTHER = re.compile(rf"(?<!\w)({WORD}){AT_END}")


def read_yes_no(text: str) -> bool | None:
    """Return the answer at the start of the first or last line of a text without thoughts.

    Returns:
        `None` if there is no clear answer, or if the opposite is there too (`Yes/No`).
    """
    lines = [line.strip() for line in _folded(text).splitlines() if line.strip()]
    found = {said for line in lines[:1] + lines[-1:] for said in _said(line)}
    return found.pop() if len(found) == 1 else None


def _said(line: str) -> set[bool]:
    first = ANSWER.match(line)
    if first is None:
        return set()
    words = [first[1] or first[2], *(one[1] for one in FURTHER.finditer(line, first.end()))]
    return {WORDS[word] for word in words}


class ChecklistItem(Value):
    """One statement about the image of a step, and the kind of question that it is.

    A text alone is accepted too; its words then decide the kind.
    """

    text: ShortText
    kind: QuestionKind = "other"

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return {"text": value, "kind": kind_of(value)} if isinstance(value, str) else value


Checklist = Annotated[Several[ChecklistItem], Field(max_length=MAX_ITEMS)]


class CheckedItem(ChecklistItem, SparseValue):
    """The critic's answer to an item.

    Attributes:
        probability: P(yes), 0..1, or None if the backend does not report it.
        passed: Whether the statement is true. None if the critic did not answer, or if it is not better than
            chance in questions of this kind. Then the item never rejects an image.
        unanswered: Whether the critic gave no answer. An image with such an item is not checked.
    """

    omitted = ("unanswered",)

    probability: float | None = Field(default=None, ge=0.0, le=1.0)
    passed: bool | None = None
    unanswered: bool = False


CheckedItems = Annotated[Several[CheckedItem], Field(max_length=MAX_ITEMS)]


def named_failures(reasoning: str, failed: Sequence[str]) -> str:
    """Return a reasoning that names the items that are not true, as a critic learns it."""
    if not failed:
        return reasoning
    named = f"Not true: {'; '.join(failed)}."
    return f"{reasoning.rstrip()[: MAX_TEXT - len(named) - 1]} {named}".strip()


def kind_of(text: str) -> QuestionKind:
    """Return the kind of question that a statement is, by its words."""
    if LETTERING.search(text):
        return "text"
    if COUNT.search(text) and not NOT_COUNTED.search(text):
        return "count"
    if PLACE.search(text):
        return "place"
    if COLOR.search(text):
        return "color"
    return "anatomy" if ANATOMY.search(text) else "other"


def derived(
    prompt: str, members: Sequence[CastMember] = (), facts: Sequence[str] = ()
) -> tuple[ChecklistItem, ...]:
    """Return the items that follow from a step's prompt and cast.

    These are the numbers of things and the texts in quotes in its prompt, the traits of its members, and its
    facts.

    Args:
        prompt: The prompt from the plan.
        members: The members of the cast that are in the step.
        facts: What is true after the step.

    Returns:
        At most `MAX_ITEMS` different items.
    """
    unquoted = LETTERING.sub(" ", prompt)
    found = [
        ChecklistItem(text=f'the text "{text.strip()}" is readable', kind="text")
        for text in LETTERING.findall(prompt)
        if text.strip()
    ]
    found += [
        ChecklistItem(text=f"there are {one.group()}", kind="count")
        for one in COUNT.finditer(unquoted)
        if not NOT_COUNTED.search(one.group())
    ]
    for member in members:
        for trait in member.traits:
            kind = kind_of(trait)
            found.append(
                ChecklistItem(
                    text=f"{member.name}: {trait}"[:MAX_TRAIT], kind="identity" if kind == "other" else kind
                )
            )
    found += [ChecklistItem(text=fact, kind=kind_of(fact)) for fact in facts]
    return tuple({item.text: item for item in found}.values())[:MAX_ITEMS]
