"""Foreign text never controls a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interleave_thinker.backend.core.errors import JournalError
from interleave_thinker.backend.core.shown_text import one_line, shown_text
from interleave_thinker.cli.progress import Lines

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\x08e\rf\u202eg\x7f"


@given(st.text())
def test_control_characters_are_removed(text: str) -> None:
    for shown in (shown_text(text), one_line(text)):
        assert not any(
            (ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 for letter in shown
        )
        shown.encode()
    assert "\n" not in one_line(text)


def test_errors_and_lines_are_shown_without() -> None:
    error = JournalError(f"{HOSTILE}!", HOSTILE)
    assert str(error) == "a]0;titleb[2Jc31mdefg! a]0;titleb[2Jc31mdefg" and "\x1b" not in error.args[0]
    screen = io.StringIO()
    Lines(Console(file=screen)).say(HOSTILE)
    assert screen.getvalue() == "a]0;titleb[2Jc31mdefg\n"


@pytest.mark.parametrize("text", ["Straße, 雪, ✓ and\ttabs", "שלום"])
def test_other_text_stays(text: str) -> None:
    assert shown_text(text) == text and one_line(f" {text} \n\n {text}") == f"{text} {text}"
