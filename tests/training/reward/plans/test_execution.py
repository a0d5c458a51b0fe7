"""Executed plans: what is generated from what, what counts, and what leaves a plan out of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from interleave_thinker.backend.answers.reading import write_plan
from interleave_thinker.backend.errors import DrawRefused, GeneratorError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.types import Plan, Step
from interleave_thinker.tinyworld.lab.planning.simulated_world import SimulatedWorld
from interleave_thinker.tinyworld.lab.world.biases import biased
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.tinyworld.runtime.scene import Scene
from interleave_thinker.tinyworld.runtime.scorer import TinyWorldScorer
from interleave_thinker.tinyworld.runtime.wording import read_prompt
from interleave_thinker.training.data.rows.planner_rl import PlannerRlRow
from interleave_thinker.training.gate.plan_checks import PlanCheck, plan_check
from interleave_thinker.training.reward.plans.execution import ExecutionSetup, PlanExecution
from interleave_thinker.training.reward.plans.execution_settings import ExecutionSettings
from interleave_thinker.training.reward.plans.judging import JudgingSettings, PlanJudging
from interleave_thinker.training.reward.plans.reward import PlannerReward, PlanSample
from interleave_thinker.training.reward.plans.terms import PlanRewardSettings
from interleave_thinker.training.reward.rollout_reward import RolloutReading

FIRST = "a day page with a blue sun at the top"
EXPLICIT = f"{FIRST}; a blue sun must be at the top"
MOVED = "move the sun to the left"
STORY = PlannerRlRow(
    request="A day page with a blue sun at the top. Then it moves to the left.",
    reference=[Step(number=1, prompt=FIRST), Step(number=2, prompt=MOVED)],
)
JUDGING = JudgingSettings(tries=2)


class Biased:
    """Generates images with the tiny world's biases, exactly and without a model."""

    identity = "biased"

    def __init__(self) -> None:
        self.drawn: list[tuple[str, Scene | None, int]] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        if prompt.startswith("refused"):
            raise DrawRefused("The service refuses it.")
        if prompt.startswith("broken"):
            raise GeneratorError("The service is down.")
        before = read_image(source).scene if source else None
        self.drawn.append((prompt, before, seed))
        found = read_prompt(prompt)
        return draw(biased(before, *found) if found else Scene(0))


def plan(*prompts: str) -> Plan:
    return Plan(steps=tuple(Step(number=number, prompt=one) for number, one in enumerate(prompts, 1)))


def execution(folder: Path, generator: Biased, **settings) -> PlanExecution:
    setup = ExecutionSetup(generator, TinyWorldScorer(), ExecutionSettings(**settings))
    assert setup.open(folder, JUDGING, 7) is setup.open(folder, JUDGING, 7), "checks share the cache"
    return setup.open(folder, JUDGING, 7)


def execute(
    one: PlanExecution, plans: Sequence[Plan | None], rows: Sequence[PlannerRlRow] = (), folder: Path = Path()
):
    return asyncio.run(one.execute(rows or [STORY] * len(plans), plans, folder))


def rewarded(
    one: PlanExecution | None, answers: Sequence[str], row: PlannerRlRow, folder: Path
) -> tuple[list[PlanSample], dict[str, float]]:
    reading = RolloutReading(folder, lambda ids: "")
    judging = PlanJudging(SimulatedWorld(), JUDGING)
    reward = PlannerReward(judging, PlanRewardSettings(), reading, execution=one)
    return asyncio.run(reward.judged(answers, [row] * len(answers)))


def test_each_step_edits_the_image_before_and_equal_beginnings_are_generated_once(tmp_path: Path) -> None:
    artist = Biased()
    one = execution(tmp_path, artist)
    found, counts = execute(one, [plan(EXPLICIT, MOVED), plan(EXPLICIT, "remove the sun"), None])
    assert found[2] is None and (counts.asked, counts.drawn) == (4, 3)
    (first, nothing, first_seed), *later = artist.drawn
    assert (first, nothing) == (EXPLICIT, None)
    shown = read_prompt(FIRST)[0].apply(None)  # type: ignore[index, union-attr, arg-type]
    assert [(prompt, before) for prompt, before, _ in later] == [(MOVED, shown), ("remove the sun", shown)]
    seeds = {seed for _, _, seed in later}
    assert len(seeds) == 1 and first_seed not in seeds, "plans of a group share the seeds of their steps"


def test_a_request_with_images_begins_with_the_last_one(tmp_path: Path) -> None:
    artist, page = Biased(), Scene(1)
    names = []
    for number, scene in enumerate((Scene(0), page)):
        draw(scene).image.save(tmp_path / f"{number}.png")
        names.append(f"{number}.png")
    row = STORY.model_copy(update={"images": names})
    execute(execution(tmp_path, artist), [plan("add a red boat at the bottom")], [row], tmp_path)
    assert artist.drawn[0][1] == page
    lost = row.model_copy(update={"images": ["absent.png"]})
    (found,), _ = execute(execution(tmp_path, artist), [plan(FIRST)], [lost], tmp_path)
    assert found is not None and found.share is None and "absent.png" in found.fault


