"""File names that are valid on one system and not on another."""

from __future__ import annotations

import pytest

from interleave_thinker.backend.core.files.atomic import SLUG_BYTES, SLUG_LETTERS, name_fault, slug


@pytest.mark.parametrize(
    "name", ["story", "plan.json", ".lock", "aux_00001_.png", "console", "com", "com10", "Füße 1", "図"]
)
def test_names_valid_on_every_system_are_accepted(name: str) -> None:
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
        ("a:b", "Windows does not allow"),
        ("a\\b", "Windows does not allow"),
        ("a\nb", "Windows does not allow"),
    ],
)
def test_names_invalid_on_windows_are_rejected(name: str, reason: str) -> None:
    assert reason in name_fault(name)
    assert name_fault(name, windows=False) == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "\udcff", "ü" * 128])
def test_names_invalid_on_every_system_are_rejected(name: str) -> None:
    assert name_fault(name, windows=False)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("A red boat, at dawn!", "a-red-boat-at-dawn"),
        ("<image> Draw it", "image-draw-it"),
        ("一只红色的小船,在黎明。", "一只红色的小船-在黎明"),
        ("सुबह की नाव", "सुबह-की-नाव"),
        ("Cafe\u0301 au lait", "caf\u00e9-au-lait"),
        ('a<b>c:d"e/f\\g|h?i*j\x00\ud800.', "a-b-c-d-e-f-g-h-i-j"),
        ("x" * 5000, "x" * 40),
        ("船" * 5000, "船" * 26),
        ("🚢" * 9, ""),
        ("❤\ufe0f love \u0301", "love"),
        ("", ""),
    ],
)
def test_a_slug_keeps_the_letters_of_any_script(text: str, kept: str) -> None:
    assert slug(text) == kept
    assert len(kept) <= SLUG_LETTERS and len(kept.encode()) <= SLUG_BYTES
    assert not name_fault(f"{kept}-0a1b2c")
