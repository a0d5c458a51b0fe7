"""A setting without effect is reported once per run, and stored in its trajectory."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_agents import STORY, Counting, OnePlan, Verdicts

from interleave_thinker.backend.core.types import Request, RunSettings, Trajectory, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.output.exporters.page import render
from interleave_thinker.backend.output.report.run_report import report
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished, SettingUnused
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a story")
SURE = Verdict(success=True, probability=0.9)
SAID = "accept_at had no effect: the critic reports no probabilities"


class Unseeded(Counting):
    repeatable = False


def carried_out(
    critic: object, folder: Path, accept_at: float | None = 0.8, generator: Counting | None = None
) -> tuple[list[str], Trajectory]:
    settings = RunSettings(max_attempts=2, accept_at=accept_at)
    drawer = generator or Counting()
    events = list(run(REQUEST, Collaborators(OnePlan(STORY), drawer, critic), settings, Journal(folder)))
    assert isinstance(events[-1], Finished)
    told = [event.setting for event in events if isinstance(event, SettingUnused)]
    return told, events[-1].trajectory


def test_accept_at_without_probabilities_is_reported_once_everywhere(tmp_path: Path) -> None:
    told, trajectory = carried_out(Verdicts(True, False, True, True), tmp_path)
    assert told == ["accept_at"] and trajectory.unused == ("accept_at",)
    assert SAID in report(trajectory) and SAID in render(trajectory)
    assert load_trajectory(tmp_path) == trajectory
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path).unused == ("accept_at",), "as recorded"
    told, _ = carried_out(Verdicts(), tmp_path)
    assert told == ["accept_at"], "once per run, also of one that only reads"


@pytest.mark.parametrize(
    ("answers", "accept_at"),
    [((SURE,) * 3, 0.8), ((True,) * 3, None), ((Verdict(success=None), SURE, SURE, SURE), 0.8)],
)
def test_settings_with_an_effect_are_not_reported(
    tmp_path: Path, answers: tuple, accept_at: float | None
) -> None:
    told, trajectory = carried_out(Verdicts(*answers), tmp_path, accept_at)
    assert told == [] and "had no effect" not in report(trajectory)
    assert "unused" not in trajectory.model_dump(), "earlier versions read it"


def test_a_service_without_seeds_is_reported(tmp_path: Path) -> None:
    told, trajectory = carried_out(Verdicts(*[SURE] * 3), tmp_path, generator=Unseeded())
    assert told == ["seed"] and "seed had no effect" in report(trajectory)


def test_constrained_decoding_that_a_backend_cannot_do_is_named() -> None:
    class Constraining(ScriptedChat):
        constrains_replies = True

    assert Critic(ScriptedChat([]), constrained_decoding="always").unused_settings == (
        "constrained_decoding",
    )
    assert Critic(ScriptedChat([])).unused_settings == (), "it was not set"

    class Unasked(ScriptedChat):
        @property
        def constrains_replies(self) -> bool:
            raise AssertionError("asked, which warns of a missing library, although no reply needs it")

    assert Critic(Unasked([])).unused_settings == ()
    assert Critic(Constraining([]), constrained_decoding="always").unused_settings == ()


def test_a_setting_that_is_rejected_during_the_run_is_reported_then(tmp_path: Path) -> None:
    class Rejecting(Verdicts):
        unused_settings = ()

        def judge(self, *asked: object) -> Verdict:
            self.unused_settings = ("constrained_decoding",)
            return super().judge(*asked)

    told, trajectory = carried_out(Rejecting(*[SURE] * 3), tmp_path)
    assert told == ["constrained_decoding"] and trajectory.unused == ("constrained_decoding",)
