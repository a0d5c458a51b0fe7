"""Data files of pairs: requirements for a row, and errors of invalid ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import grey_page

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.training.data.rows.preference import (
    CriticPair,
    PlannerPair,
    as_preference,
    read_critic_pairs,
    read_planner_pairs,
    shown_pair,
    write_pairs,
)

GOOD: dict[str, Any] = {
    "messages": [{"role": "user", "content": "<image><image>Is it right?"}],
    "images": ["a.png", "b.png"],
    "chosen": "yes",
    "rejected": "no",
    "truth": True,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, grey in (("a", 0), ("b", 255)):
        grey_page(grey).image.save(tmp_path / f"{name}.png")
    return tmp_path


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "critic_pairs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rejected": "yes "}, "the same"),
        ({"rejected": "  "}, "empty"),
        ({"chosen": ""}, "chosen"),
        ({"images": ["a.png"]}, "2 <image> marks, but 1 images"),
        ({"images": ["a.png", "gone.png"]}, "gone.png"),
        ({"images": ["a.png", "../b.png"]}, "not found in the data file's folder"),
        ({"messages": [{"role": "assistant", "content": "<image><image>"}]}, "end with a user turn"),
        ({"truth": "true"}, "truth"),
        ({"chosen_score": float("nan")}, "chosen_score"),
    ],
)
def test_a_row_that_is_no_pair_is_named_with_its_reason(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    path = written(folder, GOOD, GOOD | changes)
    with pytest.raises(SettingsError, match=r"line 2.*" + message if "nan" not in str(changes) else "line 2"):
        read_critic_pairs(path)
    rows, problems = read_critic_pairs(path, skip_bad=True)
    assert len(rows) == len(problems) == 1 and rows[0].place == "line 1"


def test_written_rows_are_read_back(folder: Path) -> None:
    row = CriticPair.model_validate(GOOD | {"why": "overruled", "chosen_score": 0.5})
    write_pairs(folder / "one.jsonl", [row])
    assert read_critic_pairs(folder / "one.jsonl")[0] == [row]
    plan = {**GOOD, "request": "Draw.", "checklist": ["a fox is there"]}
    write_pairs(folder / "two.jsonl", [PlannerPair.model_validate(plan)])
    (read,) = read_planner_pairs(folder / "two.jsonl")[0]
    judged = read.judged_by()
    assert judged is not None and judged.request == "Draw." and judged.images == ["a.png", "b.png"]
    assert PlannerPair.model_validate(GOOD).judged_by() is None


def test_a_pair_is_one_prompt_with_its_images_and_two_answers(folder: Path) -> None:
    row = CriticPair.model_validate(GOOD)
    made = as_preference(row, folder)
    assert made["images"] == [str(folder / "a.png"), str(folder / "b.png")]
    kinds = [part["type"] for part in made["prompt"][0]["content"]]
    assert kinds == ["image", "image", "text"]
    assert made["chosen"][0]["content"][0]["text"] == "yes"
    assert made["rejected"][0]["content"][0]["text"] == "no"
    better, worse = shown_pair(row, folder)
    assert better.texts["messages.1"] == "yes" and worse.texts["messages.1"] == "no"
