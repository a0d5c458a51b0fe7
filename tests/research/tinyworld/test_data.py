"""Data for training and measuring the tiny world's models: requests, plans, mistakes, verdicts."""

from __future__ import annotations

from pathlib import Path
from random import Random

from support.rendered_pages import rendered

from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict, write_plan
from interleave_thinker.research.tinyworld.data import critic_rows as critic_data
from interleave_thinker.research.tinyworld.world.requests import random_story
from interleave_thinker.tinyworld.scorer import read_image
from interleave_thinker.tinyworld.vocabulary import KNOWN, WORD
from interleave_thinker.tinyworld.wording import read_prompt


def test_a_storys_plan_produces_its_pages() -> None:
    rng = Random(1)
    for _ in range(200):
        story = random_story(rng, "train")
        page, pages = story.before, []
        for step in story.plan.steps:
            if step.prompt is None:
                continue
            found = read_prompt(step.prompt)
            assert found is not None
            page = found[0].apply(page)  # pyright: ignore[reportArgumentType]
            pages.append(page)
        assert tuple(pages) == story.pages
        assert 1 <= len(story.plan.steps) <= 6
        assert read_plan(write_plan(story.plan)) == story.plan


def test_requests_vary_and_never_cross_the_split() -> None:
    train = {random_story(Random(seed), "train").text for seed in range(300)}
    held_out = {random_story(Random(seed), "evaluate").text for seed in range(100)}
    assert not train & held_out and len(train) > 280
    everything = " ".join(train | held_out).lower()
    for word in ("caption", "continue", "then", "1.", "the end", " it ", "replace", "scene"):
        assert word in everything


def test_rows_describe_the_content_of_pages(tmp_path: Path) -> None:
    rng, pages = Random(3), critic_data.ImageFolder(tmp_path / "pages")
    verdicts = []
    for _ in range(200):
        drawn = rendered(rng)
        assert read_image(drawn.after).scene is not None
        row = critic_data.judge_row(drawn, pages)
        verdict = read_verdict(row.messages[-1].content)
        verdicts.append(verdict.success)
        assert verdict.success is drawn.success
        assert verdict.reasoning.endswith("so yes" if drawn.success else "so no")
        found = read_prompt(verdict.refined_prompt)
        assert found is not None and found[0] == drawn.edit
        scene = drawn.expected
        assert all(
            one.content == (scene.backdrop if one.cell is None else scene.cells[one.cell]) for one in found[1]
        )
        assert len(row.images) == 2 and all((tmp_path / image).is_file() for image in row.images)
    assert 0.3 < sum(verdicts) / len(verdicts) < 0.7


def test_the_shipped_vocabulary_is_that_of_the_requests() -> None:
    rng, words = Random(0), set[str]()
    for number in range(4000):
        story = random_story(rng, "train" if number % 2 else "evaluate")
        words.update(word.lower() for word in WORD.findall(story.text))
    assert words == KNOWN