def test_the_wording_that_the_generator_follows_is_rewarded_more(tmp_path: Path) -> None:
    terse, explicit = write_plan(plan(FIRST, MOVED)), write_plan(plan(EXPLICIT, MOVED))
    texts, _ = rewarded(None, [terse, explicit], STORY, tmp_path)
    assert [sample.overall for sample in texts] == [1.0, 1.0], "the judge of texts sees no difference"
    found, measured = rewarded(execution(tmp_path, Biased()), [terse, explicit], STORY, tmp_path)
    # The usual color of a sun is yellow: one wrong cell, semantics 5 of 10. The move itself succeeds.
    half = 0.5**0.5
    assert found[0].executed == pytest.approx((half, 1.0)) and found[1].executed == (1.0, 1.0)
    content = (1 + 0.6 * (half + 1) / 2) / 1.6
    assert found[0].overall == pytest.approx(0.2 + 0.8 * content) and found[1].overall == pytest.approx(1.0)
    assert measured["reward/executed"] == pytest.approx((half + 3) / 4) and measured["redraw/asked"] == 4


def test_a_prompt_that_cannot_be_executed_counts_nothing_and_its_plan_stays_in_the_group(
    tmp_path: Path,
) -> None:
    one = execution(tmp_path, Biased())
    found, counts = execute(one, [plan(EXPLICIT, "refused", MOVED), plan("a castle in Spain", EXPLICIT)])
    assert [result.scores for result in found if result] == [(1.0, 0.0, 1.0), (0.0, 1.0)]
    assert [result.share for result in found if result] == [pytest.approx(2 / 3), 0.5]
    assert counts.repeated == 0 and one.problem_at_end is None, "neither is tried again, or is a failure"


def test_a_failed_generator_leaves_the_plan_out_and_then_stops_training(tmp_path: Path) -> None:
    one = execution(tmp_path, Biased())
    answers = [write_plan(plan(EXPLICIT, "broken"))] * 2 + [write_plan(plan(EXPLICIT, MOVED))]
    found, measured = rewarded(one, answers, STORY, tmp_path)
    assert [sample.overall for sample in found] == [None, None, pytest.approx(1.0)]
    assert "is down" in found[0].fault and measured["plan/failed"] == pytest.approx(2 / 3)
    assert one.problem is None and "is down" in (one.problem_at_end or "")


def test_unreadable_and_copying_plans_are_not_executed(tmp_path: Path) -> None:
    artist = Biased()
    request = "word " * 20 + "and a day page with a blue sun"
    row = STORY.model_copy(update={"request": request})
    answers = ["no plan", write_plan(plan(request, MOVED))]
    found, measured = rewarded(execution(tmp_path, artist), answers, row, tmp_path)
    assert [sample.overall for sample in found] == [0.0, pytest.approx(0.2)] and artist.drawn == []
    assert measured["reward/executed"] == 0.0


def test_steps_and_images_are_limited(tmp_path: Path) -> None:
    artist = Biased()
    one = execution(tmp_path, artist, executed_steps=2, max_draws=2)
    (found,), _ = execute(one, [plan(EXPLICIT, MOVED, MOVED, MOVED)])
    assert found is not None and len(found.scores) == len(artist.drawn) == 2
    assert "the limit of --max-draws is 2" in (one.problem or "")
    settings, scored = ExecutionSettings(executed_steps=3, draw_seconds=10), JudgingSettings(score_seconds=5)
    assert settings.drawing(scored).score_seconds == 5
    longest = ExecutionSetup(artist, TinyWorldScorer(), settings).longest(4, scored)
    assert longest == 3 * settings.drawing(scored).longest(4)


def test_a_check_has_the_images_of_its_plans_and_reads_older_ones(tmp_path: Path) -> None:
    answers = [write_plan(plan(FIRST, MOVED)), "no plan"]
    found, _ = rewarded(execution(tmp_path, Biased()), answers, STORY, tmp_path)
    check = plan_check(found, [10, 10], 0.8)
    assert check.executed == pytest.approx((0.5**0.5 + 1) / 4) and "executed 0.43" in str(check)
    assert check.measures()["held_out/executed"] == check.executed
    texts, _ = rewarded(None, answers, STORY, tmp_path)
    older = plan_check(texts, [10, 10], 0.8)
    written = older.model_dump()
    assert written.pop("executed") is None and PlanCheck.model_validate(written) == older
    assert "executed" not in str(older)
