"""`data pack`: unpacked rows and images are the same as before, as shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import made_run

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.research.data.pack import (
    CardData,
    PackedRow,
    Packing,
    RowFile,
    row_files,
    write_parquet,
)
from interleave_thinker.training.from_runs.convert import RunConverter
from interleave_thinker.training.from_runs.settings import FilterData


def rows_in(file: RowFile) -> list[PackedRow]:
    gone: list[str] = []
    found = list(file.rows(gone))
    assert not gone
    return found


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Write the result of the filter: rows of both kinds."""
    for number in range(6):
        attempts = [(number * 20, False, 4.0), (number * 20 + 9, True, 5.0 + number / 2)]
        made_run(
            tmp_path / "runs" / f"r{number}", attempts, prompt=f"page {number}", source=None if number else 7
        )
    settings = FilterData(balance=0.0, rl_share=0.4, held_out_runs=0.0)
    converter = RunConverter(settings, default_prompt_set(), log=lambda line: None)
    made = converter.convert([tmp_path / "runs"], tmp_path / "rows")
    assert made.sft and made.rl
    return tmp_path / "rows"


def expected(rows: Path) -> dict[str, list[tuple[dict[str, Any], list[Picture]]]]:
    return {
        file.name: [(one.row, [Picture.from_bytes(image) for image in one.images]) for one in rows_in(file)]
        for file in row_files([rows])
    }


def pack(rows: Path, out: Path, **more: Any) -> dict[str, dict[str, int]]:
    return Packing(CardData(), log=lambda line: None, **more).pack([rows], out)


def test_datasets_opens_a_packed_folder(rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    counts = pack(rows, tmp_path / "packed")
    for name, there in expected(rows).items():
        loaded = datasets.load_dataset(str(tmp_path / "packed"), name, cache_dir=str(tmp_path / "cache"))
        assert counts[name] == {"train": len(there)} == {"train": len(loaded["train"])}
        for found, (row, pictures) in zip(loaded["train"], there, strict=True):
            assert json.loads(found["row"]) == row
            assert [Picture(image) for image in found["images"]] == pictures
            if "messages" in row:
                assert found["messages"] == row["messages"]
            else:
                assert found["evaluation"] == row["evaluation"]


def test_shards_are_bounded_and_reproducible(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (file,) = [one for one in row_files([rows]) if one.name == "critic_sft"]
    count = len(rows_in(file))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        assert write_parquet(file, rows_in(file), tmp_path / folder, 1) == count
        assert len(list((tmp_path / folder).glob("*.parquet"))) == count
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_dataset_card_is_correct(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    pack(rows, tmp_path / "packed", runs=[tmp_path / "runs"])
    text = (tmp_path / "packed" / "README.md").read_text()
    assert text.startswith("---\nlicense: unknown\nconfigs:\n")
    assert "- planner: hand (check this service's terms" in text and "- generator: hand\n" in text
    assert "not compared with any benchmark" in text and "Known gaps" in text


@pytest.mark.parametrize(
    "content",
    [
        *("[1]", '[{"images": 3}]', "nonsense", '[{"messages": 7}]'),
        '[{"messages": [], "images": ["../../../etc/passwd"]}]',
        '[{"messages": [{"role": 7, "content": [[]]}], "images": []}]',
    ],
)
def test_rows_of_strangers(content: str, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "planner_sft.json").write_text(content)
    with pytest.raises(SettingsError):
        pack(tmp_path / "rows", tmp_path / "packed")
    assert not (tmp_path / "packed").exists()


def test_each_missing_image_is_named(rows: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    file = next(one for one in row_files([rows]) if one.name == "critic_sft")
    count = len(rows_in(file))
    first, second = (row.row["images"][1] for row in rows_in(file)[:2])
    (rows / first).unlink()
    (rows / second).unlink()
    (rows / second).mkdir()
    packing = Packing(CardData(), log=lines.append)
    with pytest.raises(
        SettingsError, match="rows have missing or damaged images; the first: critic_"
    ) as error:
        packing.pack([rows], tmp_path / "packed")
    assert "\n" not in str(error.value) and not (tmp_path / "packed").exists()
    named = [line for line in lines if line.startswith("left out: critic_sft.json, row")]
    assert len(named) >= 2
    skipping = Packing(CardData(), skip_bad=True, log=lines.append)
    assert skipping.pack([rows], tmp_path / "packed")["critic_sft"]["train"] == count - len(named)
    assert "rows with missing images" in (tmp_path / "packed" / "README.md").read_text()


def test_files_with_equal_names_are_rejected(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "critic_sft.jsonl").write_text("[]")
    with pytest.raises(SettingsError, match="the same name"):
        Packing(CardData()).pack([rows, tmp_path / "other"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
