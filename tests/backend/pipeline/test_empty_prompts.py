"""A step with an instruction and an empty prompt is an error wherever a plan comes in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker.backend.core.answers.long_plan import read_part
from interleave_thinker.backend.core.answers.reading import read_plan
from interleave_thinker.backend.core.errors import InterleaveError
from interleave_thinker.backend.pipeline.plan_file import read_plan_file

STEP = {
    "step_number": 1,
    "step_name": "Lamp",
    "instruction": "Add a lamp.",
    "prompt": "",
    "auxiliary_text": "A!",
}
OWN = {"number": 1, "name": "Lamp", "instruction": "Add a lamp.", "prompt": "", "auxiliary_text": "A!"}
FILES: dict[str, tuple[str, Any]] = {
    "an answer": ("plan.json", {"execution_plan": [STEP]}),
    "an answer with a thought": (
        "a.txt",
        f"<think>a</think><answer>{json.dumps({'execution_plan': [STEP]})}</answer>",
    ),
    "a plan of Edit Plan": ("a.json", {"execution_plan": [STEP | {"locked": True}]}),
    "an outline": ("a.txt", "1. Lamp\n   do: Add a lamp.\n   draw:\n   text: A!"),
    "a run's plan": ("plan.json", {"steps": [OWN]}),
    "a record": (
        "execution_record.json",
        {"user_input": "a lamp", "global_context": {"execution_plan": [STEP]}, "steps": []},
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_with_an_instruction_and_an_empty_prompt_is_an_error(kind: str, tmp_path: Path) -> None:
    name, content = FILES[kind]
    (tmp_path / name).write_text(
        content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
    )
    with pytest.raises(InterleaveError, match="has an instruction and an empty prompt"):
        read_plan_file(tmp_path / name)


@pytest.mark.parametrize("prompt", ["", "  ", "\n"])
@pytest.mark.parametrize("text", ["A!", None])
def test_a_planner_is_asked_again_for_an_empty_prompt(prompt: str, text: str | None) -> None:
    reply = json.dumps({"execution_plan": [STEP | {"prompt": prompt, "auxiliary_text": text}]})
    for read in (read_plan, lambda reply: read_part(reply, range(1, 2))):
        with pytest.raises(InterleaveError, match="empty prompt"):
            read(reply)


def test_a_null_prompt_and_a_caption_without_an_instruction_are_text_only() -> None:
    for change in ({"prompt": None}, {"instruction": None}):
        (step,) = read_plan(json.dumps({"execution_plan": [STEP | change]})).steps
        assert not step.prompt and step.auxiliary_text == "A!"
