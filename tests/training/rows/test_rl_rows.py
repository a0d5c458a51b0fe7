"""Rows of critic_rl.jsonl: checked one by one, with questions as for the running critic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.training.rows.rl import (
    CriticRlRow,
    before_of,
    other_sources,
    read_rl_rows,
    row_redraw_seed,
    write_rl_rows,
)
from interleave_thinker.training.stages.grpo_settings import (
    GrpoTraining,
    batches,
    check_rows_of,
    fitting_values,
    rollouts_of,
    split_held_out,
)

GOOD: dict[str, Any] = {
    "origin_prompt": "a boat",
    "rewritten_prompt": "a red boat",
    "origin_image_path": "before.png",
    "edited_image_path": "after.png",
    "evaluation": {"success": False, "semantics": 3, "quality": 8.5, "comment": "ignored"},
    "something_else": 1,
}


def folder_with(folder: Path, *lines: object) -> Path:
    Image.new("RGB", (40, 30), "red").save(folder / "before.png")
    Image.new("RGB", (40, 30), "blue").save(folder / "after.png")
    (folder / "cut.png").write_bytes((folder / "after.png").read_bytes()[:60])
    path = folder / "critic_rl.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_rows_survive_the_file(tmp_path: Path) -> None:
    rows, problems = read_rl_rows(folder_with(tmp_path, GOOD, "", GOOD | {"origin_image_path": ""}))
    assert not problems and rows[0].evaluation.quality == 8.5 and rows[1].origin_image_path is None
    write_rl_rows(tmp_path / "again.jsonl", rows)
    assert read_rl_rows(tmp_path / "again.jsonl")[0] == rows
    (row,), problems = read_rl_rows(folder_with(tmp_path, GOOD | {"rewritten_prompt": None, "seed": None}))
    assert not problems and row.prompt_used == "a boat"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ([1], "row"),
        (GOOD | {"origin_prompt": ""}, "origin_prompt"),
        (GOOD | {"evaluation": {"success": "yes", "semantics": 1, "quality": 1}}, "evaluation.success"),
        (GOOD | {"evaluation": {"success": True, "semantics": 11, "quality": 1}}, "evaluation.semantics"),
        (GOOD | {"edited_image_path": "gone.png"}, "edited_image_path"),
        (GOOD | {"origin_image_path": "cut.png"}, "origin_image_path"),
        (GOOD | {"seed": -5}, "seed"),
        (GOOD | {"seed": 10**30}, "seed"),
    ],
)
def test_a_bad_row_is_reported_or_skipped(tmp_path: Path, line: object, said: str) -> None:
    path = folder_with(tmp_path, GOOD, line)
    with pytest.raises(SettingsError, match="line 2") as error:
        read_rl_rows(path)
    assert said in str(error.value) and "--skip-bad" in str(error.value)
    rows, problems = read_rl_rows(path, skip_bad=True)
    assert len(rows) == 1 and len(problems) == 1 and said in str(problems[0])


def test_the_question_is_the_running_critics(tmp_path: Path) -> None:
    rows, _ = read_rl_rows(folder_with(tmp_path, GOOD, GOOD | {"origin_image_path": None}))
    first = rows[0].question(tmp_path, tmp_path / "shown", default_prompt_set())
    content = first["prompt"][0]["content"]
    assert [part["type"] for part in content].count("image") == 2
    text = " ".join(part["text"] for part in content if part["text"])
    assert "a boat" in text and "a red boat" in text
    assert first["images"] == [str(tmp_path / "before.png"), str(tmp_path / "after.png")]
    second = rows[1].question(tmp_path, tmp_path / "shown", default_prompt_set())
    assert Picture.open(second["images"][0]) == Picture.white((40, 30))
    small = rows[0].question(tmp_path, tmp_path / "shown", default_prompt_set(), pixels=300)
    assert Picture.open(small["images"][1]).size == (20, 15)


def published_question(template: str, line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the user's turn of the published trainer for a row.

    By its rule: two replacements, split at the marks.
    """
    text = template.replace("{original_instruction}", line.get("origin_prompt", ""))
    text = text.replace("{rewritten_prompt}", line.get("rewritten_prompt", ""))
    content: list[dict[str, Any]] = []
    for number, piece in enumerate(text.split("<image>")):
        content += [{"type": "image", "text": None}] * (number > 0)
        content += [{"type": "text", "text": piece}] if piece else []
    return [{"role": "user", "content": content}]


