"""Replies of untrained agents, sent by a real chat server.

Replies with a clear meaning are parsed in any form. Others raise one clear error after the second reply.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server
from support.cli_calls import call

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan

Step = dict[str, Any]


def step(number: int, **fields: Any) -> Step:
    """Return a step with all five keys, without the fields that are `...`."""
    whole = {
        "step_number": number,
        "step_name": f"Part {number}",
        "instruction": f"Show part {number}.",
        "prompt": f"a fox at milestone {number}",
        "auxiliary_text": None,
    } | fields
    return {name: value for name, value in whole.items() if value is not ...}


def steps(count: int, first: int = 1, **fields: Any) -> list[Step]:
    return [step(number, **fields) for number in range(first, first + count)]


def answer(value: object, thought: str = "One change for each step.") -> str:
    return f"<think>\n{thought}\n</think>\n\n<answer>\n{json.dumps(value, ensure_ascii=False)}\n</answer>"


def fenced(value: object, before: str = "", after: str = "") -> str:
    return f"{before}```json\n{json.dumps(value, ensure_ascii=False, indent=2)}\n```{after}"


@dataclass(frozen=True)
class Case:
    """A request, the server's replies, and the expected plan: step numbers, prompts and a text in it."""

    request: str
    replies: Sequence[str]
    numbers: Sequence[int]
    drawn: int
    text: str = ""
    images: int = 0


def long_replies() -> list[str]:
    lines = [f"{number}. Mile {number}." for number in range(1, 51)]
    parts = [
        answer({"execution_plan": steps(10, first), "state": "The fox is wet."})
        for first in (1, 11, 21, 31, 41)
    ]
    return [answer({"outline": lines, "always": "a red fox"}), *parts]


NOT_DRAWN: dict[str, Any] = {"prompt": None, "auxiliary_text": "It is a fox."}
CASES = {
    "story": Case("Tell of a fox in four pictures.", [answer({"execution_plan": steps(4)})], range(1, 5), 4),
    "how-to": Case(
        "Explain how bread is baked, with a sentence for every picture.",
        [fenced({"execution_plan": steps(3, auxiliary_text="Knead the dough.")}, "Here is the plan:\n\n")],
        range(1, 4),
        3,
        "Knead the dough.",
    ),
    "continuation": Case(
        "Steps 1 to 3 are in the images. Go on with <image> and <image> for two steps.",
        [answer({"execution_plan": steps(2, first=4)})],
        (4, 5),
        2,
        images=2,
    ),
    "describe": Case(
        "Describe these images.", [answer({"execution_plan": steps(2, **NOT_DRAWN)})], (1, 2), 0, "It is", 2
    ),
    "answer": Case(
        "How many foxes are in the image?",
        [answer({"execution_plan": [step(1, prompt="null", auxiliary_text=3)]})],
        (1,),
        0,
        "3",
        1,
    ),
    "Chinese": Case(
        "用三张图讲一只狐狸的故事。",
        [answer({"execution_plan": steps(3, prompt="一只狐狸在雨中", auxiliary_text="下雨了。")})],
        range(1, 4),
        3,
        "一只狐狸",
    ),
    "one step": Case("One picture of a fox.", [fenced({"execution_plan": step(1)})], (1,), 1),
    "twelve steps": Case("A year in 12 images.", [fenced(steps(12))], range(1, 13), 12),
    "fifty steps": Case("A walk in 50 steps.", long_replies(), range(1, 51), 50, "milestone 50"),
    "words in the picture": Case(
        "A shop sign that says 'Fox & Sons'.",
        [answer({"execution_plan": [step(1, prompt="a sign with the words 'Fox & \"Sons\"'")]})],
        (1,),
        1,
        "a sign with the words 'Fox & \"Sons\"'",
    ),
    "nothing but what is drawn": Case(
        "A fox, then an owl.",
        [answer({"execution_plan": steps(2, step_name=..., instruction=..., auxiliary_text=...)})],
        (1, 2),
        2,
    ),
    "null for all that is optional": Case(
        "A fox, then a hare.",
        [answer({"execution_plan": steps(2, step_name=None, instruction=None)})],
        (1, 2),
        2,
    ),
    "texts for numbers": Case(
        "A fox in the snow.",
        [answer({"execution_plan": [step(1, step_number="1"), step(2, step_number="Step 2")]})],
        (1, 2),
        2,
    ),
    "no numbers": Case(
        "A fox in the rain.",
        [fenced({"execution_plan": steps(3, step_number=...)})],
        (1, 2, 3),
        3,
    ),
    "a list in an object": Case(
        "A fox on a boat.", [answer({"execution_plan": {"steps": steps(2)}})], (1, 2), 2
    ),
    "an object in an object": Case(
        "A fox on a train.", [fenced({"answer": {"execution_plan": steps(2)}})], (1, 2), 2
    ),
    "steps by their number": Case(
        "A fox on a horse.",
        [answer({"execution_plan": {f"step_{at}": step(at, step_number=...) for at in (1, 2)}})],
        (1, 2),
        2,
    ),
    "other names of keys": Case(
        "A fox on a bicycle.",
        [
            answer(
                {
                    "Execution Plan": [
                        {"Step": 1, "Title": "Off", "Prompt": "a fox", "Caption": ["Off it goes.", "Fast."]}
                    ]
                }
            )
        ],
        (1,),
        1,
        "Off it goes.\nFast.",
    ),
    "Python, thought not opened": Case(
        "A fox in a hat.", [f"A fox.</think>\n{{'execution_plan': {steps(2)!r},}}"], (1, 2), 2
    ),
    "parsed at the second reply": Case(
        "A fox asleep.",
        ["Of course! Which colour should the fox have?", answer({"execution_plan": steps(1)})],
        (1,),
        1,
    ),
}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server("") as one:
        yield one


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Picture.white((32, 32)).image.save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_plans_in_many_forms_are_parsed(case: Case, server: ChatServer, picture: Path) -> None:
    server.script = list(case.replies)
    images = [option for _ in range(case.images) for option in ("--image", picture)]
    result = call("plan", case.request, "--planner", f"openai:{server.spec}", "--json", *images)
    assert result.exit_code == 0, result.output
    plan = Plan.model_validate_json(result.stdout)
    assert [one.number for one in plan.steps] == list(case.numbers)
    assert sum(bool(one.prompt) for one in plan.steps) == case.drawn
    assert not case.text or any(
        case.text in (text or "") for one in plan.steps for text in (one.prompt, one.auxiliary_text)
    )
    assert len(server.requests) == len(case.replies)
    for request in server.requests:
        parts = request["messages"][0]["content"]
        assert case.images == (
            0 if isinstance(parts, str) else len([1 for part in parts if "image_url" in part])
        )


