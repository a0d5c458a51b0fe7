"""Screenplays, outlines and shot lists as plans, none of whose lines is lost."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.script_accounting import lost_lines

from interleave_thinker import Plan, SettingsError
from interleave_thinker.backend.pipeline.plan_file import READERS, read_plan_file, read_script

FOUNTAIN = """Title: The Lighthouse
Author: Nobody
    of importance

# Act one

= A quiet night.

INT. LIGHTHOUSE KITCHEN - NIGHT #1#

MARA, nine, short black hair, lights a *lamp*. [[check the lamp]]

MARA (V.O.)
(quietly)
The ship is late.

OLD PIM ^
It is _always_ late.

CUT TO:

.THE GALLERY

The beam sweeps over the sea.
MARA leans on the rail.

/* an old

version */

===

EXT. HARBOR - DAWN

@McTavish
Land!

> FADE OUT

> THE END <
"""
HEADINGS = """# Paper plane

An introduction.

## Step 1: Fold in half

A white sheet on a **wooden** [table](x.html),
folded in half.

> Fold the sheet.

## 2. Make the nose

- two corners folded to the middle
![drawing](x.png)

| a | table |

```
code
```
"""
LIST = """# A fox

1. A fox in a forest
   > Once upon a time
2. [x] The fox finds **a key**
   near the river