@pytest.mark.parametrize("told", ["", None, "a red boat"])
def test_the_question_equals_the_published_trainers(tmp_path: Path, told: str | None) -> None:
    line = {name: value for name, value in (GOOD | {"rewritten_prompt": told}).items() if value is not None}
    (row,), _ = read_rl_rows(folder_with(tmp_path, line))
    template = '<image><image>\nAsked for: {original_instruction}\nUsed last: "{rewritten_prompt}"'
    prompt_set = default_prompt_set().model_copy(update={"critic": template})
    question = row.question(tmp_path, tmp_path / "shown", prompt_set)
    assert question["prompt"] == published_question(template, line)
    measured = row.shown(tmp_path, prompt_set)
    assert measured.conversation() == question["prompt"]


def test_the_published_trainer_can_load_written_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder_with(tmp_path, GOOD, GOOD | {"origin_image_path": None})
    rows, _ = read_rl_rows(path)
    folder = tmp_path / "again"
    folder.mkdir()
    for name in ("before.png", "after.png"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    write_rl_rows(folder / "critic_rl.jsonl", rows)
    # The published trainer needs both images of a row, opens them relative to its working directory, and
    # detects by the path whether one was generated from text.
    monkeypatch.chdir(folder)
    lines = [json.loads(line) for line in (folder / "critic_rl.jsonl").read_text().splitlines()]
    for line in lines:
        assert all(Image.open(line[field]).size for field in ("origin_image_path", "edited_image_path"))
    assert ["data/interleave/white.png" in line["origin_image_path"] for line in lines] == [False, True]
    assert Picture.open(lines[1]["origin_image_path"]).is_white
    assert read_rl_rows(folder / "critic_rl.jsonl")[0] == rows
    assert [row.line() for row in read_rl_rows(folder / "critic_rl.jsonl")[0]] == [row.line() for row in rows]


@pytest.mark.parametrize(
    "written",
    ["data/interleave/white.png", "/srv/data/interleave/white.png", "D:\\data\\interleave\\white.png"],
)
def test_the_published_white_image_is_read_as_none_and_may_be_missing(tmp_path: Path, written: str) -> None:
    rows, _ = read_rl_rows(folder_with(tmp_path, GOOD | {"origin_image_path": written}))
    assert rows[0].origin_image_path is None


def test_the_critic_gets_a_white_image_of_the_same_size_for_any_white_source(tmp_path: Path) -> None:
    path = folder_with(tmp_path, GOOD | {"origin_image_path": "blank.png"})
    Image.new("RGB", (7, 7), "white").save(tmp_path / "blank.png")
    rows, _ = read_rl_rows(path)
    assert before_of(rows[0], tmp_path) is None
    question = rows[0].question(tmp_path, tmp_path / "shown", default_prompt_set())
    assert Picture.open(question["images"][0]) == Picture.white((40, 30))


PUBLISHED = GOOD | {
    "origin_image_path": "/data/klein/0_u/step1_0.png",
    "edited_image_path": "klein/0_u/step2_2.png",
}


@pytest.mark.parametrize("below", ["", "klein"])
def test_published_paths_are_found_below_the_image_folder(tmp_path: Path, below: str) -> None:
    for name, color in (("step1_0.png", "red"), ("step2_2.png", "blue")):
        file = tmp_path / "root" / below / "0_u" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), color).save(file)
    path = folder_with(tmp_path, PUBLISHED, GOOD)
    with pytest.raises(SettingsError, match=r"line 1, origin_image_path.*--images"):
        read_rl_rows(path)
    with pytest.raises(SettingsError, match="does not exist"):
        read_rl_rows(path, images=tmp_path / "gone")
    (row, own), _ = read_rl_rows(path, images=tmp_path / "root")
    assert own.edited_image_path == "after.png", "paths of images next to the file stay"
    question = row.question(tmp_path, tmp_path / "shown", default_prompt_set())
    assert [Path(name).parent.name for name in question["images"]] == ["0_u", "0_u"]
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    (again, _), _ = read_rl_rows(path, images=tmp_path / "elsewhere")
    assert again.edited_image_path != row.edited_image_path
    assert row_redraw_seed(again, 0, 0) == row_redraw_seed(row, 0, 0), "moving the images changes no seed"


def test_equal_image_names_do_not_merge_images(tmp_path: Path) -> None:
    folder_with(tmp_path, GOOD)
    (tmp_path / "root").mkdir()
    (tmp_path / "after.png").rename(tmp_path / "root" / "step2_2.png")
    other = PUBLISHED | {"edited_image_path": "klein/1_u/step2_2.png", "origin_image_path": None}
    path = tmp_path / "critic_rl.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (PUBLISHED | {"origin_image_path": None}, other)))
    with pytest.raises(SettingsError, match="both"):
        read_rl_rows(path, images=tmp_path / "root")