UNREADABLE = {
    "prose": "I would draw a fox first, and then an owl.",
    "thought without an end": "<think>Which fox? " + answer({"execution_plan": steps(1)})[7:20],
    "two plans": fenced({"execution_plan": steps(1)}) + "\nor\n" + fenced({"execution_plan": steps(2)}),
    "no content": answer({"execution_plan": steps(2, prompt=None, instruction=None)}),
    "a prompt in parts": answer({"execution_plan": steps(1, prompt={"subject": "a fox"})}),
    "texts": answer({"execution_plan": ["a fox", "an owl"]}),
    "numbers that fall": answer({"execution_plan": [step(2), step(1)]}),
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE)
def test_unclear_plans_raise_one_error_after_two_replies(reply: str, server: ChatServer) -> None:
    server.text = reply
    result = call("plan", "A fox.", "--planner", f"openai:{server.spec}")
    assert result.exit_code == 1 and result.stdout == ""
    assert len(server.requests) == 2
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


def verdict(**fields: Any) -> dict[str, Any]:
    whole = {"previous_step_success": False, "refine_prompt": "a fox with a hat"} | fields
    return {name: value for name, value in whole.items() if value is not ...}


JUDGED = {
    "right": (answer(verdict(previous_step_success=True)), 0, "a fox"),
    "right, nothing to refine": (answer(verdict(previous_step_success=True, refine_prompt=...)), 0, "a fox"),
    "right, null": (fenced(verdict(previous_step_success="True", refine_prompt=None)), 0, "a fox"),
    "wrong": (answer(verdict()), 3, "a fox with a hat"),
    "wrong, fenced after prose": (fenced(verdict(), "The hat is missing.\n\n"), 3, "a fox with a hat"),
    "wrong, as text": (answer(verdict(previous_step_success="false")), 3, "a fox with a hat"),
    "wrong, nothing to refine": (answer(verdict(refine_prompt=...)), 3, "a fox"),
    "wrong, the word null": (answer(verdict(refine_prompt="null")), 3, "a fox"),
    "wrong, in a list": (fenced([verdict()]), 3, "a fox with a hat"),
    "wrong, other names": (answer({"success": False, "Refined Prompt": "a red fox"}), 3, "a red fox"),
    "not understood: a number": (answer(verdict(previous_step_success=0.7)), 1, ""),
    "not understood: maybe": (answer(verdict(previous_step_success="partly")), 1, ""),
    "not understood: prose": ("It looks right to me.", 1, ""),
}


@pytest.mark.parametrize(("reply", "code", "refined"), JUDGED.values(), ids=JUDGED)
def test_verdicts_in_many_forms_are_parsed(
    reply: str, code: int, refined: str, server: ChatServer, picture: Path
) -> None:
    server.text = reply
    result = call("judge", "none", picture, "a fox", "--critic", f"openai:{server.spec}", "--json")
    assert result.exit_code == code, result.output
    said = json.loads(result.stdout)
    assert said["success"] == {0: True, 3: False, 1: None}[code]
    assert said["refined_prompt"] == refined
    assert len(server.requests) == (2 if code == 1 else 1)
