"""Every stage leaves out and reports what the guard finds, and `guard check` finds nothing in its result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import accepted_story, made_run
from support.stories import drawing

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.prompts import default_prompt_set

pytest.importorskip("datasketch")
pytest.importorskip("imagehash")

from interleave_thinker.training.data.decontamination.checking import check_file
from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
from interleave_thinker.training.data.decontamination.items import IndexedItem
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.settings import FilterData, RunsData
from interleave_thinker.training.data.pack.pack import Packing
from interleave_thinker.training.data.pack.settings import CardData
from interleave_thinker.training.data.planner_rows.make import OutsideSets, PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.sequences.make import make_sequences

KNOWN = "a paper mill whose wooden wheel drives seven hammers in a narrow valley"
OTHER = "a lighthouse keeper who paints the lamp room blue before the autumn storms"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    with BenchmarkIndex.create(tmp_path / "guard.sqlite") as guard:
        guard.add("wise", [IndexedItem(texts=(f"Draw {KNOWN}, at noon.",), images=(drawing(4),))], "one")
    return tmp_path / "guard.sqlite"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, prompt in (("known", KNOWN), ("other", OTHER)):
        made_run(tmp_path / "runs" / name, [(20, False, 4.0), (90, True, 6.0)], prompt=prompt)
    return tmp_path / "runs"


def findings(index: Path, *files: Path) -> int:
    with BenchmarkIndex.open(index) as guard:
        return sum(sum(check_file(guard, file).by_benchmark.values()) for file in files)


def critic_rows(runs: Path, out: Path, guard: Path | None, settings: Any = None) -> Any:
    settings = settings or FilterData(balance=0.0, rl_share=0.0, held_out_runs=0.0)
    converter = RunConverter(settings, default_prompt_set(), log=lambda line: None, guard=guard)
    return converter.convert([runs], out)


@pytest.mark.parametrize("kind", [FilterData, RunsData])
def test_the_filter_leaves_out_runs_of_a_benchmark(
    kind: Any, runs: Path, index: Path, tmp_path: Path
) -> None:
    settings = kind(balance=0.0, held_out_runs=0.0)
    made = critic_rows(runs, tmp_path / "all", None, settings)
    assert findings(index, made.sft) == 2 and made.report.guard is None
    made = critic_rows(runs, tmp_path / "rows", index, settings)
    assert findings(index, made.sft) == 0 and len(json.loads(made.sft.read_text())) == 2
    report = json.loads((tmp_path / "rows" / "report.json").read_text())["guard"]
    assert report == {
        "benchmarks": {"wise": 1},
        "left_out": {"wise": 1},
        "found": {"runs/known": "wise: same words (8 in a row)"},
    }
    assert "left out: wise 1" in (tmp_path / "rows" / "report.md").read_text()


def test_packing_leaves_out_benchmark_rows_and_the_dataset_card_lists_them(
    runs: Path, index: Path, tmp_path: Path
) -> None:
    critic_rows(runs, tmp_path / "rows", None)
    critic_rows(runs, tmp_path / "guarded", index)
    for form in ("webdataset", "published"):
        packing = Packing(form, CardData(), [runs], guard=index, log=lambda line: None)
        counts = packing.pack([tmp_path / "rows"], tmp_path / form)
        assert counts == {"critic_sft": {"train": 2}}
        dataset_card = (tmp_path / form / "README.md").read_text()
        assert "for every row: compared with wise (1 items); left out: wise" in dataset_card
        assert "critic_sft.json, row 0: wise: same words" in dataset_card
    tree = tmp_path / "published" / "InterleaveThinker" / "Train-Data"
    assert [folder.name for folder in (tree / "Klein_data").iterdir()] == ["other"]
    assert findings(index, tree / "critic_sft.json") == 0
    Packing("webdataset", CardData(), log=lambda line: None).pack([tmp_path / "guarded"], tmp_path / "again")
    dataset_card = (tmp_path / "again" / "README.md").read_text()
    assert "when `guarded` was created: compared with wise (1 items); left out: wise 1" in dataset_card


@pytest.mark.parametrize("form", ["webdataset", "published"])
def test_packing_names_a_row_with_a_damaged_image(form: Any, index: Path, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [(20, False, 4.0), (90, True, 6.0)], prompt=OTHER)
    file = critic_rows(run, tmp_path / "rows", None).sft
    first, second = json.loads(file.read_text())
    (damaged,) = set(first["images"]) - set(second["images"])
    content = (tmp_path / "rows" / damaged).read_bytes()
    (tmp_path / "rows" / damaged).write_bytes(content[:-30])
    lines: list[str] = []
    packing = Packing(form, CardData(), [run], guard=index, log=lines.append)
    with pytest.raises(
        SettingsError, match=r"missing or damaged images; the first: critic_sft\.json, row 0: "
    ):
        packing.pack([tmp_path / "rows"], tmp_path / "packed")
    counts = replace(packing, skip_bad=True).pack([tmp_path / "rows"], tmp_path / "packed")
    assert counts == {"critic_sft": {"train": 1}}
    assert len([line for line in lines if line.startswith("left out: critic_sft.json, row 0: ")]) == 2


def test_planner_rows_sequences_and_outside_rows_are_screened(index: Path, tmp_path: Path) -> None:
    for name, stage in (("known", 4), ("other", 1)):
        save_trajectory(accepted_story(drawing(stage)), tmp_path / "runs" / name)
    answer = {"role": "assistant", "content": "<answer>{}</answer>"}
    rows = [
        {"messages": [{"role": "user", "content": text}, answer], "images": []}
        for text in (KNOWN, "Plan it.")
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    maker = PlannerRows(PlannerRowsData(), default_prompt_set(), index, log=lambda line: None)
    report = maker.make([tmp_path / "runs"], tmp_path / "planner", OutsideSets([tmp_path / "rows.json"]))
    assert report.rows == {"outside": 1, "text": 1} and report.left_out == {"in a benchmark: wise": 2}
    assert report.guard and set(report.guard.found) == {"runs/known", "rows.json, row 0"}
    assert findings(index, tmp_path / "planner" / "planner_sft.json") == 0
    counts = make_sequences([tmp_path / "runs"], tmp_path / "s", guard=index, log=lambda line: None)
    assert counts == {"sequences_easy.json": 1, "sequences_hard.json": 1}
    assert json.loads((tmp_path / "s" / "report.json").read_text())["guard"]["left_out"] == {"wise": 1}
