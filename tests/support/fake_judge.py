"""A judge without a model that answers every question of the official evaluators in the requested format.

It accepts a share of all questions, or has known answers, so that figures can be compared with exact ones,
and fails for a question that these do not cover. It looks at no image. A format decides once for every single
criterion (`about` names it within a list), so that the rate of the judge equals the rate in the evaluator's
figures.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from interleave_thinker import Message, Picture, Reply, ReplySettings

FIVE_POINTS = re.compile(r"\*\*5\*\*|\b5 points|1 to 5|1-5|[Ss]core 5")
Decide = Callable[["JudgeQuestion"], bool]


@dataclass(frozen=True)
class JudgeQuestion:
    """A question: its text, images and seed, and the criterion to decide if it contains several."""

    text: str
    pictures: tuple[Picture, ...]
    seed: str
    about: str = ""


class FakeJudge:
    """A chat backend that decides with `decide` and answers in the format of the question."""

    prompt_set = None

    def __init__(self, decide: Decide, name: str) -> None:
        self.decide, self.identity = decide, f"fake:{name}"

    def reply(
        self,
        messages: Sequence[Message],
        settings: ReplySettings,
        on_token: Callable[[str], None] | None = None,
    ) -> Reply:
        parts = [part for message in messages for part in message.content]
        text = "\n".join(part for part in parts if isinstance(part, str))
        pictures = tuple(part for part in parts if isinstance(part, Picture))
        question = JudgeQuestion(text, pictures, str(settings.seed))
        form = next((form for mark, form in FORMS if mark in text), None)
        answer = form(question, self.decide) if form else "yes" if self.decide(question) else "no"
        return Reply(text=answer, tokens=len(answer.split()))


def accepting(rate: float) -> FakeJudge:
    """Return a judge that accepts this share of all questions, and the same question always the same way."""

    def decide(question: JudgeQuestion) -> bool:
        digest = hashlib.blake2b(digest_size=8)
        for part in (
            question.text,
            question.about,
            question.seed,
            *(one.digest for one in question.pictures),
        ):
            digest.update(f"{len(part)}:{part}".encode("utf-8", "replace"))
        return int.from_bytes(digest.digest(), "big") / 2**64 < rate

    return FakeJudge(decide, f"{rate:g}")


def _rubric(question: JudgeQuestion, decide: Decide) -> str:
    return json.dumps({"criteria_met": decide(question)})


def _binary_score(question: JudgeQuestion, decide: Decide) -> str:
    return f"Score: {int(decide(question))}"


def _final_score(question: JudgeQuestion, decide: Decide) -> str:
    worst, best = (1, 5) if FIVE_POINTS.search(question.text) else (0, 1)
    return f"**Final Score:** **{best if decide(question) else worst}**"


def _checklist(question: JudgeQuestion, decide: Decide) -> str:
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


def _coherence(question: JudgeQuestion, decide: Decide) -> str:
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


FORMS: list[tuple[str, Callable[[JudgeQuestion, Decide], str]]] = [
    ("criteria_met", _rubric),
    ("[Checklist]:", _checklist),
    ("Image_Coherence", _coherence),
    ("Final Score", _final_score),
    ("Score: 0", _binary_score),
]
"""Text that a question contains, and the function that answers it."""
