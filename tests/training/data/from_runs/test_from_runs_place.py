"""The output folder of data from runs: nothing else is replaced, and no interruption leaves half of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.made_runs import made_run

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts.prompt_set import default_prompt_set
from interleave_thinker.training.data.from_runs.convert import MadeData, RunConverter, RunsReport
from interleave_thinker.training.data.from_runs.settings import RunsData
from interleave_thinker.training.data.rows.sft import check_rows


def put(tmp_path: Path, place: Path) -> MadeData:
    converter = RunConverter(RunsData(), default_prompt_set(), log=lambda line: None)
    return converter.convert([tmp_path / "runs"], place)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match=r"other files \('mine.txt'\)"):
        put(tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_an_impossible_output_path_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real")
    for place in (Path("."), Path(".."), tmp_path / "link", tmp_path / "runs" / "a" / "run.json"):
        with pytest.raises(SettingsError):
            put(tmp_path, place)
    assert names(tmp_path) == ["link", "real", "runs"]


def test_a_full_disk_keeps_the_earlier_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    before = (tmp_path / "data" / "report.json").read_text()

    def full(*paths: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SettingsError, match="No space left"):
        put(tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "report.json").read_text() == before and names(tmp_path) == ["data", "runs"]


def test_a_stop_while_the_earlier_data_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    remove = shutil.rmtree

    def killed(folder: Path, **options: Any) -> None:
        if (folder / "report.json").is_file():
            (folder / "report.json").unlink()
            raise Killed
        remove(folder, **options)

    made_run(tmp_path / "runs" / "a", [(1, True, None)])
    put(tmp_path, tmp_path / "data")
    made_run(tmp_path / "runs" / "b", [(2, True, None)], prompt="b")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(Killed):
            put(tmp_path, tmp_path / "data")
    kept = RunsReport.model_validate_json((tmp_path / "data" / "report.json").read_text())
    assert kept.runs == 2 and len(check_rows(tmp_path / "data" / "critic_sft.json")[0]) == 2
    (tmp_path / "data" / ".DS_Store").touch()
    assert put(tmp_path, tmp_path / "data").report == kept
    assert names(tmp_path) == ["data", "runs"]
