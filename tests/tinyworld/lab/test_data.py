"""Data for training and measuring the tiny world's models: requests, plans, mistakes, verdicts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from PIL import Image

from interleave_thinker.backend.answers.reading import read_plan, read_verdict, write_plan
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.tinyworld.lab.data import critic_rows as critic_data
from interleave_thinker.tinyworld.lab.data import planner_rows as planner_data
from interleave_thinker.tinyworld.lab.world.requests import random_story
from interleave_thinker.tinyworld.lab.world.scenes import (
    changed_cells,
    misdraw,
    random_edit,
    random_luck,
    random_scene,
)
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.reading import read_image
from interleave_thinker.tinyworld.runtime.scene import StartScene
from interleave_thinker.tinyworld.runtime.vocabulary import KNOWN, WORD
from interleave_thinker.tinyworld.runtime.wording import clauses_of, read_prompt
from interleave_thinker.training.data.rows.sft import SftMessage, SftRow, read_rows, write_rows
from interleave_thinker.training.statistics import share


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


def test_clauses_remove_mistakes() -> None:
    rng = Random(2)
    wrong = {"terse": 0, "precise": 0}
    for _ in range(1500):
        before = random_scene(rng)
        edit = random_edit(rng, before)
        after = edit.apply(before)
        named = {*changed_cells(before, after), *after.occupied}
        luck = random_luck(rng)
        wrong["terse"] += misdraw(before, edit, [], luck) != after
        wrong["precise"] += misdraw(before, edit, clauses_of(after, named, backdrop=True), luck) != after
    assert 0.17 < wrong["terse"] / 1500 < 0.33
    assert wrong["precise"] < 0.25 * wrong["terse"]


def test_rows_describe_the_content_of_pages(tmp_path: Path) -> None:
    rng, pages = Random(3), critic_data.ImageFolder(tmp_path / "pages")
    verdicts = []
    for _ in range(200):
        drawn = critic_data.rendered(rng)
        assert read_image(drawn.after).scene is not None
        row = critic_data.judge_row(drawn, pages)
        verdict = read_verdict(row.messages[-1].content)
        verdicts.append(verdict.success)
        assert verdict.success is drawn.success
        assert verdict.reasoning.endswith("so yes" if drawn.success else "so no")
        found = read_prompt(verdict.refined_prompt)
        assert found is not None and found[0] == drawn.edit
        assert all(clause.holds(drawn.expected) for clause in found[1])
        assert len(row.images) == 2 and all((tmp_path / image).is_file() for image in row.images)
    assert 0.3 < sum(verdicts) / len(verdicts) < 0.7


def test_an_interruption_leaves_no_partial_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = draw(random_scene(Random(1)))
    whole = Image.Image.save

    def stopped(image: Image.Image, path: Path, *arguments: object, **options: object) -> None:
        whole(image, path, "PNG")
        path.write_bytes(path.read_bytes()[:50])
        raise KeyboardInterrupt

    monkeypatch.setattr(Image.Image, "save", stopped)
    with pytest.raises(KeyboardInterrupt):
        critic_data.ImageFolder(tmp_path / "pages").name(page)
    monkeypatch.undo()
    name = critic_data.ImageFolder(tmp_path / "pages").name(page)
    assert Picture.open(tmp_path / name) == page


def test_an_image_with_another_instruction_is_rejected() -> None:
    rng, made = Random(4), 0
    for _ in range(100):
        drawn = critic_data.rendered(rng, mistakes=0.0)
        other = critic_data.mistaken(rng, drawn)
        if other is not None:
            made += 1
            assert drawn.success and not other.success
            assert other.after == drawn.after and isinstance(other.edit, StartScene) == isinstance(
                drawn.edit, StartScene
            )
    assert made > 70


def test_rows_of_equal_length_share_a_batch_without_loss(tmp_path: Path) -> None:
    rows = planner_data.make(tmp_path, 203, seed=5)
    ordered = planner_data.in_buckets(rows, 8, seed=1)
    assert sorted(map(str, ordered)) == sorted(map(str, rows))
    assert ordered == planner_data.in_buckets(rows, 8, seed=1) != planner_data.in_buckets(rows, 8, seed=2)

    def padded(many: list[SftRow]) -> int:
        lengths = [sum(len(message.content) for message in row.messages) for row in many]
        return sum(8 * max(lengths[at : at + 8]) - sum(lengths[at : at + 8]) for at in range(0, 200, 8))

    assert padded(ordered) < 0.3 * padded(rows)
    firsts = [len(row.messages[1].content) for row in ordered[::8]]
    assert firsts != sorted(firsts), "short and long ones in turn"


def test_planner_rows_survive_the_file(tmp_path: Path) -> None:
    rows = planner_data.make(tmp_path, 40, seed=5)
    write_rows(tmp_path / "planner_sft.json", rows)
    assert read_rows(tmp_path / "planner_sft.json") == rows
    assert any(row.images for row in rows) and any(not row.images for row in rows)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"messages": [{"role": "user", "content": "a"}], "images": []}, "messages"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, "assistant"),
        (
            {"messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "b"}]},
            "1 <image>",
        ),
        (
            {
                "messages": [{"role": "user", "content": "<image>"}, {"role": "assistant", "content": "b"}],
                "images": ["gone.png"],
            },
            "gone.png",
        ),
        ({"messages": [{"role": "robot", "content": "a"}, {"role": "assistant", "content": "b"}]}, "role"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, row: dict, reason: str) -> None:
    import json

    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    (tmp_path / "rows.json").write_text(json.dumps([good, row]))
    with pytest.raises(SettingsError, match=r"row 1") as error:
        read_rows(tmp_path / "rows.json")
    assert reason in str(error.value)


def test_a_mark_in_the_answer_is_not_an_image() -> None:
    row = SftRow(
        messages=[SftMessage(role="user", content="a"), SftMessage(role="assistant", content="<image>")]
    )
    assert row.images == []


def test_intervals_contain_the_rate() -> None:
    full = share([True] * 50)
    assert full.rate == 1.0 and 0.92 < full.low < 0.94 and full.high == pytest.approx(1.0)
    half = share([True, False] * 200)
    assert half.low < 0.5 < half.high and half.high - half.low < 0.1


def test_the_shipped_vocabulary_is_that_of_the_requests() -> None:
    rng, words = Random(0), set[str]()
    for number in range(4000):
        story = random_story(rng, "train" if number % 2 else "evaluate")
        words.update(word.lower() for word in WORD.findall(story.text))
    assert words == KNOWN
