"""`data pack`: unpacked rows and images are the same as before, as shards and as the published tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import grey_page, made_run

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Identities
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.research.data.decontamination.guard import Guard
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
from interleave_thinker.training.rows.rl import read_rl_rows

TREE = Path("InterleaveThinker/Train-Data")


def rows_in(file: RowFile) -> list[PackedRow]:
    gone: list[str] = []
    found = list(file.rows(Guard(), gone))
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
    assert "Not checked against any benchmark." in text and "Known gaps" in text


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


@pytest.mark.parametrize("form", ["hf", "published"])
def test_each_missing_image_is_named(form: Any, rows: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    file = next(one for one in row_files([rows]) if one.name == "critic_sft")
    count = len(rows_in(file))
    first, second = (row.row["images"][1] for row in rows_in(file)[:2])
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


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    for number in range(4):
        attempts = [(number * 20, False, 4.0), (number * 20 + 9, True, 5.0 + number)]
        source = None if number else 7
        made_run(tmp_path / "runs" / f"r.{number}", attempts, prompt=f"page {number}", source=source)
    story = load_trajectory(tmp_path / "runs" / "r.3")
    shutil.rmtree(tmp_path / "runs" / "r.3")
    nano = story.model_copy(
        update={"identities": Identities(generator="openai:nano-banana@x\n# licence: none")}
    )
    save_trajectory(nano, tmp_path / "runs" / "r.3")
    settings = FilterData(balance=0.0, rl_share=0.5, held_out_runs=0.0)
    converter = RunConverter(settings, default_prompt_set(), log=lambda line: None)
    assert converter.convert([tmp_path / "runs"], tmp_path / "rows").rl
    pack(tmp_path / "rows", tmp_path / "packed", "published", runs=[tmp_path / "runs"])
    return tmp_path / "packed"


def test_records_and_images_are_named_by_step_and_attempt(packed: Path, tmp_path: Path) -> None:
    assert sorted(one.name for one in (packed / TREE / "Klein_data").iterdir()) == ["r.0", "r.1", "r.2"]
    assert [one.name for one in (packed / TREE / "Nano_data").iterdir()] == ["r.3"]
    assert "- generator: openai:nano-banana@x # licence: none\n" in (packed / "README.md").read_text()
    folder = packed / TREE / "Klein_data" / "r.1"
    assert sorted(one.name for one in folder.glob("step*")) == ["step1_0.png", "step1_2.png"]
    record = json.loads((folder / "execution_record.json").read_text())
    assert record["global_context"]["reasoning"] == ""
    first, second = record["steps"]
    assert first["source_img"] == second["source_img"] == "data/interleave/white.png"
    assert first["target_img"] == str(TREE / "Klein_data" / "r.1" / "step1_0.png")
    assert first["refine_prompt"] == "page 1 1" and second["refine_prompt"] == ""
    before, after = load_trajectory(tmp_path / "runs" / "r.1"), load_trajectory(folder)
    drawn = [[one.image for one in story.results[0].attempts] for story in (before, after)]
    assert drawn[0] == drawn[1] and not read_record(folder).missing


def test_rows_name_the_images_of_the_trajectories(packed: Path, tmp_path: Path) -> None:
    ours = {file.path.name: rows_in(file) for file in row_files([tmp_path / "rows"])}
    rows = json.loads((packed / TREE / "critic_sft.json").read_text())
    for row, one in zip(rows, ours["critic_sft.json"], strict=True):
        assert row["messages"] == one.row["messages"]
        pictures = [Picture.open(packed / name) for name in row["images"]]
        assert pictures == [Picture.from_bytes(image) for image in one.images]
        assert "_data/r." in row["images"][1]
    lines = [json.loads(line) for line in (packed / TREE / "critic_rl.jsonl").read_text().splitlines()]
    for line, one in zip(lines, ours["critic_rl.jsonl"], strict=True):
        assert line["evaluation"] == one.row["evaluation"]
        assert Picture.open(packed / line["edited_image_path"]) == Picture.from_bytes(one.images[-1])
    found, problems = read_rl_rows(packed / TREE / "critic_rl.jsonl", images=packed)
    assert len(found) == len(lines) and not problems
    assert all(row.origin_image_path is None for row in found if "r.0" not in row.edited_image_path)


def test_packing_without_runs_or_with_equal_names_is_rejected(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--runs"):
        Packing("published", CardData()).pack([tmp_path / "rows"], tmp_path / "x")
    with pytest.raises(SettingsError, match="the same name"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "critic_sft.jsonl").write_text("[]")
        Packing("hf", CardData()).pack([tmp_path / "rows", tmp_path / "other"], tmp_path / "x")
    grey_page(1).image.save(tmp_path / "rows" / "images" / "unused.png")
    assert not (tmp_path / "x").exists()
