"""`data pack`: unpacked rows and images are the same as before, and the dataset card states what is known."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.made_runs import grey_page, made_run

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.settings import FilterData
from interleave_thinker.training.data.pack.card import check_sources
from interleave_thinker.training.data.pack.pack import Packing
from interleave_thinker.training.data.pack.row_files import row_files
from interleave_thinker.training.data.pack.settings import CardData
from interleave_thinker.training.data.pack.shards import write_parquet, write_tars


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
        file.name: [(one.row, [Picture.from_bytes(image) for image in one.images]) for one in file.rows()]
        for file in row_files(rows)
    }


def pack(rows: Path, out: Path, form: Any = "hf", **more: Any) -> dict[str, dict[str, int]]:
    return Packing(form, CardData(), log=lambda line: None, **more).pack([rows], out)


def test_datasets_opens_a_packed_folder_by_its_path(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_webdataset_reads_the_tar_files(rows: Path, tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    pack(rows, tmp_path / "packed", "webdataset")
    for name, there in expected(rows).items():
        (shard,) = (tmp_path / "packed" / "data").glob(f"{name}-train-*.tar")
        found = list(webdataset.WebDataset(str(shard), shardshuffle=False))
        assert [json.loads(one["json"]) for one in found] == [row for row, _ in there]
        for one, (_, pictures) in zip(found, there, strict=True):
            images = [Image.open(io.BytesIO(one[f"{place}.png"])) for place in range(len(pictures))]
            assert [Picture(image) for image in images] == pictures


def test_shards_are_bounded_and_reproducible(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (file,) = [one for one in row_files(rows) if one.name == "critic_sft"]
    count = len(list(file.rows()))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        assert len(write_tars(file, tmp_path / folder, rows_a_shard=2)) == (count + 1) // 2
        assert len(write_parquet(file, tmp_path / folder, shard_bytes=1)) == count
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_dataset_card_is_correct(rows: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    pack(rows, tmp_path / "packed", runs=[tmp_path / "runs"], sources=["CoMM=cc-by-4.0", "mine=cc-by-nc-4.0"])
    text = (tmp_path / "packed" / "README.md").read_text()
    assert text.startswith('---\nlicense: "unknown"\nconfigs:\n')
    assert "- planner: hand (check this service's terms" in text and "- generator: hand\n" in text
    assert "mine: cc-by-nc-4.0 **non-commercial" in text and "CoMM: cc-by-4.0\n" in text
    assert "Not checked against any benchmark." in text and "Known gaps" in text
    (tmp_path / "guard.json").write_text('{"found": []}')
    pack(rows, tmp_path / "again", guard_report=tmp_path / "guard.json")
    assert '"found": []' in (tmp_path / "again" / "README.md").read_text()


@pytest.mark.parametrize("source", ["x=cc-by-nd-4.0", "x=CC BY-NC-ND 4.0", "x=no derivatives", "x", "=mit"])
def test_invalid_sources_are_rejected(source: str) -> None:
    with pytest.raises(SettingsError):
        check_sources([source])


@pytest.mark.parametrize(
    "content",
    ["{}", "[1]", '[{"images": 3}]', '[{"messages": [], "images": ["../../../etc/passwd"]}]', "nonsense"],
)
def test_rows_of_strangers(content: str, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "planner_sft.json").write_text(content)
    with pytest.raises(SettingsError):
        pack(tmp_path / "rows", tmp_path / "packed")
    assert not (tmp_path / "packed").exists()


def test_a_lone_surrogate_gives_one_line(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "half \ud800"}, {"role": "assistant", "content": "yes"}]
    (tmp_path / "planner_sft.json").write_text(json.dumps([{"messages": turns, "images": []}]))
    (file,) = row_files(tmp_path)
    with pytest.raises(SettingsError, match=r"planner_sft.json, row 0 contains an invalid character"):
        write_tars(file, tmp_path)


def test_an_existing_folder_is_not_replaced(rows: Path, tmp_path: Path) -> None:
    grey_page(1).image.save(tmp_path / "mine.png")
    with pytest.raises(SettingsError, match="already"):
        pack(rows, tmp_path / "mine.png")


@pytest.mark.parametrize("form", ["webdataset", "published"])
def test_each_missing_image_is_named(form: Any, rows: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    file = next(one for one in row_files(rows) if one.name == "critic_sft")
    count = len(list(file.rows()))
    first, second = (row.row["images"][1] for row in list(file.rows())[:2])
    (rows / first).unlink()
    (rows / second).unlink()
    (rows / second).mkdir()
    more = {"runs": [tmp_path / "runs"]}
    packing = Packing(form, CardData(), log=lines.append, **more)  # type: ignore[arg-type]
    with pytest.raises(
        SettingsError, match="rows have missing or damaged images; the first: critic_"
    ) as error:
        packing.pack([rows], tmp_path / "packed")
    assert "\n" not in str(error.value) and not (tmp_path / "packed").exists()
    named = [line for line in lines if line.startswith("left out: critic_sft.json, row")]
    assert len(named) >= 2
    skipping = Packing(form, CardData(), skip_bad=True, log=lines.append, **more)  # type: ignore[arg-type]
    assert skipping.pack([rows], tmp_path / "packed")["critic_sft"]["train"] == count - len(named)
    assert "rows with missing images" in (tmp_path / "packed" / "README.md").read_text()
