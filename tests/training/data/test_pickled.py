"""Plain pickled lists are read, and others cannot do any harm."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.training.data.pickled import CHILD, pickled_items

ITEMS = [{"data_id": "a", "step_info": [[{"type": "text", "content": "é"}], (1, 2.5, None, True)]}, "b"]
READ = [{"data_id": "a", "step_info": [[{"type": "text", "content": "é"}], [1, 2.5, None, True]]}, "b"]
TORCH_NUMBER = 0x1950A86A20F9469CFC6C


class Harm:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


def archive(content: bytes) -> bytes:
    """Return the content as torch.save writes it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("train_data/data.pkl", content)
        file.writestr("train_data/version", "3")
    return packed.getvalue()


def written(folder: Path, content: bytes) -> Path:
    (folder / "train_data.pth").write_bytes(content)
    return folder / "train_data.pth"


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(ITEMS, 2),
        pickle.dumps(ITEMS, 5),
        archive(pickle.dumps(ITEMS, 2)),
        b"".join(pickle.dumps(one, 2) for one in (TORCH_NUMBER, 1001, {"little": True}, ITEMS, [])),
        pickle.dumps({"a": ITEMS[0], "b": ITEMS[1]}),
    ],
)
def test_plain_lists_of_all_writers(content: bytes, tmp_path: Path) -> None:
    assert list(pickled_items(written(tmp_path, content))) == READ


def test_pickles_written_by_torch_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for old in (False, True):
        torch.save(ITEMS, tmp_path / "a.pth", _use_new_zipfile_serialization=not old)
        assert list(pickled_items(tmp_path / "a.pth")) == READ


def test_items_of_other_types_are_left_out(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    wide: list[Any] = []
    for _ in range(30):
        wide = [wide, wide]
    given = [b"bytes", loop, wide, float("nan"), {1: 2}, 10**6000, "good"]
    assert list(pickled_items(written(tmp_path, pickle.dumps(given)))) == [None] * 6 + ["good"]
    deep = b"(" * 200_000 + b"t" * 200_000 + b"."
    assert list(pickled_items(written(tmp_path, deep))) == [None]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (pickle.dumps([Harm(os.system, "touch harmed")]), "it uses"),
        (archive(pickle.dumps([Harm(eval, "open('harmed', 'w')")])), "it uses builtins.eval"),
        (b"cos\nsystem\n(S'touch harmed'\ntR.", "it uses os.system"),
        (b"\x80\x02(lp0\nK\x01a\x82\x01.", "damaged"),
        (b"\x80\x02\x8c\x01x\x8c\x01y\x93.", "it uses x.y"),
        (b"\x80\x02\x8c\x03x\ny\x8c\x01z\x93.", "it uses x y.z"),
        (b"\x80\x02K\x01Q.", "external data"),
        (pickle.dumps(7), "it is not a list"),
        (b"", "damaged"),
        (b"nonsense", "damaged"),
        (archive(b""), "damaged"),
        (b"\x80\x04]r" + struct.pack("<I", 2**31) + b".", "memory|damaged"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x", "damaged|memory"),
    ],
)
def test_invalid_pickles_are_rejected(
    content: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=reason) as error:
        list(pickled_items(written(tmp_path, content)))
    assert "\n" not in str(error.value)
    assert [one.name for one in tmp_path.iterdir()] == ["train_data.pth"]


def test_a_pickle_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    pair: tuple[Any, ...] = ()
    for _ in range(60):
        pair = (pair, pair)
    # A dictionary with such a key computes its hash: two to the power of sixty steps.
    long = b"\x80\x02}" + pickle.dumps(pair, 2)[2:-1] + b"K\x01s."
    begun = time.monotonic()
    with pytest.raises(SettingsError, match="too long"):
        list(pickled_items(written(tmp_path, long), seconds=0.5))
    assert time.monotonic() - begun < 20


def test_the_time_limit_excludes_the_consumer(tmp_path: Path) -> None:
    # More than a pipe holds, so the child is still at it while its reader does something else.
    items = pickled_items(written(tmp_path, pickle.dumps(["x" * 100_000] * 20)), seconds=2)
    next(items)
    time.sleep(2.3)
    assert len(list(items)) == 19


def test_a_machine_that_allows_less_is_no_hindrance(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    with written(tmp_path, pickle.dumps(ITEMS)).open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(CHILD), str(2**40), "1000"],
            stdin=file,
            capture_output=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (50, 50)),
        )
    assert done.stdout.splitlines()[-1] == b'{"end": true}', done.stderr