"""
SHOTS = (
    "\ufeffShot;Shot Size;Camera Movement;Location;Description;Dialogue;Characters;Duration\r\n"
    "1;Wide;Static;Harbor, dawn;A small boat enters the harbor;;Mara, Pim;3s\r\n"
    '2;"Close-up";;;"Mara smiles; ""hello"" she says";Mara: Hello!;Mara;2s\r\n'
    ";;;;;;;\r\n"
)


def read(tmp_path: Path, name: str, text: str) -> Plan:
    (tmp_path / name).write_bytes(text.encode())
    return read_plan_file(tmp_path / name)


def test_a_screenplay(tmp_path: Path) -> None:
    plan = read(tmp_path, "film.fountain", FOUNTAIN)
    assert [member.name for member in plan.cast] == ["Mara", "Old Pim", "McTavish"]
    assert [(step.prompt, step.auxiliary_text, step.cast) for step in plan.steps] == [
        (
            "Interior, lighthouse kitchen, night. Mara, nine, short black hair, lights a lamp. Old Pim.",
            "Mara: The ship is late.\nOld Pim: It is always late.",
            ("Mara", "Old Pim"),
        ),
        ("The gallery. The beam sweeps over the sea. Mara leans on the rail.", None, ("Mara",)),
        ("Exterior, harbor, dawn. McTavish.", "McTavish: Land!", ("McTavish",)),
    ]


def test_an_outline_of_headings(tmp_path: Path) -> None:
    plan = read(tmp_path, "plane.md", HEADINGS)
    assert [(step.name, step.prompt, step.auxiliary_text) for step in plan.steps] == [
        ("Fold in half", "A white sheet on a wooden table, folded in half.", "Fold the sheet."),
        ("Make the nose", "two corners folded to the middle.", None),
    ]


def test_an_outline_of_a_list(tmp_path: Path) -> None:
    plan = read(tmp_path, "fox.md", LIST)
    assert [(step.prompt, step.auxiliary_text) for step in plan.steps] == [
        ("A fox in a forest.", "Once upon a time"),
        ("The fox finds a key near the river.", None),
    ]


def test_a_shot_list(tmp_path: Path) -> None:
    plan = read(tmp_path, "shots.csv", SHOTS)
    assert [member.name for member in plan.cast] == ["Mara", "Pim"]
    assert [(step.name, step.prompt, step.auxiliary_text, step.cast) for step in plan.steps] == [
        ("1", "Wide, Static. Harbor, dawn. A small boat enters the harbor.", None, ("Mara", "Pim")),
        ("2", 'Close-up. Mara smiles; "hello" she says.', "Mara: Hello!", ("Mara",)),
    ]
    tabs = read(tmp_path, "shots.tsv", "Action\tCaption\na fox\tHello\n\tOnly words\n")
    assert [(step.prompt, step.auxiliary_text) for step in tabs.steps] == [
        ("a fox.", "Hello"),
        (None, "Only words"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.fountain", "Title: nothing\n\n", "it has no steps"),
        ("a.md", "***\n", "it has no steps"),
        ("a.csv", "shot,notes\n1,x\n", "no column describes the images"),
        ("a.csv", "action\n", "it has no steps"),
        ("a.csv", 'action\n"open\n', "it is not a table"),
        ("a.md", "- step\n" * 101, "it has more than 100 steps"),
        ("a.md", "- step\n" * 200_000, "the maximum is 1,000,000"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read(tmp_path, name, text)


HOSTILE = (
    *("/* ", "[[ ", "a:\n b:\n", "A (", "@a (", "*a ", "_ ", " #a", "# ", "#", "- - ", "[", "![", "<!-- "),
    *("```\n", "> ", "1. ", "\n\n", "INT. A - ", '"', ",", "A\na\n\n"),
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_hostile_script_takes_bounded_time(unit: str) -> None:
    for text in ((unit * 200_000)[:200_000], f"{(unit * 100_000)[:100_000]}x\n\nINT. A\n\nb c\n"):
        for ending in READERS:
            with suppress(SettingsError):
                read_script(text, ending, "file")


@pytest.mark.parametrize(
    ("cue", "name"),
    [
        ("C-3PO", "C-3PO"),
        ("SARAH'S FRIEND", "Sarah's Friend"),
        ("D'ARTAGNAN (CONT'D)", "D'Artagnan"),
        ("MCTAVISH", "McTavish"),
        ("HENRY VIII", "Henry VIII"),
        ("@van der Berg", "van der Berg"),
    ],
)
def test_a_speaker_has_the_capitals_of_a_name(tmp_path: Path, cue: str, name: str) -> None:
    plan = read(tmp_path, "a.fountain", f"INT. A\n\nDeShawn sits. It will rain.\n\n{cue}\nHi.\n")
    assert plan.steps[0].auxiliary_text == f"{name}: Hi."


@pytest.mark.parametrize("extension", ["V.O.", "vo", "O.S.", "O. S.", "O.C.", "OFF SCREEN", "VOICE OVER"])
def test_who_speaks_off_screen_is_not_in_the_image(tmp_path: Path, extension: str) -> None:
    cue = f"PIM ({extension})"
    text = f"INT. A\n\nMARA sits.\n\n{cue}\nHi.\n\nMARA (O.S.)\nOh.\n\nINT. B\n\n{cue}\nHo.\n"
    plan = read(tmp_path, "a.fountain", text)
    assert [one.name for one in plan.cast] == ["Mara"]
    assert [(one.prompt, one.auxiliary_text, one.cast) for one in plan.steps] == [
        ("Interior, a. Mara sits.", "Pim: Hi.\nMara: Oh.", ("Mara",)),
        ("Interior, b.", "Pim: Ho.", ()),
    ]


def test_a_title_page_may_have_blank_lines(tmp_path: Path) -> None:
    title = "Title:\n    Tide\n\nCredit: written by\nAuthor: Ines\n\nContact:\n\n    Elm Street\n"
    plan = read(tmp_path, "a.fountain", f"{title}\nA boat.\n\nMara: gone.\n")
    assert [one.prompt for one in plan.steps] == ["A boat.", "Mara: gone."]
    assert plan.warning == "Left out of the plan: title page (lines 1-2, 4-5, 7, 9: 'Title:')."


def test_a_song_is_a_caption_of_its_scene(tmp_path: Path) -> None:
    plan = read(tmp_path, "a.fountain", "INT. A\n\nA boat.\n\nEXT. B - DAY\n\n~Row, row\n~Row\n")
    assert [(one.prompt, one.auxiliary_text) for one in plan.steps] == [
        ("Interior, a. A boat.", None),
        ("Exterior, b, day.", "Row, row\nRow"),
    ]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("1. A fox\n   Caption: Night\n2\\. A key\n", [("A fox.", "Night"), ("A key.", None)]),
        ("# A\n\n**Text:** Hi\nthere\n\nA fox.\n\n# B\n", [("A fox.", "Hi there"), ("B.", None)]),
        ("# T\n\n## A\n\nx\n\n### B\n\ny\n\n## C\n\nz\n", [("x.", None), ("y.", None), ("z.", None)]),
        ("A fox\nruns.\n\nNarration: Night.\n\nA key.\n", [("A fox runs.", "Night."), ("A key.", None)]),
        ("Shot 1: A fox\nAction: it runs\nShot 2 - A key\n", [("A fox. it runs.", None), ("A key.", None)]),
        ("- a_b 2*3 <lora:x:1>\n- {red|blue}\n", [("a_b 2*3 <lora:x:1>.", None), ("{red|blue}.", None)]),
    ],
)
def test_outlines_of_people(tmp_path: Path, text: str, steps: list[tuple[str, str | None]]) -> None:
    for name in ("a.md", "a.txt"):
        plan = read(tmp_path, name, text)
        assert [(one.prompt, one.auxiliary_text) for one in plan.steps] == steps


def test_a_text_of_edit_plan_stays_one(tmp_path: Path) -> None:
    text = "style: Ink\n\n1. Dawn\n   draw: a bay\n2. Noon\n   draw: a sea\n"
    assert read(tmp_path, "a.txt", text).style == "Ink"
    with pytest.raises(SettingsError, match="Line 3, step 1"):
        read(tmp_path, "a.txt", "1. Dawn\n   draw: a bay\n   drwa: a sea\n")


def test_a_table_with_one_column_may_have_commas(tmp_path: Path) -> None:
    plan = read(tmp_path, "a.csv", "Action\nA boat, red\nA fox\n")
    assert [one.prompt for one in plan.steps] == ["A boat, red.", "A fox."]


def test_names_that_are_too_long_are_no_names(tmp_path: Path) -> None:
    long = "THE WHOLE TOWN OF SAINT ODILE AND ALL OF ITS DOGS AND CATS RUN"
    plan = read(tmp_path, "a.fountain", f"INT. A\n\n{long}\nto the harbor.\n")
    assert plan.cast == () and plan.steps[0].prompt == f"Interior, a. {long} to the harbor."
    plan = read(tmp_path, "a.csv", f'action,cast\nrun,"{long}, Pim"\n')
    assert plan.steps[0].cast == ("Pim",)
    assert plan.warning.startswith("Left out of the plan: names of more than 60 characters (line 2: ")


def test_a_table_may_have_soft_breaks(tmp_path: Path) -> None:
    plan = read(tmp_path, "a.csv", "Action,Notes\nA fox\u2028runs,x\nA key,\n,late\n")
    assert [one.prompt for one in plan.steps] == ["A fox runs.", "A key."]
    assert "rows without a description or caption (line 4: ',late')" in plan.warning


def test_a_script_without_capitals_has_no_speakers(tmp_path: Path) -> None:
    plan = read(tmp_path, "a.fountain", "INT. 厨房\n\n小明走进来\n小红笑了\n")
    assert plan.cast == () and plan.steps[0].prompt == "Interior, 厨房. 小明走进来 小红笑了."


@given(st.sampled_from(sorted(READERS)), st.text(max_size=300))
def test_any_text_is_a_plan_or_refused(ending: str, text: str) -> None:
    try:
        plan = read_script(text, ending, "file")
    except SettingsError:
        return
    assert plan.steps


STEPS = {
    name: int(count)
    for count, *names in map(
        str.split,
        """
    2 excel-sep.csv final-draft.txt
    3 highland.fountain writerduet.fountain bold-headings.md mammoth.md notion.md pandoc.md table.md
    3 excel-unicode.txt excel-utf8.csv google-sheets.tsv libreoffice.csv numbers.csv storyboarder.csv
    3 utf16-no-bom.csv paragraphs.txt word.txt
    4 fade-in.fountain final-draft.fountain google-docs.md google-docs-numbers.md
    4 google-docs-two-lists.md excel-ansi.csv lines.txt notes.txt
    6 deeper-levels.md
        """.strip().splitlines(),
    )
    for name in names
}
SCRIPTS = Path(__file__).parents[2] / "data" / "scripts"
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


def _numbered(text: str) -> str:
    """Return a text with a word of its own in each place."""
    parts = text.split("{}")
    return "".join(f"{part}WORD{at}X" for at, part in enumerate(parts[:-1])) + parts[-1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_script_of_a_program_is_read(path: Path) -> None:
    plan = read_plan_file(path)
    assert len(plan.steps) == STEPS[path.name]
    if path.suffix in (".fountain", ".md") and path.name != "table.md":
        assert list(lost_lines(path.read_text("utf-8-sig").splitlines(), plan)) == []


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
