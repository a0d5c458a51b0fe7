"""Replies of agents over a real chat server: parsed at the first or second reply, or one clear error.

The forms in which a reply is understood are tested with the parser (tests/backend/core/answers).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chat_server import ChatServer, chat_server
from support.cli_calls import call

from interleave_thinker import Picture


def answer(value: object) -> str:
    return f"<think>\nOne change for each step.\n</think>\n\n<answer>\n{json.dumps(value)}\n</answer>"


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server("") as one:
        yield one


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Picture.white((32, 32)).image.save(tmp_path / "a.png")
    return tmp_path / "a.png"


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
def test_exit_codes(reply: str, code: int, refined: str, server: ChatServer, picture: Path) -> None:
    server.text = reply
    result = call("judge", "none", picture, "a fox", "--critic", f"openai:{server.spec}", "--json")
    assert result.exit_code == code, result.output
    said = json.loads(result.stdout)
    assert said["success"] == {0: True, 3: False, 1: None}[code] and said["refined_prompt"] == refined
    assert len(server.requests) == (2 if code == 1 else 1)
