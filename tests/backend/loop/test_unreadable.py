"""A run whose critic cannot be read stops after two verdicts, says why, and goes on with another critic."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from support.small_agents import Counting, Verdicts

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.chat.scripted import ScriptedChat
from interleave_thinker.backend.errors import AnswerError, ChatError
from interleave_thinker.backend.journal.journal import Journal
from interleave_thinker.backend.loop.events import Event, Finished
from interleave_thinker.backend.loop.loop import CriticLike, run
from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Request, RunSettings, Step, StopReason, Verdict

REQUEST = Request(text="two pages")
PLAN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
UNREADABLE = Verdict(success=None, reasoning="Nobody understands this.")
WRONG = Verdict(success=False, refined_prompt="")


class Other(Verdicts):
    identity = "another critic"


def events(critic: CriticLike, generator: Counting, folder: Path, tries: int = 5) -> list[Event]:
    settings = RunSettings(max_attempts=tries)
    return list(run(REQUEST, None, generator, critic, settings, Journal(folder), PLAN))


def test_two_in_a_row_stop_the_run_and_another_critic_goes_on_with_its_images(tmp_path: Path) -> None:
    generator = Counting()
    with pytest.raises(AnswerError, match=r"verdicts in order. Nobody.*--critic.*images are kept"):
        events(Verdicts(*[UNREADABLE] * 9), generator, tmp_path)
    assert len(generator.drawn) == 2
    stopped = load_trajectory(tmp_path)
    assert len(stopped.results[0].attempts) == 2, "what was recorded can be read all the same"
    generator = Counting()
    finished = events(Other(WRONG, True, True), generator, tmp_path)[-1]
    assert isinstance(finished, Finished)
    assert [result.stop_reason for result in finished.trajectory.results] == [StopReason.accepted] * 2
    assert len(generator.drawn) == 1, "both tries of the first step were there"


def test_the_row_goes_on_over_steps_and_over_runs(tmp_path: Path) -> None:
    generator = Counting()
    with pytest.raises(AnswerError):
        events(Verdicts(UNREADABLE, UNREADABLE), generator, tmp_path, tries=2)
    with pytest.raises(AnswerError):
        events(Verdicts(UNREADABLE), generator, tmp_path, tries=5)
    assert len(generator.drawn) == 3


def test_a_readable_verdict_or_a_failed_one_between_them_is_no_row(tmp_path: Path) -> None:
    critic = Verdicts(UNREADABLE, WRONG, UNREADABLE, True, True)
    assert isinstance(events(critic, Counting(), tmp_path / "read")[-1], Finished)
    critic = Verdicts(ChatError("No server."), ChatError("No server."), UNREADABLE, True, True)
    assert isinstance(events(critic, Counting(), tmp_path / "failed")[-1], Finished)


def test_a_recorded_row_stops_nothing(tmp_path: Path) -> None:
    """As runs of earlier versions have them: queued again, they are as they were."""
    with pytest.raises(AnswerError):
        events(Verdicts(*[UNREADABLE] * 2), Counting(), tmp_path, tries=2)
    finished = events(Verdicts(True), Counting(), tmp_path, tries=2)[-1]
    assert isinstance(finished, Finished)


def test_a_planner_as_critic_is_named_and_not_made_to_write_a_verdict() -> None:
    """A grammar makes any model write one, which would be no judgement."""
    image = Picture(Image.new("RGB", (8, 8)))
    chat = ScriptedChat([write_plan(PLAN), '{"success": true}'])
    verdict = Critic(chat).judge(None, image, "a house", "a house")
    assert verdict.success is None and "checkpoint is a planner's" in verdict.reasoning
    assert len(chat.requests) == 1
