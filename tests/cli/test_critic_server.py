"""A run whose critic server is busy or dies: no image is generated twice, and the run is not complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.chat_server import ChatServer, chat_server
from support.cli_calls import Scripts, call, verdict_reply
from support.image_service import image_service
from support.small_agents import STORY

from interleave_thinker import StopReason, load_trajectory
from interleave_thinker.backend.core.answers.reading import write_plan
from interleave_thinker.backend.story.outcomes import UNUSED

DRAWN_STEPS = sum(step.prompt is not None for step in STORY.steps)


@pytest.fixture
def critic(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("interleave_thinker.backend.core.remote.call.MAX_PAUSE", 0.01)
    with chat_server(verdict_reply(True)) as running:
        yield running


def line(folder: Path, critic: ChatServer) -> list[object]:
    planner = Scripts(folder).planner(write_plan(STORY))
    options = ["--critic", f"openai:{critic.spec}", "--generator", "fake:16", "--max-attempts", 4]
    return ["run", "a story", "--out", folder / "out", *planner, *options]


def written(folder: Path) -> dict[str, int]:
    """Return the records of images and the times at which they were written."""
    return {path.name: path.stat().st_mtime_ns for path in (folder / "out" / "attempts").iterdir()}


def test_a_busy_critic_is_waited_for(tmp_path: Path, critic: ChatServer) -> None:
    critic.busy_seconds = 0.9
    done = call(*line(tmp_path, critic))
    assert done.exit_code == 0, done.output
    assert critic.refused == 1, "retried after the second that it named"
    assert len(written(tmp_path)) == DRAWN_STEPS
    attempts = [one for result in load_trajectory(tmp_path / "out").results for one in result.attempts]
    assert len(attempts) == DRAWN_STEPS and all(one.verdict and one.verdict.success for one in attempts)


@pytest.mark.parametrize("role", ["critic", "generator"])
def test_a_server_that_is_busy_for_a_day_ends_the_run_before_another_image(
    tmp_path: Path, critic: ChatServer, role: str
) -> None:
    with image_service() as service:
        if role == "critic":
            critic.busy_seconds = 100_000.0
        else:
            service.faults = [(503, b"full", {"Retry-After": "100000"})] * 9
        ended = call(*line(tmp_path, critic), "--generator", f"http:{service.url}")
        assert ended.exit_code == 1 and "it is busy for at least" in ended.output
        assert (len(service.requests), critic.refused) == (1, int(role == "critic"))


@pytest.mark.parametrize("status", [0, 401, 503])
def test_a_dead_critic_stops_the_run(tmp_path: Path, critic: ChatServer, status: int) -> None:
    critic.dies_after, critic.dies_with = 1, status
    died = call(*line(tmp_path, critic))
    assert died.exit_code == 1
    assert "Two judgments in a row failed" in died.output and "All images are saved" in died.output
    assert (f"status {status}: it died" if status else "Cannot reach") in died.output
    kept = written(tmp_path)
    assert len(kept) == 3, "one image of the first step and two of the next"
    assert not (tmp_path / "out" / "trajectory.json").exists()
    stopped = load_trajectory(tmp_path / "out").results
    assert stopped[0].stop_reason is StopReason.accepted and stopped[-1].stop_reason is StopReason.cancelled

    again = call(*line(tmp_path, critic))
    assert again.exit_code == 1 and written(tmp_path) == kept, "it is still down"

    critic.dies_after = None
    done = call(*line(tmp_path, critic))
    assert done.exit_code == 0, done.output
    after = written(tmp_path)
    assert {name: after[name] for name in kept} == kept, "no image was generated again"
    assert len(after) == len(kept) + 1


def test_accept_at_without_probabilities_gives_one_warning(tmp_path: Path, critic: ChatServer) -> None:
    critic.has_logprobs = False
    options = [*line(tmp_path, critic), "--set", "accept_at=0.8"]
    done = call(*options)
    warning = f"Warning: {UNUSED['accept_at']}."
    assert done.exit_code == 0 and done.stderr.count(warning) == 1 and warning not in done.stdout
    assert UNUSED["accept_at"] in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    events = [json.loads(one) for one in call(*options, "--json").stdout.splitlines()]
    reported = [one for one in events if one["event"] == "setting_unused"]
    assert reported == [{"event": "setting_unused", "setting": "accept_at"}]


def test_the_result_counts_the_prompt_tokens_of_servers(tmp_path: Path, critic: ChatServer) -> None:
    critic.usage = {"prompt_tokens": 1200, "prompt_tokens_details": {"cached_tokens": 900}}
    shown = call(*line(tmp_path, critic))
    read, cached = 1200 * DRAWN_STEPS, 900 * DRAWN_STEPS
    assert f"({read - cached:,} tokens read, {cached:,} cached, " in " ".join(shown.stdout.split())
    (tmp_path / "new").mkdir()
    events = [json.loads(one) for one in call(*line(tmp_path / "new", critic), "--json").stdout.splitlines()]
    assert events[-1]["times"]["critic"].items() >= {"read": read - cached, "cached": cached}.items()
