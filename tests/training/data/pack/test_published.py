"""`data pack --as published`: names and paths as the published readers need them, and the same content."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.made_runs import accepted_story, grey_page, made_run

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.execution_record.reader import read_record
from interleave_thinker.backend.journal.copy import save_trajectory
from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import default_prompt_set
from interleave_thinker.backend.types import Identities
from interleave_thinker.training.data.from_runs.convert import RunConverter
from interleave_thinker.training.data.from_runs.settings import FilterData
from interleave_thinker.training.data.pack.inspect import inspect
from interleave_thinker.training.data.pack.pack import Packing
from interleave_thinker.training.data.pack.row_files import row_files
from interleave_thinker.training.data.pack.settings import CardData
from interleave_thinker.training.data.planner_rows.make import PlannerRows
from interleave_thinker.training.data.planner_rows.settings import PlannerRowsData
from interleave_thinker.training.data.rows.rl import read_rl_rows
from interleave_thinker.training.data.sequences.make import make_sequences

TREE = Path("InterleaveThinker/Train-Data")


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
    pack(tmp_path, tmp_path / "packed")
    return tmp_path / "packed"


def pack(folder: Path, out: Path, **more: str) -> None:
    packing = Packing("published", CardData(), [folder / "runs"], log=lambda line: None, **more)  # type: ignore[arg-type]
    packing.pack([folder / "rows"], out)


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
    ours = {file.path.name: list(file.rows()) for file in row_files(tmp_path / "rows")}
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
    table, _ = inspect(packed / TREE, images=packed)
    assert all(line.split("|")[5].strip() == "0" for line in table[2:])


def test_paths_refer_to_the_published_location(packed: Path, tmp_path: Path) -> None:
    pack(tmp_path, tmp_path / "again", prefix="/srv/data/")
    row = json.loads((tmp_path / "again" / TREE / "critic_sft.json").read_text())[0]
    assert all(name.startswith(f"/srv/data/{TREE}/") for name in row["images"])
    record = json.loads(
        (tmp_path / "again" / TREE / "Nano_data" / "r.3" / "execution_record.json").read_text()
    )
    assert record["steps"][0]["source_img"].startswith("/srv/data/data/interleave/white.png")
    assert load_trajectory(tmp_path / "again" / TREE / "Nano_data" / "r.3").results


def test_packing_without_runs_or_with_equal_names_is_rejected(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--runs"):
        Packing("published", CardData()).pack([tmp_path / "rows"], tmp_path / "x")
    with pytest.raises(SettingsError, match="the same name"):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "critic_sft.json").write_text("[]")
        Packing("webdataset", CardData()).pack([tmp_path / "rows", tmp_path / "other"], tmp_path / "x")
    grey_page(1).image.save(tmp_path / "rows" / "images" / "unused.png")
    assert not (tmp_path / "x").exists()


def test_planner_rows_and_sequences_of_a_published_tree(packed: Path, tmp_path: Path) -> None:
    save_trajectory(accepted_story(grey_page(1), grey_page(2)), tmp_path / "story" / "a")
    Packing("published", CardData(), [tmp_path / "story"], log=lambda line: None).pack(
        [tmp_path / "rows"], tmp_path / "tree"
    )
    maker = PlannerRows(PlannerRowsData(), default_prompt_set(), log=lambda line: None)
    ours = maker.make([tmp_path / "story"], tmp_path / "ours")
    theirs = maker.make([tmp_path / "tree"], tmp_path / "theirs")
    assert ours.rows == theirs.rows and not theirs.left_out
    counts = make_sequences([tmp_path / "tree"], tmp_path / "s", log=lambda line: None)
    assert counts["sequences_hard.json"] == 1
