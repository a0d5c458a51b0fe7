"""Damaged runs, records, rows and sets give a result or one line of error, and write nothing elsewhere.

`just stress` tests a thousand cases.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest
from support.hostile_rows import OUTPUTS, commands_of, files_of, prepare, spoiled

from interleave_thinker.backend.core.errors import InterleaveError
from interleave_thinker.backend.core.shown_text import shown_text

pytest.importorskip("datasets")


@pytest.mark.parametrize(
    "seed", [11, *(pytest.param(seed, marks=pytest.mark.stress) for seed in range(100, 140))]
)
def test_spoiled_files_give_a_result_or_one_line(tmp_path: Path, seed: int) -> None:
    prepare(tmp_path / "template")
    files, random = files_of(tmp_path / "template"), Random(seed)
    for file in random.sample(files, 24):
        folder = tmp_path / "case" / "folder"
        shutil.copytree(tmp_path / "template", folder, symlinks=True)
        path = folder / file
        path.write_bytes(spoiled(path.read_bytes(), path.name, random))
        there = {one for one in tmp_path.rglob("*") if "template" not in one.parts}
        try:
            random.choice(commands_of(folder, file))()
        except InterleaveError as error:
            assert "\n" not in shown_text(str(error)) and len(str(error)) < 1_500, file
        new = {one for one in tmp_path.rglob("*") if "template" not in one.parts} - there
        assert {one.relative_to(folder).parts[0] for one in new} <= set(OUTPUTS), file
        shutil.rmtree(tmp_path / "case")