def test_seeds_come_from_the_content(tmp_path: Path) -> None:
    rows, _ = read_rl_rows(folder_with(tmp_path, GOOD, GOOD, GOOD | {"origin_prompt": "a sun"}))
    seeds = [row_redraw_seed(row, draw, base) for row in rows for draw in (0, 1) for base in (0, 1)]
    assert seeds[:4] == seeds[4:8] and len(set(seeds)) == 8
    assert seeds[0] == 1_154_772_323, "trainings keep the redraws of earlier versions"


def test_scores_of_another_judge_are_warned_about(tmp_path: Path) -> None:
    rows, _ = read_rl_rows(
        folder_with(tmp_path, GOOD, GOOD | {"judge": "a model", "generator": "g"}, GOOD | {"judge": "exact"})
    )
    (warning,) = other_sources(rows, "g", "exact")
    assert "1 of 3 rows were scored by 'a model', not by 'exact'" in warning


def judged(*truths: bool, copies: int = 1) -> list[CriticRlRow]:
    """Return rows about images of their own, several about each."""
    rows = [
        GOOD | {"edited_image_path": f"{number}.png", "evaluation": GOOD["evaluation"] | {"success": truth}}
        for number, truth in enumerate(truths)
        for _ in range(copies)
    ]
    return [CriticRlRow.model_validate(row) for row in rows]


def test_held_out_rows_have_both_verdicts_and_share_no_image() -> None:
    train, held = split_held_out(judged(*[True, False] * 10, copies=2), GrpoTraining(check_rows=6))
    assert sum(row.evaluation.success for row in held) == 3 and len(held) == 6
    assert not {row.edited_image_path for row in train} & {row.edited_image_path for row in held}
    rows = judged(*[True] * 15, *[False] * 10)
    train, held = split_held_out(rows, GrpoTraining(check_rows=64))
    assert [sum(row.evaluation.success is truth for row in held) for truth in (True, False)] == [3, 2]
    assert len(train) == 20, "few rows are not all held out"
    # A held-out file is used up to the given number of rows, with both verdicts, in any order.
    checked = check_rows_of(rows, GrpoTraining(check_rows=4))
    assert [row.evaluation.success for row in checked] == [True, True, False, False]
    with pytest.raises(SettingsError, match="None of the 15 rows has a wrong image"):
        check_rows_of(rows[:15], GrpoTraining(check_rows=4))


def test_batches_are_even_or_raise() -> None:
    published = GrpoTraining(prompts=16, num_generations=8, updates=2, per_device_train_batch_size=2)
    assert batches(published, 8) == (4, 8)
    assert rollouts_of(published, 100) == 6 and rollouts_of(GrpoTraining(rollouts=3), 100) == 3
    assert (
        rollouts_of(GrpoTraining(max_steps=5), 100) == 2 and rollouts_of(GrpoTraining(max_steps=99), 100) == 6
    )
    with pytest.raises(SettingsError, match="--max-steps 1 is less than the 2 steps of one rollout"):
        rollouts_of(GrpoTraining(max_steps=1), 100)
    with pytest.raises(SettingsError, match="cannot be divided") as uneven:
        batches(published, 6)
    assert uneven.value.hint == "Use --set prompts=15."
    with pytest.raises(SettingsError, match="fewer than the 16 rows") as few:
        rollouts_of(published, 15)
    assert few.value.hint == "Use --set prompts=15, or give 1 more rows."
    with pytest.raises(SettingsError, match="fewer than the 16 rows") as few:
        rollouts_of(published, 1, 8)
    assert few.value.hint.startswith("Lower updates, or give 15")


@pytest.mark.parametrize(("updates", "devices"), [(1, 1), (2, 8), (4, 2)])
def test_named_values_divide_evenly(updates: int, devices: int) -> None:
    settings = GrpoTraining(prompts=16, num_generations=8, updates=updates, per_device_train_batch_size=64)
    for rows in range(4, 16):
        values = fitting_values(settings, rows, devices)
        fitting = settings.model_copy(update=values)
        batches(fitting, devices)
        assert rollouts_of(fitting, rows, devices) >= 1
        assert fitting.per_device_train_batch_size <= 64 and fitting.prompts > rows - 4
