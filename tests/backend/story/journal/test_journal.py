"""The run folder: what is cached, what is made again after an edit, and damaged or foreign folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.journal_runs import REQUEST, edit, tell
from support.small_agents import STORY, ChatError, Counting, GeneratorError, OneInThree, OnePlan, Verdicts

from interleave_thinker import AttemptStarted, Picture, Plan, PlanReady, load_trajectory
from interleave_thinker.backend.core.errors import Cancelled, JournalError
from interleave_thinker.backend.core.types import Fault, Identities, Request, RunSettings, StopReason, Verdict
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import (
    DrawKey,
    DrawRecord,
    InMemoryStore,
    JudgeKey,
    JudgementRecord,
    PlanKey,
    RunStore,
)
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import GIVEN, run

DRAW = DrawKey(generator="g", prompt="a house", seed=1, source=None)
JUDGE = JudgeKey(critic="c", before=None, after="0" * 40, original_prompt="a", prompt_used="b")


@pytest.fixture(params=["memory", "journal"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RunStore:
    """Every store has to meet the same contract."""
    store: RunStore = InMemoryStore() if request.param == "memory" else Journal(tmp_path / "run")
    store.begin(REQUEST, RunSettings(), Identities())
    request.addfinalizer(store.end)
    return store


def test_every_store_finds_values_only_by_their_key(store: RunStore) -> None:
    plan_key = PlanKey(planner="p", text="x")
    assert store.plan(plan_key) is store.drawn(DRAW) is store.judged(JUDGE) is store.written_plan() is None
    store.keep_plan(STORY, plan_key)
    store.keep_drawn(DrawRecord(key=DRAW, image=Picture.white((8, 8)), seconds=1.5))
    store.keep_judged(JudgementRecord(key=JUDGE, verdict=Verdict(success=None), seconds=2.5))
    assert store.plan(plan_key) == STORY
    assert store.written_plan() is None
    assert store.plan(PlanKey(planner="other", text="x")) is None
    assert store.drawn(DRAW) == DrawRecord(key=DRAW, image=Picture.white((8, 8)), seconds=1.5)
    assert store.drawn(DRAW.model_copy(update={"seed": 2})) is None
    found = store.judged(JUDGE)
    assert found and found.verdict == Verdict(success=None)
    assert store.judged(JUDGE.model_copy(update={"prompt_used": "c"})) is None


def test_every_store_skips_failures_and_prefers_the_users_plan(store: RunStore) -> None:
    store.keep_drawn(DrawRecord(key=DRAW, error=Fault(where="generator", message="no memory left")))
    store.keep_judged(JudgementRecord(key=JUDGE, error=Fault(where="critic", message="gone")))
    store.keep_plan(STORY, None)
    assert store.drawn(DRAW) is None
    assert store.judged(JUDGE) is None
    assert store.written_plan() == STORY


def test_keys_contain_every_input_of_a_result() -> None:
    digests = {
        key.digest
        for key in (
            DRAW,
            DRAW.model_copy(update={"generator": "h"}),
            DrawKey(generator="g", prompt="a", seed=1, source=None),
            DrawKey(generator="g", prompt="a", seed=1, source="None"),
            DrawKey(generator="ga", prompt="", seed=1, source=None),
        )
    }
    assert len(digests) == 5
    assert DRAW.digest == DrawKey(generator="g", prompt="a house", seed=1, source=None).digest


def test_the_folder_restores_the_trajectory(tmp_path: Path) -> None:
    trajectory = tell(tmp_path / "run")
    assert load_trajectory(tmp_path / "run") == trajectory
    (tmp_path / "run" / "trajectory.json").unlink()
    assert load_trajectory(tmp_path / "run") == trajectory
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "attempts",
        "pictures",
        "plan.json",
        "run.json",
        "verdicts",
    ]


def test_another_generator_critic_or_planner_repeats_only_its_part(tmp_path: Path) -> None:
    first = tell(tmp_path / "run")
    critic, generator = OneInThree(), Counting()
    critic.identity = "one in three, asked in other words"
    tell(tmp_path / "run", generator=generator, critic=critic)
    assert not generator.drawn
    assert len(critic.shown) == sum(len(result.attempts) for result in first.results)
    larger = Counting(size=24)
    tell(tmp_path / "run", generator=larger)
    assert len(larger.drawn) >= 3
    planner = OnePlan(identity="another")
    tell(tmp_path / "run", planner=planner)
    assert planner.asked == 1


def test_editing_a_step_regenerates_only_this_and_later_steps(tmp_path: Path) -> None:
    before = tell(tmp_path / "run")
    edit(tmp_path / "run" / "plan.json", lambda plan: plan["steps"][2].update(prompt="add a moon"))
    planner, generator = OnePlan(), Counting()
    after = tell(tmp_path / "run", planner=planner, generator=generator)
    assert planner.asked == 0
    assert after.identities.planner == GIVEN
    assert after.results[0] == before.results[0]
    assert after.plan.steps[2].prompt == "add a moon"
    assert generator.drawn[0][0] == "add a moon"
    assert after.results[3].image != before.results[3].image
    assert load_trajectory(tmp_path / "run") == after


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda plan: plan["steps"][2].update(promt="x"), "steps.2.promt"),
        (lambda plan: plan["steps"][1].update(auxiliary_text=None), "steps.1"),
        (lambda plan: plan["steps"][0].update(number="one"), "steps.0.number"),
        (lambda plan: plan.update(steps=[]), "steps"),
    ],
)
def test_an_invalid_edit_is_one_error(tmp_path: Path, change: Callable[[dict], object], place: str) -> None:
    tell(tmp_path / "run")
    edit(tmp_path / "run" / "plan.json", change)
    with pytest.raises(JournalError) as caught:
        tell(tmp_path / "run")
    assert f"plan.json', field '{place}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_failures_are_tried_again_but_stay_readable(tmp_path: Path) -> None:
    generator = Counting(failures=[GeneratorError("no memory left")])
    critic = Verdicts(ChatError("gone"), True, True, True)
    first = tell(tmp_path / "run", generator=generator, critic=critic)
    (tmp_path / "run" / "trajectory.json").unlink()
    assert load_trajectory(tmp_path / "run") == first
    again = Counting()
    tell(tmp_path / "run", generator=again, critic=Verdicts(True, True, True))
    assert again.drawn[0] == generator.drawn[0]


def test_an_unfinished_run_is_readable_up_to_its_last_record(tmp_path: Path) -> None:
    events = run(
        REQUEST, Collaborators(OnePlan(), Counting(), OneInThree()), journal=Journal(tmp_path / "run")
    )
    assert isinstance(next(iter(events)), PlanReady)
    assert [r.stop_reason for r in load_trajectory(tmp_path / "run").results] == [StopReason.cancelled]
    for event in events:
        if isinstance(event, AttemptStarted) and event.step.number == 3:
            break
    partial = load_trajectory(tmp_path / "run")
    assert [result.step.number for result in partial.results] == [1, 2, 3]
    assert partial.results[-1].stop_reason is StopReason.cancelled
    assert partial.results[0].image is not None
    events.close()  # type: ignore[attr-defined]


def test_run_without_a_plan_yet(tmp_path: Path) -> None:
    class Stopped(OnePlan):
        def plan(self, request: Request) -> Plan:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        tell(tmp_path / "run", planner=Stopped())
    with pytest.raises(JournalError, match="does not have a plan yet"):
        load_trajectory(tmp_path / "run")


def test_a_deleted_image_is_generated_again(tmp_path: Path) -> None:
    first = tell(tmp_path / "run")
    image = first.results[0].attempts[0].image
    assert image
    (tmp_path / "run" / "pictures" / f"{image.digest}.png").unlink()
    generator = Counting()
    again = tell(tmp_path / "run", generator=generator)
    assert [result.image for result in again.results] == [result.image for result in first.results]
    assert len(generator.drawn) == 1
