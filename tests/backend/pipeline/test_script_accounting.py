"""No line of a script is lost: its words are in the plan, or the notice names it.

The files in `tests/data/scripts` are what programs write: Google Docs, pandoc, mammoth and Notion (Markdown),
Excel, LibreOffice, Numbers, Google Sheets and Storyboarder (tables), Highland, Final Draft, WriterDuet and
Fade In (Fountain), Final Draft, Word and note programs (text).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.script_accounting import SCRIPTS, dropped, lost_cells, lost_lines

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.pipeline.plan_file import READERS, read_plan_file, read_script

STEPS = {
    "fade-in.fountain": 4,
    "final-draft.fountain": 4,
    "highland.fountain": 3,
    "writerduet.fountain": 3,
    "bold-headings.md": 3,
    "deeper-levels.md": 6,
    "google-docs.md": 4,
    "google-docs-numbers.md": 4,
    "google-docs-two-lists.md": 4,
    "mammoth.md": 3,
    "notion.md": 3,
    "pandoc.md": 3,
    "table.md": 3,
    "excel-ansi.csv": 4,
    "excel-sep.csv": 2,
    "excel-unicode.txt": 3,
    "excel-utf8.csv": 3,
    "google-sheets.tsv": 3,
    "libreoffice.csv": 3,
    "numbers.csv": 3,
    "storyboarder.csv": 3,
    "utf16-no-bom.csv": 3,
    "final-draft.txt": 2,
    "lines.txt": 4,
    "notes.txt": 4,
    "paragraphs.txt": 3,
    "word.txt": 3,
}
FILES = sorted(path for path in SCRIPTS.rglob("*") if path.is_file())
SHAPES = (
    *("# {}", "## {}", "### **{}**", "#### {}", "**{}**", "{}\n====", "{}\n----------------", "\\# {}"),
    *("1. {}", "2\\. {}", "3) {}", "- {}", "* [x] {}", "    - {}", "•\t{}", "Shot 4: {}", "Scene 5\n{}"),
    *("> {}", "Caption: {}", "**Caption:** {}", "Action: {}", "Note: {}", "{}", "  {}", "{}\\", "*{}*", ""),
    *(
        "<!-- {} -->",
        "<!-- {}\n\n{} -->",
        "```\n{}\n```",
        "| {} | {} |",
        "![{}](x.png)",
        "[x]: {}",
        "<p>{}</p>",
    ),
    *("INT. {} - NIGHT", ".{}", "EXT. {} #2#", "{}!", "@{}\n{}", "{} (V.O.)\n{}", "{} (on phone)\n({})\n{}"),
    *(
        "[[{}]]",
        "/* {}\n{} */",
        "= {}",
        "~{}",
        "> {} <",
        "{} TO:",
        "!{}",
        "Title: {}\n\nCredit: {}",
        "---",
        "",
    ),
)
CELLS = st.sampled_from(["", " ", "{}", "{} {}", "{}, {}", "{}\n{}", '"{}"'])
HEADINGS = ("Description", "Caption", "Shot", "Camera", "Location", "Cast", "Notes", "", "Dialogue")


def _numbered(text: str) -> str:
    """Return a text with a word of its own in each place."""
    parts = text.split("{}")
    return "".join(f"{part}WORD{at}X" for at, part in enumerate(parts[:-1])) + parts[-1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_line_of_a_program_is_dropped_without_a_notice(path: Path) -> None:
    plan = read_plan_file(path)
    assert dropped(path, plan) == []
    assert len(plan.steps) == STEPS[path.name]


@given(
    st.lists(st.sampled_from(SHAPES), min_size=1, max_size=16),
    st.booleans(),
    st.sampled_from(sorted(READERS)),
)
def test_no_line_of_any_script_is_dropped(shapes: list[str], blank: bool, ending: str) -> None:
    text = _numbered(("\n\n" if blank else "\n").join(shapes))
    try:
        plan = read_script(text, ending, "file")
    except SettingsError:
        return
    lines = [" ".join(re.findall(r"WORD\d+X", line)) for line in text.splitlines()]
    assert list(lost_lines(lines, plan)) == []


@given(
    st.lists(st.sampled_from(HEADINGS), max_size=5),
    st.lists(st.lists(CELLS, min_size=1, max_size=7), max_size=5),
    st.sampled_from(",;\t"),
    st.booleans(),
)
def test_no_cell_of_any_table_is_dropped(
    headings: list[str], rows: list[list[str]], separator: str, titled: bool
) -> None:
    head = ["Description", *headings]
    written = [["Title {}"]] * titled + [head, *rows]
    cells = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in written]
    text = _numbered("\n".join(map(separator.join, cells)))
    try:
        plan = read_script(text, ".csv", "file")
    except SettingsError:
        return
    assert list(lost_cells(text, separator, int(titled), plan)) == []
