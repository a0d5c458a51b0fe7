"""Training rows of the ablation's agents, and the single agent that plans while it looks."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from interleave_thinker.backend.core.answers.reading import read_verdict, write_plan, write_verdict
from interleave_thinker.backend.core.types import RunSettings, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.story.agents.critic import Critic
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.journal.store import InMemoryStore
from interleave_thinker.research.tinyworld.ablation.single_agent import next_step, run_step_by_step
from interleave_thinker.research.tinyworld.data.trajectories import (
    OVERLOOKED,
    REMEDIES,
    TaughtAttempt,
    filtered,
    make_unfiltered,
    refined_prompt,
    trajectories,
)
from interleave_thinker.research.tinyworld.stories import request_of
from interleave_thinker.research.tinyworld.world.judged_images import rendered
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.tinyworld.drawing import draw
from interleave_thinker.tinyworld.generator import TinyWorldGenerator, load_pipeline
from interleave_thinker.tinyworld.oracle import DrawnImage
from interleave_thinker.tinyworld.scorer import ImageReading, faults, read_image
from interleave_thinker.tinyworld.wording import prompt_text, read_prompt


def failed_page(rng: Random) -> DrawnImage:
    while True:
        drawn = rendered(rng, mistakes=1.0)
        if not drawn.success:
            return drawn


def test_the_teacher_has_the_documented_habits() -> None:
    rng = Random(5)
    kinds = {"same": 0, "stated": 0, "other": 0}
    for _ in range(600):
        drawn = failed_page(rng)
        prompt = prompt_text(drawn.edit)
        refined = refined_prompt(rng, drawn, prompt)
        found = read_prompt(refined)
        assert found is not None
        edit, clauses = found
        assert all(clause.holds(drawn.expected) for clause in clauses), "the statements are true"
        kinds["other" if edit != drawn.edit else "stated" if clauses else "same"] += 1
    assert abs(kinds["other"] / 600 - REMEDIES["another edit"]) < 0.06
    assert kinds["same"] / 600 >= REMEDIES["repeated"] - 0.06
    assert kinds["stated"] > 100


def page_with(faults_in: int) -> DrawnImage:
    """Return an image in which this many of its four things are missing."""
    edit = read_prompt(
        "a day page with a red sun at the top left and a blue moon at the top and a red boat at the left "
        "and a white cloud at the right"
    )
    assert edit is not None
    scene = edit[0].apply(None)  # type: ignore[arg-type]
    for cell in scene.occupied[:faults_in]:
        scene = scene.put(cell, 0)
    page = draw(scene)
    seen = read_image(page)
    assert isinstance(seen, ImageReading) and len(faults(edit[0].apply(None), seen)) == faults_in  # type: ignore[arg-type]
    return DrawnImage(None, None, edit[0], (), page, seen)


def taught(*faulty: int) -> list[TaughtAttempt]:
    return [TaughtAttempt(page_with(count), f"try {number}", "next") for number, count in enumerate(faulty)]


@pytest.mark.parametrize(
    ("faulty", "kept"),
    [
        ((0,), ["try 0"]),
        ((1,), []),
        ((1, 0), ["try 0", "try 1"]),
        ((1, 2), []),
        ((1, 2, 1), []),
        ((2, 1, 2), ["try 0"]),
        ((2, 1, 0), ["try 0", "try 1", "try 2"]),
    ],
)
def test_trajectories_are_filtered_as_published(faulty: tuple[int, ...], kept: list[str]) -> None:
    assert [one.prompt for one in filtered(taught(*faulty))] == kept


def test_steps_are_planned_one_by_one_during_generation() -> None:
    story = random_story(Random(3), "train", steps=3)
    answers = [write_plan(next_step(story, done)) for done in range(4)]
    verdicts = [write_verdict(Verdict(success=number != 1)) for number in range(4)]
    planner, critic = Planner(ScriptedChat(answers)), Critic(ScriptedChat(verdicts))
    generator = TinyWorldGenerator(load_pipeline(checkpoint("generator")), "tinyworld")
    settings = RunSettings(max_attempts=3, seed=1)
    pages, draws = run_step_by_step(request_of(story), planner, critic, generator, settings, InMemoryStore())
    assert pages is not None and len(pages) == 3 and draws == 4, "the second step had two attempts"
    pages, draws = run_step_by_step(
        request_of(story), Planner(ScriptedChat(["?"] * 9)), critic, generator, settings, InMemoryStore()
    )
    assert pages is None and draws == 0


def test_only_unfiltered_rows_contain_wrong_verdicts(tmp_path: Path) -> None:
    pipeline = load_pipeline(checkpoint("generator"))
    taken = list(islice(trajectories(pipeline, 3), 240))
    drawn = [one for attempts in taken for one in attempts][:256]
    rows = make_unfiltered(tmp_path, pipeline, len(drawn), 3)
    said = [read_verdict(row.messages[1].content).success for row in rows]
    failed = [verdict for verdict, one in zip(said, drawn, strict=True) if not one.drawn.success]
    assert len(failed) > 50 and abs(sum(map(bool, failed)) / len(failed) - OVERLOOKED) < 0.15
    assert all(verdict for verdict, one in zip(said, drawn, strict=True) if one.drawn.success)
    kept = [one for attempts in taken for one in filtered(attempts)]
    assert kept and not any(one.overlooked for one in kept)


def test_a_wrongly_accepted_image_ends_its_trajectory_and_is_filtered_out() -> None:
    first, last = taught(2, 1)
    assert filtered([first, replace(last, overlooked=True)]) == [first]
    assert filtered([replace(first, overlooked=True)]) == []
