"""Lines are appended completely, also after a line that a kill or a full disk cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import JournalError
from interleave_thinker.backend.core.files.atomic import append_line


@pytest.mark.parametrize("before", [None, b"", b"one\n", b"one\r\n", b"one\ncut o"])
def test_an_appended_line_starts_on_a_new_line(before: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lines.jsonl"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    for line in ("é\ud800", "last"):
        append_line(path, line, JournalError, "Ledger")
    kept = (before or b"").splitlines()
    assert path.read_bytes().splitlines() == [*kept, "é?".encode(), b"last"]
    assert path.read_bytes().endswith(b"last\n")


def test_unwritable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"Ledger '.*' cannot be written \(") as caught:
        append_line(tmp_path, "one", JournalError, "Ledger")
    assert caught.value.hint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No space left"):
        append_line(Path("/dev/full"), "one", JournalError, "Ledger")
