"""The shipped checkpoints work as documented: a plan, mistakes, verdicts, and stories that improve.

Small samples with bounds far below the documented figures detect a broken checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from interleave_thinker import AttemptJudged, Critic, Finished, Picture, Planner, open_chat, open_generator
from interleave_thinker.backend.core.types import Request, RunSettings, Trajectory
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.tinyworld.stories import request_of
from interleave_thinker.research.tinyworld.world.judged_images import balanced
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.research.tinyworld.world.scenes import random_edit, random_scene
from interleave_thinker.tinyworld import CHECKPOINTS, DEMO_REQUEST, DEMO_SEED
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.generator import TinyWorldGenerator
from interleave_thinker.tinyworld.oracle import changed_cells
from interleave_thinker.tinyworld.scorer import faults, read_image
from interleave_thinker.tinyworld.wording import clauses_of, edit_text, prompt_text

MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner(open_chat("tinyworld:planner"))


@pytest.fixture(scope="module")
def critic() -> Critic:
    return Critic(open_chat("tinyworld:critic"))


@pytest.fixture(scope="module")
def generator() -> TinyWorldGenerator:
    opened = open_generator("tinyworld")
    assert isinstance(opened, TinyWorldGenerator)
    return opened


def test_checkpoints_are_small_and_safe() -> None:
    files = [path for path in CHECKPOINTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 24 * MEGABYTE
    assert {path.suffix for path in files} <= {".safetensors", ".json", ".txt", ".jinja"}
    for name in ("planner", "critic"):
        assert (CHECKPOINTS / name / "prompt_set" / "critic.txt").is_file()


def test_plans_are_exact(planner: Planner) -> None:
    rng = Random("shipped plans")
    stories = [random_story(rng, "evaluate") for _ in range(12)]
    exact = [planner.plan(request_of(story)).steps == story.plan.steps for story in stories]
    assert sum(exact) >= 0.9 * len(exact)


@pytest.mark.parametrize(
    "count", [24, pytest.param(180, marks=[pytest.mark.stress, pytest.mark.timeout(1800)])]
)
def test_precise_prompts_are_more_reliable(generator: TinyWorldGenerator, count: int) -> None:
    rng = Random("shipped draws")
    right = {"terse": 0, "precise": 0}
    for seed in range(count):
        before = random_scene(rng)
        edit = random_edit(rng, before)
        after = edit.apply(before)
        stated = clauses_of(
            after, changed_cells(before, after)[:4], backdrop=not changed_cells(before, after)
        )
        for kind, clauses in (("terse", []), ("precise", stated)):
            page = generator.draw(prompt_text(edit, clauses), draw(before), seed)
            right[kind] += not faults(after, read_image(page))
    assert 0.55 * count < right["terse"] < 0.95 * count
    assert right["precise"] > right["terse"] + count // 45


@pytest.mark.parametrize(
    "count", [14, pytest.param(80, marks=[pytest.mark.stress, pytest.mark.timeout(1800)])]
)
def test_verdicts_on_pages_are_correct(critic: Critic, generator: TinyWorldGenerator, count: int) -> None:
    right: dict[bool, list[bool]] = {True: [], False: []}
    for one in balanced(generator.pipeline, count, seed=4321):
        used = prompt_text(one.edit, one.clauses)
        said = critic.judge(one.before, one.after, edit_text(one.edit), used).success
        assert said is not None
        right[one.success].append(said == one.success)
    assert sum(map(sum, right.values())) >= 0.87 * count
    assert min(sum(ones) / len(ones) for ones in right.values()) >= 0.8


def _tell(
    request: Request, planner: Planner, critic: Critic, generator: TinyWorldGenerator, seed: int
) -> Trajectory:
    for event in run(request, Collaborators(planner, generator, critic), RunSettings(seed=seed)):
        if (
            isinstance(event, AttemptJudged)
            and event.record.verdict
            and event.record.verdict.success is not None
        ):
            assert event.record.verdict.probability is not None
        if isinstance(event, Finished):
            return event.trajectory
    raise AssertionError("no Finished")


def test_the_demo_is_reproducible(planner: Planner, critic: Critic, generator: TinyWorldGenerator) -> None:
    request = Request(text=DEMO_REQUEST)
    first = _tell(request, planner, critic, generator, seed=DEMO_SEED)
    assert [bool(result.step.prompt) for result in first.results] == [True] * 5 + [False]
    assert all(result.step.auxiliary_text for result in first.results)
    attempts = [attempt for result in first.results for attempt in result.attempts]
    assert any(attempt.verdict and attempt.verdict.success is False for attempt in attempts)
    for attempt in attempts[:2]:
        assert generator.draw(attempt.prompt, attempt.source, attempt.seed) == attempt.image
    assert planner.plan(request).steps == first.plan.steps


def test_a_story_continues_from_the_users_image(
    planner: Planner, critic: Critic, generator: TinyWorldGenerator, tmp_path: Path
) -> None:
    story = next(s for s in (random_story(Random(n), "evaluate", steps=2) for n in range(99)) if s.before)
    assert story.before is not None
    big = draw(story.before).image.resize((480, 480))
    big.save(tmp_path / "page.png")
    request = Request(text=story.text, images=(Picture.open(tmp_path / "page.png"),))
    trajectory = _tell(request, planner, critic, generator, seed=1)
    source = trajectory.results[0].attempts[0].source
    assert source is not None and source.size == (480, 480)
    assert all(result.image is not None and result.image.size == (96, 96) for result in trajectory.results)
