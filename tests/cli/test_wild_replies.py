"""Replies of agents over a real chat server: parsed at the first or second reply, or one clear error.

The forms in which a reply is understood are tested with the parser (tests/backend/core/answers).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_server import ChatServer, chat_server
from support.cli_calls import call

from interleave_thinker import Picture, Plan


def steps(count: int, first: int = 1) -> list[dict[str, Any]]:
    return [{"step_number": at, "prompt": f"a fox at milestone {at}"} for at in range(first, first + count)]


def answer(value: object) -> str:
    return f"<think>\nOne change for each step.\n</think>\n\n<answer>\n{json.dumps(value)}\n</answer>"


LONG = [
    answer({"outline": [f"{number}. Mile {number}." for number in range(1, 51)], "always": "a red fox"}),
    *(answer({"execution_plan": steps(10, at), "state": "Wet."}) for at in (1, 11, 21, 31, 41)),
]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server("") as one:
        yield one


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Picture.white((32, 32)).image.save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.mark.parametrize(
    ("request_text", "replies", "numbers", "images"),
    [
        ("Go on with <image> and <image>.", [answer({"execution_plan": steps(2, 4)})], (4, 5), 2),
        ("A fox asleep.", ["Which color?", answer({"execution_plan": steps(1)})], (1,), 0),
        ("A walk in 50 steps.", LONG, range(1, 51), 0),
    ],
)
def test_plans_are_parsed(
    request_text: str, replies: list[str], numbers: Any, images: int, server: ChatServer, picture: Path
) -> None:
    server.script = list(replies)
    given = ["--image", picture] * images
    result = call("plan", request_text, "--planner", f"openai:{server.spec}", "--json", *given)
    assert result.exit_code == 0, result.output
    assert [one.number for one in Plan.model_validate_json(result.stdout).steps] == list(numbers)
    assert len(server.requests) == len(replies)
    for request in server.requests:
        parts = request["messages"][0]["content"]
        assert images == (0 if isinstance(parts, str) else sum("image_url" in part for part in parts))


def test_an_unclear_plan_raises_one_error_after_two_replies(server: ChatServer) -> None:
    server.text = "I would draw a fox first, and then an owl."
    result = call("plan", "A fox.", "--planner", f"openai:{server.spec}")
    assert result.exit_code == 1 and result.stdout == "" and len(server.requests) == 2
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr


@pytest.mark.parametrize(
    ("reply", "code", "refined"),
    [
        (answer({"previous_step_success": True}), 0, "a fox"),
        (answer({"success": False, "Refined Prompt": "a red fox"}), 3, "a red fox"),
        ("It looks right to me.", 1, ""),
    ],
)
def test_verdicts_have_their_exit_codes(
    reply: str, code: int, refined: str, server: ChatServer, picture: Path
) -> None:
    server.text = reply
    result = call("judge", "none", picture, "a fox", "--critic", f"openai:{server.spec}", "--json")
    assert result.exit_code == code, result.output
    said = json.loads(result.stdout)
    assert said["success"] == {0: True, 3: False, 1: None}[code] and said["refined_prompt"] == refined
    assert len(server.requests) == (2 if code == 1 else 1)
