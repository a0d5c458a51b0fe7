"""The bounded reader: irregular, too large or hostile files are one clear error, immediately."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from interleave_thinker.backend.core.errors import JournalError, SettingsError
from interleave_thinker.backend.core.files import bounded_reader
from interleave_thinker.backend.core.files.bounded_reader import (
    parse_json,
    read_bytes,
    read_bytes_if_any,
    read_import,
    read_json,
    read_text,
)


def test_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf{"a": [1, 2]}')
    assert read_json(tmp_path / "a.json", SettingsError) == {"a": [1, 2]}
    assert read_text(tmp_path / "a.json", 100, SettingsError) == '{"a": [1, 2]}'
    assert read_bytes(tmp_path / "a.json", 16, SettingsError).startswith(b"\xef\xbb\xbf")


def test_missing_file_is_none_or_an_error(tmp_path: Path) -> None:
    assert read_bytes_if_any(tmp_path / "none", 10, SettingsError) is None
    with pytest.raises(JournalError, match=r"Plan .*none.*no such file"):
        read_bytes(tmp_path / "none", 10, JournalError, "Plan")


def test_file_above_the_limit_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_bytes(tmp_path / "file", 5, SettingsError) == b"12345"
    with pytest.raises(SettingsError, match="larger than 4 bytes"):
        read_bytes(tmp_path / "file", 4, SettingsError)


def test_sparse_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "holes").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SettingsError, match="larger than"):
        read_bytes(tmp_path / "holes", 1 << 30, SettingsError)


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_pipes_devices_sockets_and_folders_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    try:
        for name in (tmp_path / "pipe", tmp_path / "socket", tmp_path, Path("/dev/zero")):
            with pytest.raises(SettingsError, match="not a regular file"):
                read_bytes(name, 100, SettingsError)
    finally:
        listening.close()


def test_name_with_nul_is_an_error() -> None:
    with pytest.raises(SettingsError, match="invalid name"):
        read_bytes("a\0b", 10, SettingsError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deeply|not JSON"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ("1" * 10_000, "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        ("{", "not JSON"),
    ],
)
def test_hostile_json_gives_one_error(text: str | bytes, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_json(text, SettingsError, "The answer")


def test_too_many_small_values_are_rejected_before_they_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_reader, "MAX_JSON_VALUES", 100)
    assert len(parse_json("[" + "{}," * 40 + "{}]", SettingsError, "x")) == 41
    with pytest.raises(SettingsError, match="more than 100 values"):
        parse_json("[" + "{}," * 60 + "{}]", SettingsError, "x")


IMPORTED = "Zoë – “naïve”\r\n€ 20\n"


@pytest.mark.parametrize(
    ("content", "text", "name"),
    [
        (IMPORTED.encode(), IMPORTED, ""),
        (IMPORTED.encode("utf-8-sig"), IMPORTED, ""),
        (IMPORTED.encode("cp1252"), IMPORTED, "Windows-1252"),
        (IMPORTED.encode("utf-16"), IMPORTED, "UTF-16"),
        (b"\xfe\xff" + IMPORTED.encode("utf-16-be"), IMPORTED, "UTF-16"),
        (IMPORTED.encode("utf-16-le"), IMPORTED, "UTF-16"),
        (IMPORTED.encode("utf-16-be"), IMPORTED, "UTF-16"),
        ("厨房\n小红".encode("utf-16-le"), "厨房\n小红", "UTF-16"),
        (IMPORTED.encode("utf-32"), IMPORTED, "UTF-32"),
        (b"", "", ""),
        (b"a\0bcdefgh", "a\0bcdefgh", ""),
    ],
)
def test_the_encoding_of_an_import_is_found(tmp_path: Path, content: bytes, text: str, name: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    found = read_import(tmp_path / "a.csv", 1000, SettingsError, "Plan")
    assert found.text == text
    assert found.notice == (
        f"The file is read as {name} text. If letters are wrong, save it as UTF-8." if name else ""
    )


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04\x14\0\x06\0\x08\0\xe9\0\0", b"\xff\xfea", b"\x81\xe9", bytes(range(128, 256))]
)
def test_what_is_not_text_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.docx").write_bytes(content)
    with pytest.raises(SettingsError, match=r"Plan .*a\.docx.* is not text .*Save it as UTF-8 text"):
        read_import(tmp_path / "a.docx", 1000, SettingsError, "Plan")
    with pytest.raises(SettingsError, match=r"is not UTF-8 text .*Save it as UTF-8 text"):
        read_text(tmp_path / "a.docx", 1000, SettingsError)
