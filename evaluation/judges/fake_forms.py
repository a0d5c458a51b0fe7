"""Answer formats of the evaluators, recognized by a mark in each question.

A format decides once for every single criterion (`about` names it within a list), so that the rate of a fake
judge equals the rate in the evaluator's figures. Add an entry to FORMS for a new kind of question. If none
matches, the answer is yes or no.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...backend.pictures import Picture

Decide = Callable[["FakeQuestion"], bool]
FIVE_POINTS = re.compile(r"\*\*5\*\*|\b5 points|1 to 5|1-5|[Ss]core 5")


@dataclass(frozen=True)
class FakeQuestion:
    """A question.

    Attributes:
        text: All text of the messages.
        pictures: The images in order.
        seed: Seed of the answer.
        about: The criterion to decide, if the question contains several.
    """

    text: str
    pictures: tuple[Picture, ...]
    seed: str
    about: str = ""


def answer_to(question: FakeQuestion, decide: Decide) -> str:
    """Answer in the first matching format."""
    for mark, form in FORMS:
        if mark in question.text:
            return form(question, decide)
    return "yes" if decide(question) else "no"


def _rubric(question: FakeQuestion, decide: Decide) -> str:
    return json.dumps({"criteria_met": decide(question)})


def _binary_score(question: FakeQuestion, decide: Decide) -> str:
    return f"Score: {int(decide(question))}"


def _final_score(question: FakeQuestion, decide: Decide) -> str:
    worst, best = (1, 5) if FIVE_POINTS.search(question.text) else (0, 1)
    return f"**Final Score:** **{best if decide(question) else worst}**"


def _whole_number(question: FakeQuestion, decide: Decide) -> str:
    worst, best = re.findall(r"whole number from (\d+) to (\d+)", question.text)[-1]
    return best if decide(question) else worst


def _checklist(question: FakeQuestion, decide: Decide) -> str:
    answers = [
        {"id": one["id"], "answer": "Yes" if decide(replace(question, about=str(one))) else "No"}
        for one in _objects(question.text.partition("[Checklist]:\n")[2])
        if "id" in one
    ]
    return json.dumps(answers)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list at the start of a text."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return
    yield from (one for one in found if isinstance(one, dict))


def _coherence(question: FakeQuestion, decide: Decide) -> str:
    def points(name: str) -> int:
        return 10 * decide(replace(question, about=name))

    names = ("style_consistency", "entity_consistency", "trend_consistency", "overall_consistency")
    return json.dumps(
        {
            "scores": {
                "Image_Coherence": {"overall_score": {name: points(name) for name in names}},
                "Completeness": {"Justification": "", "Score": points("completeness")},
                "Image_Quality": {"Justification": "", "Score": points("image quality")},
            }
        }
    )


def _hidden_images(question: FakeQuestion, decide: Decide) -> str:
    numbers = re.findall(r"<Img_(\d+)>", question.text.rpartition("OUTPUT:")[2])
    contents = {f"Content of Image {number}": f"Image {number}." for number in numbers}
    return json.dumps({"Tasks": {"Create an Interleaved Text-Image Document": contents}})


def _descriptions(question: FakeQuestion, decide: Decide) -> str:
    points = 10 * decide(replace(question, about="text fidelity"))
    return json.dumps({"Consistency": {"overall_score": points, "Justification": ""}})


FORMS: list[tuple[str, Callable[[FakeQuestion, Decide], str]]] = [
    ("criteria_met", _rubric),
    ("[Checklist]:", _checklist),
    ("Image_Coherence", _coherence),
    ("Create an Interleaved Text-Image Document", _hidden_images),
    ("<Description_", _descriptions),
    ("Final Score", _final_score),
    ("Score: 0", _binary_score),
    ("one whole number from", _whole_number),
]
"""Text that a question contains, and the function that answers it."""
