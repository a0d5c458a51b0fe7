"""Runs with a server that splits characters in two, and arguments that are not UTF-8."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.chat_server import chat_server
from support.cli_calls import call, verdict_reply
from support.small_agents import STORY

from interleave_thinker.backend.core.answers.reading import write_plan

RUN = Path(__file__).parents[1] / "data" / "run"


def halves(text: str) -> list[str]:
    """Return stream events with one UTF-16 unit each, as some servers split texts."""
    units = text.encode("utf-16-le", "surrogatepass")
    pieces = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    choices = [{"delta": {"content": piece}, "finish_reason": None} for piece in pieces]
    end = {"delta": {}, "finish_reason": "stop"}
    return [json.dumps({"choices": [one]}) for one in (*choices, end)]


def test_a_run_continues_and_can_be_read_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with chat_server("") as planner, chat_server("") as critic:
        planner.events = halves(write_plan(STORY))
        critic.events = halves(verdict_reply(False, "REPLACED").replace("REPLACED", "better \ud83d"))
        line = ["run", "a story", "--out", out, "--planner", f"openai:{planner.spec}"]
        line += ["--critic", f"openai:{critic.spec}", "--generator", "fake:16", "--max-attempts", 2]
        done = call(*line)
        assert done.exit_code == 3, done.output
        asked = len(critic.requests)
        assert call(*line).exit_code == 3 and len(critic.requests) == asked
    trajectory = json.loads((out / "trajectory.json").read_text(encoding="utf-8"))
    assert trajectory["results"][0]["attempts"][1]["prompt"] == "better \ufffd"


def test_a_prompt_that_is_not_valid_text_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RUN, folder)
    result = call("redraw", folder, "--step", 1, "--prompt", "caf\udce9")
    assert result.exit_code == 2 and "--prompt is not valid Unicode (character 4)" in result.output
