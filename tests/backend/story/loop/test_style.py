"""A style sentence before every prompt: generated, judged, refined, stored and resumed."""

from __future__ import annotations

import json
from pathlib import Path

from support.small_agents import Counting, OnePlan, Verdicts

from interleave_thinker.backend.core.types import (
    MAX_TEXT,
    Plan,
    Request,
    RunSettings,
    Step,
    Trajectory,
    Verdict,
    in_style,
)
from interleave_thinker.backend.output.exporters.record import export, read_record
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.external import DrawNeeded, ExternalAttempts, run_from_plan
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a house, then the sun")
PLAIN = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))
INK = PLAIN.model_copy(update={"style": "Ink on paper"})
REFUSED = Verdict(success=False, refined_prompt="a red house")
AGAIN = Verdict(success=False, refined_prompt="Ink on paper. a blue house")


def told(plan: Plan, critic=None, store=None) -> Trajectory:
    last = list(run(REQUEST, Collaborators(OnePlan(plan), Counting(), critic), RunSettings(), store))[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def test_every_prompt_is_generated_and_judged_after_the_style() -> None:
    critic = Verdicts(REFUSED, AGAIN, True, True)
    first, second = told(INK, critic).results
    drawn = ["a house", "a red house", "a blue house"]
    assert [attempt.prompt for attempt in first.attempts] == [f"Ink on paper. {prompt}" for prompt in drawn]
    assert [attempt.prompt for attempt in second.attempts] == ["Ink on paper. add a sun"]
    assert critic.shown[1][2:] == ("Ink on paper. a house", "Ink on paper. a red house")


def test_without_a_style_everything_is_written_as_before() -> None:
    trajectory = told(PLAIN)
    assert {"style", "warning"}.isdisjoint(json.loads(trajectory.plan.model_dump_json()))
    assert trajectory.results[0].attempts[0].prompt == "a house"
    assert Plan.model_validate_json(INK.model_dump_json()) == INK


def test_another_style_generates_again_and_the_same_does_not(tmp_path: Path) -> None:
    told(INK, store=Journal(tmp_path))
    generator = Counting()
    again = list(run(REQUEST, Collaborators(OnePlan(INK), generator), RunSettings(), Journal(tmp_path)))[-1]
    assert isinstance(again, Finished) and again.trajectory.plan == INK and not generator.drawn
    (tmp_path / "trajectory.json").unlink()
    assert load_trajectory(tmp_path) == again.trajectory
    oil = INK.model_copy(update={"style": "Oil"})
    list(run(REQUEST, Collaborators(None, generator), RunSettings(), Journal(tmp_path), oil))
    assert len(generator.drawn) == 2


def test_a_record_of_a_run_with_a_style_is_read_back(tmp_path: Path) -> None:
    trajectory = told(INK, Verdicts(REFUSED, True, True))
    record = read_record(export(trajectory, tmp_path))
    assert [step.prompt for step in record.plan] == ["Ink on paper. a house", "Ink on paper. add a sun"]
    drawn = [attempt.prompt for result in trajectory.results for attempt in result.attempts]
    assert [entry.drawn_with for entry in record.entries] == drawn


def test_external_nodes_also_get_the_style(tmp_path: Path) -> None:
    external_run = run_from_plan(REQUEST, INK, 2, None, seed=0)
    try:
        ExternalAttempts(external_run, "nodes", RunSettings(), tmp_path).follow(
            None, None, lambda event: None
        )
    except DrawNeeded as missing:
        assert missing.wanted.prompt == "Ink on paper. add a sun"


def test_the_style_ends_with_one_period() -> None:
    assert in_style("a", "Ink.") == "Ink. a" and in_style("a", "水墨。") == "水墨。 a"
    assert in_style("a", " ") == "a" and in_style("Ink. a", "Ink") == "Ink. a"


def test_a_refined_prompt_without_room_for_the_style_is_not_used() -> None:
    long = Verdict(success=False, refined_prompt="x" * MAX_TEXT)
    attempts = told(INK, Verdicts(long, True, True)).results[0].attempts
    assert attempts[1].prompt == attempts[0].prompt
