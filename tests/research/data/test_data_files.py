"""Data files of others: every form is read, and torch files run no code and unpack to a bounded size."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker import SettingsError
from interleave_thinker.research.data import data_files
from interleave_thinker.research.data.data_files import rows_of

ROW = {"data_id": "wiki_12", "title": "Fold a crane", "step_info": [[{"type": "text", "content": "Fold."}]]}


def test_every_form_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    (tmp_path / "data.json").write_text(json.dumps([ROW]))
    (tmp_path / "object.json").write_text(json.dumps({"data": [ROW]}, indent=1))
    (tmp_path / "data.jsonl").write_text(f"{json.dumps(ROW)}\n")
    datasets.Dataset.from_list([ROW | {"other": 1}]).to_parquet(tmp_path / "data.parquet")
    for path in tmp_path.iterdir():
        assert list(rows_of(path, ROW)) == [ROW], path


class Harm:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("harmed"),)


def test_only_plain_torch_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.save([ROW, "b"], "new.pth")
    torch.save({"a": ROW, "b": "b"}, "old.pt", _use_new_zipfile_serialization=False)
    assert list(rows_of(Path("new.pth"), ())) == list(rows_of(Path("old.pt"), ())) == [ROW, "b"]
    torch.save([Harm()], "harm.pth")
    Path("plain.pth").write_bytes(pickle.dumps([Harm()]))
    Path("cut.pth").write_bytes(Path("new.pth").read_bytes()[:90])
    torch.save(7, "number.pth")
    for name in ("harm.pth", "plain.pth", "cut.pth", "number.pth"):
        with pytest.raises(SettingsError, match=name.replace(".", r"\.")):
            list(rows_of(Path(name), ()))
    assert not Path("harmed").exists()


def test_an_unpacked_torch_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    torch.save(["x" * 4_000_000], tmp_path / "plain.pth")
    packed = tmp_path / "packed.pth"
    with zipfile.ZipFile(tmp_path / "plain.pth") as plain, zipfile.ZipFile(packed, "w") as archive:
        for entry in plain.infolist():
            archive.writestr(entry.filename, plain.read(entry), zipfile.ZIP_DEFLATED)
    assert len(list(rows_of(packed, ()))) == 1 and packed.stat().st_size < 100_000
    monkeypatch.setattr(data_files, "MAX_FILE", 1_000_000)
    with pytest.raises(SettingsError, match="is not a list of up to"):
        list(rows_of(packed, ()))
