"""Rows of planner_rl.jsonl: one line per invalid row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.training.rows.rl import PlannerRlRow, read_planner_rl

GOOD = {"request": "A fox.", "checklist": ["a fox"]}
HOSTILE = [
    ({**GOOD, "checklist": []}, "neither a checklist nor a reference"), ({**GOOD, "request": ""}, "request"),
    ({**GOOD, "checklist": [" "]}, "checklist"), ({**GOOD, "images": ["../../etc/passwd"]}, "images"),
    ({**GOOD, "images": ["gone.png"]}, "images.0"), ({**GOOD, "steps": {"least": 4, "most": 2}}, "steps"),
    ({**GOOD, "reference": [{"number": 1}]}, "reference"), ([], "row"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "field"), HOSTILE)
def test_a_hostile_row_gives_one_line(row: object, field: str, tmp_path: Path) -> None:
    path = tmp_path / "planner_rl.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(row)}\n")
    with pytest.raises(SettingsError, match="line 2") as error:
        read_planner_rl(path)
    assert field in str(error.value) and "\n" not in str(error.value)
    rows, problems = read_planner_rl(path, skip_bad=True)
    assert rows == [PlannerRlRow.model_validate(GOOD)] and len(problems) == 1
