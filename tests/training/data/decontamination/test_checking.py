"""Benchmark files are read in their own formats, and training data is compared with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.cli.data.guard import app

pytest.importorskip("datasketch")
pytest.importorskip("imagehash")

from interleave_thinker.training.data.decontamination.benchmarks import KINDS, ItemsRead, items_of
from interleave_thinker.training.data.decontamination.checking import check_file, check_training_source
from interleave_thinker.training.data.decontamination.index import BenchmarkIndex

TEXT = "Explain with pictures how a wooden water wheel drives the hammers of an old paper mill in the valley."
STEPS = [
    [
        {
            "type": "text",
            "content": "Soak the reeds over night in cold river water, then split every one of them.",
        }
    ]
]
ROWS = {
    "ueval": {"id": 1, "task": "art", "prompt": TEXT, "text_rubrics": []},
    "wise": {"Prompt": TEXT, "Explanation": "...", "prompt_id": 1},
    "rise": {"index": "a_1", "category": "causal", "instruction": TEXT, "image": "absent.png"},
    "specv": {"id": "c_1", "question": TEXT, "question_img": ["absent.png"]},
    "comm": {"data_id": "wiki_12", "title": TEXT, "step_info": STEPS, "summary_info": None},
    "file": {"user_input": TEXT},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet"])
def test_every_benchmark_is_read_in_every_form(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"data{suffix}"
    rows = [ROWS[kind], {"other": 1}]
    if suffix == ".parquet":
        datasets = pytest.importorskip("datasets")
        rows = [{name: value for name, value in ROWS[kind].items() if value not in ([], None)}]
        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        path.write_text(
            json.dumps(rows) if suffix == ".json" else "".join(f"{json.dumps(row)}\n" for row in rows)
        )
    read = ItemsRead()
    items = list(items_of(kind, path, read))
    assert [TEXT in (*item.texts, *item.titles) for item in items] == [True]
    assert read.without_fields == len(rows) - 1
    assert (kind == "comm") == bool(items[0].ids)


def test_a_file_without_the_fields_of_its_kind_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text('[{"text": "hello"}]')
    with pytest.raises(SettingsError, match="None of the rows in"):
        list(items_of("wise", path, ItemsRead()))
    (tmp_path / "comm.pt").write_bytes(b"PK")
    with pytest.raises(SettingsError, match="cannot be read"):
        list(items_of("comm", tmp_path / "comm.pt", ItemsRead()))


def test_rows_of_every_kind_are_checked(tmp_path: Path) -> None:
    index = tmp_path / "guard.sqlite"
    with BenchmarkIndex.create(index) as guard:
        for kind in ("wise", "comm"):
            source = tmp_path / f"{kind}.json"
            source.write_text(json.dumps([ROWS[kind]]))
            guard.add(kind, items_of(kind, source, ItemsRead()), kind)
        rows = [
            {"id": "a", "user_input": f"Please: {TEXT}"},
            {"id": "b", "user_input": "A stone bridge is built over a stream."},
            {"messages": [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": TEXT}]},
            {"origin_prompt": TEXT, "origin_image_path": "none.png"},
            {"data_id": "wiki_12", "title": "x", "step_info": []},
        ]
        file = tmp_path / "rows.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        report = check_file(guard, file)
        assert [one.row for one in report.found] == [1, 3, 4, 5]
        assert (report.rows, report.missing_images) == (5, 0)
        with pytest.raises(SettingsError, match="test file"):
            check_training_source(tmp_path / "comm_test.json", [])
        with pytest.raises(SettingsError, match=r"1 item of CoMM"):
            check_training_source(tmp_path / "comm_train.json", ["wiki_12", "wiki_13"], guard)
        check_training_source(tmp_path / "latest.json", ["wiki_13"], guard)


def test_on_the_command_line(tmp_path: Path) -> None:
    source, rows, index = tmp_path / "w.json", tmp_path / "rows.jsonl", tmp_path / "g.sqlite"
    source.write_text(json.dumps([ROWS["wise"]]))
    rows.write_text(json.dumps({"id": "a", "user_input": TEXT}) + "\n")
    run = CliRunner()
    for said in ("1 items, 0 images", "already in the index"):
        result = run.invoke(app, ["add", "wise", str(source), "--index", str(index)])
        assert (result.exit_code, said in result.output) == (0, True), result.output
    report = tmp_path / "report.json"
    result = run.invoke(app, ["check", str(rows), "--index", str(index), "--report", str(report)])
    assert result.exit_code == 3 and "wise 1" in result.output
    assert json.loads(report.read_text())[str(rows)]["found"][0]["benchmark"] == "wise"
    assert isinstance(run.invoke(app, ["add", "mmlu", str(source)]).exception, SettingsError)
