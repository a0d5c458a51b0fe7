"""`interleave-thinker parity` on a small made checkout: it agrees, and every planted difference is found."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from support.cli_calls import call
from support.made_checkout import made_checkout

from interleave_thinker.evaluation.benchmarks.base.processes import EvaluatorError
from interleave_thinker.evaluation.parity.cases import make_cases
from interleave_thinker.evaluation.parity.official import compare_checkout

DEMO, RUNNER = "SingleSampleGenerator of demo_klein.py", "IterativeImageGenerator of UEval/ueval_klein.py"


def test_equal_code_has_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    checkout = made_checkout(
        tmp_path / "made",
        ("import json, os, re", "import json, os, re; assert 'OPENAI_API_KEY' not in os.environ"),
    )
    result = call("parity", checkout)
    assert result.exit_code == 0, result.output
    demo, runner = result.output.split(RUNNER)
    rows = {title.strip(): cells.split() for title, cells in _rows(demo)}
    assert rows["Requests to the critic"] == ["3", "6", "9", "6", "6"]
    assert rows["Images to the planner"] == ["0", "0", "0", "1", "2"]
    assert {title.strip(): cells.split() for title, cells in _rows(runner)} == {
        **{title: cells[:3] for title, cells in rows.items()},
        "Requests to the critic": ["3", "5", "6"],
        "Images to the critic": ["6", "10", "12"],
        "Texts": ["1", "1", "1"],
    }
    assert "a line break before the text of 30 requests" in demo and "Not counted" not in runner
    assert "not the known published one" in demo and "No difference." in runner


def _rows(table: str) -> list[tuple[str, str]]:
    lines = [line for line in table.splitlines() if line[:2] == "  " and line.rstrip()[-1:].isdigit()]
    return [(line[:30], line[30:]) for line in lines]


ASK, PLAN = "Requests to the critic", "Requests to the planner"
SEEN, SEEDS = "Images to the critic", "Attempts that share a seed"


@pytest.mark.parametrize(
    ("old", "new", "where", "row"),
    [
        ("ATTEMPTS = 3", "ATTEMPTS = 2", DEMO, ASK),
        ("judges_last=False", "judges_last=True", RUNNER, ASK),
        ('lead="\\n"', 'lead="\\n\\n"', DEMO, ASK),
        ('"{text_input}", request)', '"{text_input}", request[1:])', DEMO, PLAN),
        ("image_part(before), image_part(path)", "image_part(path), image_part(before)", DEMO, SEEN),
        ('prompt = verdict["refine_prompt"]', 'prompt = step["prompt"]', DEMO, ASK),
        ("source = path\n", "source = source or path\n", DEMO, SEEN),
        ("1000 * index,", "1000 * index + attempt,", DEMO, SEEDS),
        ("1000 * index,", "1000,", DEMO, SEEDS),
        ('"".join(text', '" ".join(text', RUNNER, "Texts"),
        ('step["auxiliary_text"] or ', "", DEMO, "Texts"),
        ("[image for _, image in told],", "[image for _, image in told][:2],", RUNNER, "Final images"),
    ],
)
def test_a_difference_is_found_and_named(tmp_path: Path, old: str, new: str, where: str, row: str) -> None:
    mixed = make_cases()[1]
    _, found = compare_checkout(made_checkout(tmp_path / "made", (old, new)), [mixed])
    first = next(one.first for one in found if one.first)
    assert first.place.startswith(f"{where}, case 'mixed', {row.lower()}, number ")
    assert first.theirs != first.ours
    (cell,) = next(one for one in found if one.first).rows[row]
    assert cell.endswith("differ")


def test_the_command_shows_the_first_difference_with_both_texts(tmp_path: Path) -> None:
    checkout = made_checkout(tmp_path / "made", ("text = lead + text", 'text = lead + "So: " + text'))
    result = call("parity", checkout)
    assert result.exit_code == 3 and "No difference" not in result.output
    place, published, ours = (line.strip() for line in result.output.splitlines()[-3:])
    assert place == f"First difference: {DEMO}, case 'accepted', requests to the critic, number 1."
    assert published.startswith("published: '[user] <image><image>") and "So: Goal: Add a red" in published
    assert ours.startswith("ours:") and "<image><image>Goal: Add a red fox" in ours
    assert "3 of 3 differ" in result.output


def test_the_prompt_set_is_the_one_of_the_checkout(tmp_path: Path) -> None:
    prompts, found = compare_checkout(
        made_checkout(tmp_path / "made", ("Goal: {original", "Aim: {original")), make_cases()[:1]
    )
    assert "Aim: " in prompts.critic and [one.first for one in found] == [None, None]


def test_a_folder_without_the_code_is_refused(tmp_path: Path) -> None:
    result = call("parity", tmp_path)
    assert result.exit_code == 2 and "does not contain demo_klein.py" in result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class SingleSampleGenerator", "class Other", "exited with status 1: AttributeError"),
        ("height=1024", "height=512", "exited with status 1"),
        ("import json, os, re", "import json, os, re, nothing_there", "No module named 'nothing_there'"),
    ],
)
def test_code_that_fails_is_an_error_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(EvaluatorError, match="The published code") as caught:
        compare_checkout(made_checkout(tmp_path / "made", (old, new)), make_cases()[:1])
    assert message in str(caught.value)
    log = Path(str(caught.value).split("Read its output in ")[1].strip().rstrip("."))
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_a_class_that_prints_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    endless = ("import json, os, re", "import json, os, re\nwhile True: print('x' * 65536)")
    with pytest.raises(EvaluatorError, match="printed more than 64 MB"):
        compare_checkout(made_checkout(tmp_path / "made", endless), make_cases()[:1])
