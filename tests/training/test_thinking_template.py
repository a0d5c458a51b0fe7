"""A checkpoint whose chat template opens <think> in its prompts is read like any other.

This is tested in checks and gates, and in rewards.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import small_grpo

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set, prompt_set_of
from interleave_thinker.backend.core.seams.chat_model import Reply
from interleave_thinker.backend.models.chat.chat_template import as_read, opens_thought
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.gate.held_out import greedy_answers, summarise
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.trainer.model_loading import load_processor

OPENED = "<|im_start|>assistant\n<think>"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_grpo.make_data(tmp_path_factory.mktemp("rl"), 6, 6)


@pytest.fixture(scope="module")
def thinking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny critic, which begins every answer with <think>, with a template that opens it."""
    folder = tmp_path_factory.mktemp("thinking") / "critic"
    shutil.copytree(checkpoint("critic"), folder)
    template = folder / "chat_template.jinja"
    text = template.read_text()
    assert text.count("<|im_start|>assistant\n") == 1
    template.write_text(text.replace("<|im_start|>assistant\n", OPENED))
    return folder


def test_one_rule_finds_the_open_thinking_tag_of_a_prompt() -> None:
    assert (
        opens_thought(OPENED) and opens_thought(f"{OPENED}\n") and not opens_thought(f"{OPENED}\n</think>\n")
    )
    assert (
        as_read(OPENED, "a</think>b") == Reply(text="a</think>b", thinking=True).whole == "<think>a</think>b"
    )
    assert as_read("<|im_start|>assistant\n", "b") == "b"


def test_checks_read_the_same_answers(rows: Path, thinking: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    some = read_rl_rows(rows)[0]
    prompt_set = prompt_set_of(thinking) or default_prompt_set()
    questions = [row.question(rows.parent, tmp_path / "shown", prompt_set) for row in some]
    model = AutoModelForImageTextToText.from_pretrained(thinking)
    checks = []
    for folder in (checkpoint("critic"), thinking):
        answers, tokens = greedy_answers(model, load_processor(folder), questions, 120, 12)
        assert all(answer.startswith("<think>") for answer in answers)
        checks.append(summarise(some, answers, tokens, prompt_set.verdict_first))
    assert checks[1].format == checks[0].format > 0.8 and checks[1].accuracy == checks[0].accuracy > 0.7


def test_rewards_read_the_same_answers(rows: Path, thinking: Path, tmp_path: Path) -> None:
    changes = {
        "rollouts": 1,
        "updates": 1,
        "num_generations": 2,
        "max_completion_length": 120,
        "temperature": 0.1,
    }
    small_grpo.run(rows, tmp_path, small_grpo.SMALL.model_copy(update=changes), model=thinking)
    lines = (tmp_path / "rollouts" / "step_000000.jsonl").read_text().splitlines()
    answers = [json.loads(line)["answer"] for line in lines]
    assert answers and all(answer.startswith("<think>") and "</think>" in answer for answer in answers)
    log = json.loads((tmp_path / "steps" / "checkpoint-1" / "trainer_state.json").read_text())["log_history"]
    assert log[0]["reward/format"] > 0.7
