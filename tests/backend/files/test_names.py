"""Names of files that one system takes and another does not."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.files.names import name_fault


@pytest.mark.parametrize(
    "name", ["story", "plan.json", ".lock", "aux_00001_.png", "console", "com", "com10", "Füße 1", "図"]
)
def test_names_that_every_system_takes(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("CON", "device"),
        ("nul", "device"),
        ("aux.png", "device"),
        ("Com1.tar.gz", "device"),
        ("lpt\u00b9", "device"),
        ("prn .txt", "device"),
        ("story.", "ends with"),
        ("story ", "ends with"),
        ("a:b", "Windows refuses"),
        ("a\\b", "Windows refuses"),
        ("a\nb", "Windows refuses"),
    ],
)
def test_names_that_windows_does_not_take(name: str, reason: str) -> None:
    assert reason in name_fault(name)
    assert name_fault(name, windows=False) == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "\udcff", "ü" * 128])
def test_names_that_no_system_takes(name: str) -> None:
    assert name_fault(name, windows=False)
