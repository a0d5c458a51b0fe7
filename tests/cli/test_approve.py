"""`run --pause`, its exit code and events, `approve`, the time-out and the questions on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import Scripts, call, start

from interleave_thinker import StopReason, load_trajectory
from interleave_thinker.backend.story.journal.choices import read_choices
from interleave_thinker.backend.story.journal.waiting import WAITING, waiting_for

CHOICE = "interleave_thinker.cli.commands.run.is_interactive"


@pytest.fixture
def command(tmp_path: Path) -> list[object]:
    """A run of four steps, one of them text-only; the first attempt at step 1 is rejected."""
    return ["run", "a house", "--out", tmp_path / "out", *Scripts(tmp_path).story(False, *[True] * 9)]


def at(folder: Path) -> int | str | None:
    waiting = waiting_for(folder)
    return waiting.step if waiting else "nothing"


def test_a_pause_has_its_exit_code_and_approve_continues(tmp_path: Path, command: list[object]) -> None:
    out = tmp_path / "out"
    paused = call(*command, "--pause", "every step")
    assert paused.exit_code == 4, paused.output
    assert "Waiting for your approval of the plan." in paused.output
    assert f"interleave-thinker approve {out}" in paused.output and not (out / "index.html").exists()
    assert call(*command, "--pause", "every step").exit_code == 4 and not (out / "attempts").exists()
    assert "The plan is approved. Run the same command" in call("approve", out).output
    second = call(*command, "--pause", "every step")
    assert second.exit_code == 4 and (out / "index.html").exists()
    assert "Waiting for your decision on step 1 (accepted, attempt 2)." in second.output
    assert f"{waiting_for(out).digest}.png" in second.output
    assert call("approve", out, "--use", 1).exit_code == 0
    assert call(*command, "--pause", "every step").exit_code == 4 and at(out) == 3
    assert call("approve", out, "--redraw", "add a moon").exit_code == 0
    assert call(*command, "--pause", "every step").exit_code == 4 and at(out) == 3
    assert call("approve", out).exit_code == 0
    assert call(*command, "--pause", "every step").exit_code == 4 and at(out) == 4
    assert call("approve", out, "--step", 4, "--skip").exit_code == 0
    done = call(*command, "--pause", "every step")
    assert done.exit_code == 0 and "Skipped by hand" in done.output and not (out / WAITING).exists()
    one, _, three, four = load_trajectory(out).results
    assert (one.chosen, three.attempts[three.chosen or 0].prompt) == (0, "add a moon")
    assert four.stop_reason is StopReason.skipped
    again = call("approve", out)
    assert again.exit_code == 2 and "does not wait for a decision" in again.stderr
    assert call("approve", out, "--skip", "--use", 1, "--step", 1).exit_code == 2


def test_a_pause_is_in_the_json_events(tmp_path: Path, command: list[object]) -> None:
    output = call(*command, "--pause", "after the plan", "--json").stdout
    *_, finished, result = [json.loads(line) for line in output.splitlines()]
    waiting = waiting_for(tmp_path / "out")
    assert finished["waiting"]["digest"] == result["waiting"]["digest"] == waiting.digest
    assert result["exit_code"] == 4 and result["waiting"]["step"] is None and result["page"] is None


def test_of_five_decisions_at_a_time_one_is_stored(tmp_path: Path, command: list[object]) -> None:
    assert call(*command, "--pause", "every step").exit_code == 4
    several = [start("approve", tmp_path / "out") for _ in range(5)]
    ended = [(*one.communicate(), one.returncode) for one in several]
    assert sorted(code for *_, code in ended) == [0, 2, 2, 2, 2], ended
    said = [error for _, error, code in ended if code]
    assert all("was stored first" in one or "does not wait for a decision" in one for one in said)


def test_only_a_run_can_wait(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = call("approve", tmp_path / "empty")
    assert refused.exit_code == 2 and "does not contain a run" in refused.stderr


@pytest.mark.parametrize(
    ("answers", "code", "reasons"),
    [
        ("a\nr\na big house\na\ns\nx\nu\n7\nu\n1\n", 0, ["picked", "text only", "skipped", "picked"]),
        ("a\na\nq\n", 4, ["picked", "text only", "accepted"]),
        ("", 4, []),
    ],
)
def test_a_terminal_is_asked(
    tmp_path: Path,
    command: list[object],
    monkeypatch: pytest.MonkeyPatch,
    answers: str,
    code: int,
    reasons: list[str],
) -> None:
    from typer.testing import CliRunner

    from interleave_thinker.cli import app

    monkeypatch.setattr(CHOICE, lambda: True)
    called = [str(one) for one in [*command, "--pause", "every step"]]
    result = CliRunner().invoke(app, called, input=answers)
    assert result.exit_code == code, result.output
    assert [one.stop_reason.value for one in load_trajectory(tmp_path / "out").results] == reasons
    assert result.output.count("Plan with 4 steps") == 1 and result.output.count("attempt 1: rejected") <= 1
    if "big house" in answers:
        first = load_trajectory(tmp_path / "out").results[0]
        assert first.attempts[first.chosen or 0].prompt == "a big house"
        assert "Attempt 7 of step 4" in result.output


def test_json_is_not_asked(tmp_path: Path, command: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHOICE, lambda: True)
    assert call(*command, "--pause", "every step", "--json").exit_code == 4


def test_a_decision_names_the_missing_image(tmp_path: Path, command: list[object]) -> None:
    call(*command)
    result = call("approve", tmp_path / "out", "--step", 1, "--use", 9)
    assert result.exit_code == 2 and "Attempt 9 of step 1" in result.stderr
    assert read_choices(tmp_path / "out").steps == {}
