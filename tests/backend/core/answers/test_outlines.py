"""Outlines and parts of plans: every unambiguous form is parsed, and nothing is guessed."""

from __future__ import annotations

import json

import pytest

from interleave_thinker.backend.core.answers.long_plan import (
    MAX_LINE,
    MAX_NOTE,
    Outline,
    read_outline,
    read_part,
)
from interleave_thinker.backend.core.errors import AnswerError

LINES = ("A fox sets out.", "It rains.")
FORMS = {
    "texts": '{"outline": ["1. A fox sets out.", "2. It rains."], "always": "ink"}',
    "texts without numbers": '{"outline": ["A fox sets out.", "It rains."], "always": "ink"}',
    "from 0": '{"outline": ["0. A fox sets out.", "1. It rains."], "always": "ink"}',
    "step and colon": '{"outline": ["Step 1: A fox sets out.", "Step 2: It rains."], "always": "ink"}',
    "by number": '{"outline": {"1": "A fox sets out.", "2": "It rains."}, "always": "ink"}',
    "objects": (
        '{"outline": [{"step_number": 1, "line": "A fox sets out."}, '
        '{"step_number": 2, "line": "It rains."}], "always": "ink"}'
    ),
    "objects with other names": (
        "{'Outline': [{'step': '1', 'description': 'A fox sets out.'}, {'step': '2', 'description': 'It "
        "rains.'}], 'always': 'ink',}"
    ),
    "one text": '{"outline": "1. A fox sets out.\\n2. It rains.\\n", "always": "ink"}',
    "fence": '```json\n{"outline": ["A fox sets out.",\n"It   rains."], "always": "ink"}\n```',
    "thought": (
        '<think>{"outline": ["no"]}</think>{"outline": ["A fox sets out.", "It rains."], "always": "ink"}'
    ),
    "not opened": 'so...</think><answer>{"outline": ["1. A fox sets out.", "2. It rains."], "always": "ink"',
    "a number of its own": '{"outline": ["1. A fox sets out.", "2. It rains."], "Always": "ink"}',
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_an_outline_is_read_in_every_form(text: str) -> None:
    outline = read_outline(text)
    assert (outline.lines, outline.first, outline.always) == (LINES, 1, "ink")


def test_step_numbers_continue_and_notes_may_have_any_form() -> None:
    told = {"outline": ["14. a", "15. b"], "always": {"fox": ["red coat"]}}
    assert read_outline(json.dumps(told)) == Outline(("a", "b"), 14, '{"fox": ["red coat"]}')
    assert (
        read_outline('{"outline": ["3-2-1, the rocket starts", "it flies"], "always": null}').lines[0][0]
        == "3"
    )
    assert read_outline('{"outline": ["第一步"]}') == Outline(("第一步",))


NOT_READ = {
    "prose": "1. A fox sets out.",
    "cut off": '<answer>{"outline": ["1. A fox sets out.", "2. It ra',
    "cut between lines": '<answer>{"outline": ["1. A fox sets out.",',
    "numbers fall": '{"outline": ["2. a", "1. b"]}',
    "a number is missing": '{"outline": ["1. a", "3. b"]}',
    "two": '{"outline": ["a"]}\n{"outline": ["b"]}',
    "none": '{"outline": []}',
    "empty line": '{"outline": ["1. a", "2. "]}',
    "no text": '{"outline": ["a", 7]}',
    "too many": json.dumps({"outline": ["a"] * 101}),
    "a long line": json.dumps({"outline": ["a" * (MAX_LINE + 1)]}),
    "a long note": json.dumps({"outline": ["a"], "always": "a" * (MAX_NOTE + 1)}),
}


@pytest.mark.parametrize("text", NOT_READ.values(), ids=NOT_READ)
def test_an_invalid_outline_raises(text: str) -> None:
    with pytest.raises(AnswerError):
        read_outline(text)


def part(numbers: list[int], **more: object) -> str:
    steps = [{"step_number": number, "prompt": f"p{number}"} for number in numbers]
    return json.dumps({"execution_plan": steps, **more})


@pytest.mark.parametrize("state", ["It is night.", None, {"fox": "wet"}, ["wet"]])
def test_the_state_may_have_any_form_or_be_missing(state: object) -> None:
    read = read_part(part([4, 5], **({} if state is None else {"state": state})), range(4, 6))
    assert [one.number for one in read.steps] == [4, 5]
    assert read.state == (state if isinstance(state, str) else "" if state is None else json.dumps(state))


def test_a_part_has_the_requested_steps() -> None:
    assert [one.prompt for one in read_part(part([1, 2]), range(4, 6)).steps] == ["p1", "p2"]
    assert [one.number for one in read_part(part([3, 4, 5, 6]), range(4, 6)).steps] == [4, 5]
    for numbers in ([4], [5, 6], [1, 2, 3]):
        with pytest.raises(AnswerError, match=r"step [45] is missing"):
            read_part(part(numbers), range(4, 6))
