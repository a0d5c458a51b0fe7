"""A scorer in the loop: it chooses between attempts, and is asked only where the choice depends on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli_calls import call
from support.small_agents import Counting, OnePlan, Verdicts

from interleave_thinker.backend.core.errors import Cancelled, ScorerError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import (
    Identities,
    Plan,
    Request,
    RunSettings,
    Score,
    Step,
    Trajectory,
    Verdict,
)
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.run_files import TRAJECTORY
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptScored, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a house")
ONE = Plan(steps=(Step(number=1, prompt="a house"),))
TWO = Plan(steps=(Step(number=1, prompt="a house"), Step(number=2, prompt="add a sun")))


class InOrder:
    """Gives these overall scores in the order of its calls; None fails."""

    identity = "in order"

    def __init__(self, *scores: float | BaseException | None) -> None:
        self.left = list(scores)
        self.shown: list[tuple[Picture | None, Picture, str]] = []

    def score(self, before: Picture | None, after: Picture, instruction: str) -> Score:
        self.shown.append((before, after, instruction))
        value = self.left.pop(0)
        if isinstance(value, BaseException):
            raise value
        if value is None:
            raise ScorerError("The scores cannot be read.")
        return Score(semantics=value, quality=value)


class Comparing(InOrder):
    """Has the name of a scorer of release 0.3.0 that compared the images of a step."""

    identity = "together:comparing"


def carried_out(
    scorer: InOrder, *verdicts: Verdict | bool, plan: Plan = ONE, folder: Path | None = None, **settings: Any
) -> tuple[list[AttemptScored], Trajectory]:
    journal = Journal(folder) if folder else None
    events = list(
        run(
            REQUEST,
            Collaborators(OnePlan(plan), Counting(size=24), Verdicts(*verdicts), scorer=scorer),
            RunSettings(**settings),
            journal,
        )
    )
    assert isinstance(events[-1], Finished)
    return [event for event in events if isinstance(event, AttemptScored)], events[-1].trajectory


def test_the_best_score_is_kept_if_no_attempt_is_accepted() -> None:
    sure = [
        Verdict(success=False, probability=one, refined_prompt=f"better {one}") for one in (0.4, 0.1, 0.2)
    ]
    scorer = InOrder(3, 8, 5)
    scored, trajectory = carried_out(scorer, *sure, max_attempts=3)
    (result,) = trajectory.results
    assert result.chosen == 1, "the critic would have kept the first"
    assert [one.score and one.score.overall for one in result.attempts] == [3, 8, 5]
    assert [event.attempt for event in scored] == [0, 1, 2]
    assert {prompt for _, _, prompt in scorer.shown} == {"a house"}, "scored against the plan's prompt"
    assert trajectory.identities.scorer == "in order"


def test_nothing_is_scored_where_the_verdicts_decide() -> None:
    scored, trajectory = carried_out(InOrder(), False, True, max_attempts=3)
    assert not scored and trajectory.results[0].chosen == 1
    scored, trajectory = carried_out(InOrder(), False, False, max_attempts=2, keep="last")
    assert not scored and trajectory.results[0].chosen == 1
    assert not carried_out(InOrder(), False, max_attempts=1)[0]


def test_accepted_candidates_are_compared_without_the_rejected_ones() -> None:
    scored, trajectory = carried_out(InOrder(4, 9), True, False, True, max_attempts=3, candidates=3)
    assert [event.attempt for event in scored] == [0, 2]
    assert trajectory.results[0].chosen == 2


def test_images_are_scored_at_the_size_of_their_source() -> None:
    scorer = InOrder(1, 2)
    request = Request(text="a house", images=(Picture.white((40, 30)),))
    critic = Verdicts(False, False)
    for _ in run(
        request, Collaborators(OnePlan(ONE), Counting(), critic, scorer=scorer), RunSettings(max_attempts=2)
    ):
        pass
    assert [(before and before.size, after.size) for before, after, _ in scorer.shown] == [
        ((40, 30),) * 2
    ] * 2


def test_a_failed_score_leaves_the_choice_to_the_critic() -> None:
    sure = [Verdict(success=False, probability=one) for one in (0.1, 0.4)]
    scored, trajectory = carried_out(InOrder(9, None), *sure, max_attempts=2)
    assert trajectory.results[0].chosen == 1
    assert [event.error for event in scored] == ["", "The scores cannot be read."]


@pytest.mark.parametrize("kind", [InOrder, Comparing])
def test_scores_are_cached_and_replayed(kind: type[InOrder], tmp_path: Path) -> None:
    _, first = carried_out(kind(7, 2), False, False, folder=tmp_path / "run", max_attempts=2)
    assert first.results[0].chosen == 0
    scored, again = carried_out(kind(), folder=tmp_path / "run", max_attempts=2)
    assert again == first and all(event.reused for event in scored)
    (tmp_path / "run" / TRAJECTORY).unlink()
    assert load_trajectory(tmp_path / "run") == first, "from the records"


def test_a_cancelled_scorer_stops_the_run_and_its_scores_are_kept(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        carried_out(InOrder(7, Cancelled("stop")), False, False, folder=tmp_path, max_attempts=2)
    scorer = InOrder(2)
    _, trajectory = carried_out(scorer, folder=tmp_path, max_attempts=2)
    assert trajectory.results[0].chosen == 0 and len(scorer.shown) == 1


def test_scores_of_compared_images_have_the_key_of_release_0_3_0(tmp_path: Path) -> None:
    _, trajectory = carried_out(Comparing(7, 2), False, False, folder=tmp_path, max_attempts=2)
    stored = [json.loads(file.read_text()) for file in tmp_path.glob("*/*.json")]
    digests = sorted(one.image.digest for one in trajectory.results[0].attempts if one.image)
    assert {one["key"]["critic"] for one in stored if one.get("score")} == {
        f"score together:comparing compared={json.dumps(digests)}"
    }


def test_a_copied_run_keeps_its_scores(tmp_path: Path) -> None:
    _, first = carried_out(InOrder(7, 2), False, False, folder=tmp_path / "run", max_attempts=2)
    copied = save_trajectory(first, tmp_path / "copy")
    (copied / TRAJECTORY).unlink(missing_ok=True)
    assert load_trajectory(copied).results == first.results


def test_runs_without_a_scorer_are_written_as_before() -> None:
    assert "scorer" not in json.loads(Identities(planner="a").model_dump_json())
    assert Identities.model_validate({"planner": "a", "scorer": "b"}).scorer == "b"


def test_run_chooses_by_the_scorer_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(["[9, 9]", "[9, 9]", "[2, 9]", "[9, 9]"]))
    (tmp_path / "critic.json").write_text(
        json.dumps(['{"previous_step_success": false, "refine_prompt": "a sea page with a red boat"}'] * 4)
    )
    told = ["run", "Draw a sea page with a red boat in the middle.", "--out", tmp_path / "run"]
    told += ["--critic", f"scripted:{tmp_path / 'critic.json'}", "--max-attempts", 2]
    done = call(*told, "--set", f"scorer=judge:scripted:{tmp_path / 'script.json'}")
    assert "attempt 1: score 9.0" in done.output and "attempt 2: score" in done.output, done.output
    assert load_trajectory(tmp_path / "run").results[0].chosen == 0
    resumed = call("run", "--out", tmp_path / "run", *told[4:])
    assert resumed.exit_code == 2 and "without a scorer" in resumed.output
