"""Contact sheets: positions of images, captions that fit, and sizes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stories import make_trajectory

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.output.exporters import sheet
from interleave_thinker.backend.output.exporters import typesetting as sheet_text


@pytest.mark.parametrize(("steps", "show"), [(1, "chosen"), (12, "attempts"), (99, "chosen")])
def test_sheets_of_every_length(steps: int, show: str) -> None:
    trajectory = make_trajectory(steps)
    image = sheet.contact_sheet(trajectory, cell=64, show=show)  # type: ignore[arg-type]
    assert image.mode == "RGB" and max(image.size) <= 12_000
    cells = steps + 1 if show == "chosen" else sum(max(1, len(r.attempts)) for r in trajectory.results)
    assert image.width * image.height >= cells * 64 * 64


def test_the_sheet_shows_the_chosen_images_in_order() -> None:
    trajectory = make_trajectory(4, text_step=False)
    image = sheet.contact_sheet(trajectory, columns=4, cell=96)
    gap = 96 // 16
    for index, result in enumerate(trajectory.results):
        left = gap + index * (96 + gap)
        assert result.image and Picture(image.crop((left, gap, left + 96, gap + 96))) == result.image


def test_sheet_columns_captions_and_shape() -> None:
    trajectory = make_trajectory(4, text_step=False)
    narrow = sheet.contact_sheet(trajectory, columns=1, cell=96)
    wide = sheet.contact_sheet(trajectory, columns=4, cell=96)
    bare = sheet.contact_sheet(trajectory, columns=4, cell=96, captions=False)
    assert narrow.height > narrow.width and wide.width > wide.height > bare.height == 96 + 2 * 6


def test_a_sheet_too_large_gets_smaller_cells() -> None:
    image = sheet.contact_sheet(make_trajectory(20), columns=20, cell=2048)
    assert 9_000 < max(image.size) <= 12_000


@pytest.mark.parametrize(
    ("show", "steps", "columns", "cell"),
    [("chosen", 99, 1, 320), ("attempts", 50, 2, 480), ("audience", 50, 2, 480)],
)
def test_long_story_makes_a_nearly_square_sheet(show: str, steps: int, columns: int, cell: int) -> None:
    image = sheet.contact_sheet(make_trajectory(steps), columns, cell, show)  # type: ignore[arg-type]
    assert image == sheet.contact_sheet(make_trajectory(steps), None, cell, show)  # type: ignore[arg-type]
    assert 1 / 1.5 < image.width / image.height < 1.5


def test_given_columns_are_kept_while_the_cells_are() -> None:
    image = sheet.contact_sheet(make_trajectory(12, text_step=False), columns=2, cell=320)
    assert image.width == 20 + 2 * (320 + 20)


def test_long_captions_are_cut_with_an_ellipsis(tmp_path: Path) -> None:
    plain = sheet.contact_sheet(make_trajectory(2), cell=96)
    long = sheet.contact_sheet(make_trajectory(2, decorate=" and a very long tail" * 4000), cell=96)
    assert long.size[0] == plain.size[0] and long.size[1] < 3 * plain.size[1]


def test_every_attempt_is_on_the_sheet_of_attempts() -> None:
    trajectory = make_trajectory(3, text_step=False)
    image = sheet.contact_sheet(trajectory, columns=3, cell=96, show="attempts", captions=False)
    assert image.size == (3 * (96 + 6) + 6, 2 * (96 + 6) + 6), (
        "two and one attempts on the first row, three below"
    )
    attempts = [attempt for result in trajectory.results for attempt in result.attempts]
    for index, attempt in enumerate(attempts):
        left, top = 6 + index % 3 * 102, 6 + index // 3 * 102
        if attempt.image:
            assert Picture(image.crop((left, top, left + 96, top + 96))) == attempt.image


@pytest.mark.parametrize("options", [{"cell": 1}, {"cell": 99_999}, {"columns": 0}, {"show": "all"}])
def test_impossible_sheets_are_rejected(options: dict) -> None:
    with pytest.raises(SettingsError):
        sheet.contact_sheet(make_trajectory(1), **options)


@settings(deadline=None)
@given(st.text(max_size=300), st.integers(8, 40), st.integers(20, 400), st.integers(1, 6))
def test_wrapped_lines_fit(text: str, size: int, width: int, lines: int) -> None:
    block = sheet_text.wrap(text, size, width, lines)
    assert len(block.lines) <= lines
    assert max((block.font.getlength(line) for line in block.lines if len(line) > 1), default=0) <= width


def test_wrapping_loses_no_words_that_fit() -> None:
    text = "the little boat hoisted its sail and was gone"
    assert " ".join(sheet_text.wrap(text, 12, 90, 20).lines) == text


@pytest.mark.parametrize("width", [60, 90, 150])
def test_a_line_has_as_many_words_as_fit(width: int) -> None:
    block = sheet_text.wrap(f'AVA To {"W" * 30} if it is To be. We, "Yo" too. ' * 4, 12, width, 99)
    for line, following in pairwise(block.lines):
        longer = f"{line} {following.split()[0]}"
        assert block.font.getlength(line) <= width < block.font.getlength(longer)


def test_letters_missing_in_the_font_are_rendered_or_simplified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet_text, "_names", lambda: (sheet_text.OWN,))
    sheet_text._font_with.cache_clear()
    sheet_text.wrap.cache_clear()
    assert sheet_text.wrap("Père Noël", 12, 900, 1).lines == ("Pere Noel",)
    monkeypatch.undo()
    sheet_text._font_with.cache_clear()
    sheet_text.wrap.cache_clear()
    block = sheet_text.wrap("Père Noël", 12, 900, 1)
    assert block.lines[0] in ("Père Noël", "Pere Noel")
    assert sheet_text.wrap("plain words", 12, 900, 1).font.getname()[0] == "Aileron"
