"""Comparison of a GGUF model with its checkpoint: questions, equal and different answers, the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli_calls import verdict_reply
from support.fake_llama_server import requests_of, write_agent, write_program

from interleave_thinker.backend.answers.reading import read_verdict, write_plan
from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.backend.prompts.agent_card import AgentCard
from interleave_thinker.backend.prompts.trained_with import TrainedWith, trained_with
from interleave_thinker.tinyworld.lab.data.critic_rows import make_rendered
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.sft import write_rows
from interleave_thinker.training.gguf.comparison import COMPARISON, as_lines, compare, prepare_questions
from interleave_thinker.training.gguf.settings import GgufSettings

ROWS = 4


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the tiny world, which its critic answers."""
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder / "critic_sft.json", make_rendered(folder, 0, 30, seed=3))
    return folder / "critic_sft.json"


def test_equal_and_different_answers_are_counted(tmp_path: Path, data: Path) -> None:
    """The GGUF model accepts every image; the checkpoint does not."""
    critic = checkpoint("critic")
    program = write_program(tmp_path, text=verdict_reply(True))
    settings = GgufSettings(
        compare_rows=ROWS, compare_data=str(data), compare_tokens=320, llama_server=str(program)
    )
    questions = prepare_questions(trained_with(critic), settings)
    model = write_agent(tmp_path / "agent")
    lines: list[str] = []
    (result,) = compare(critic, [model], questions, settings, lines.append)
    accepted = [read_verdict(row.safetensors).success for row in result.rows]
    assert set(accepted) == {True, False}
    assert [row.same_meaning for row in result.rows] == accepted
    assert not any(row.same_text for row in result.rows)
    table = "\n".join(as_lines([result]))
    assert f"| tiny-Q8_0.gguf | 0.0 | {accepted.count(True)} of {ROWS} (0." in table
    assert f"| 0 of {ROWS} | 0, 0 |" in table
    assert "WARNING: not every verdict is the same" in table and "cannot answer most" not in table
    stored = json.loads((model.parent / COMPARISON).read_text())
    assert [row["gguf"] for row in stored[0]["rows"]] == [verdict_reply(True)] * ROWS
    # Both images of each row were shown, and nothing was sampled.
    asked = requests_of(program)
    images = [part for part in asked[0]["messages"][0]["content"] if part["type"] == "image_url"]
    assert len(asked) == ROWS and len(images) == 2 and asked[0]["temperature"] == 0


def test_an_unreadable_answer_is_never_equal(tmp_path: Path, data: Path) -> None:
    critic = checkpoint("critic")
    program = write_program(tmp_path, text="I cannot say.")
    settings = GgufSettings(
        compare_rows=2, compare_data=str(data), compare_tokens=16, llama_server=str(program)
    )
    questions = prepare_questions(trained_with(critic), settings)
    (result,) = compare(critic, [write_agent(tmp_path / "agent")], questions, settings, lambda line: None)
    assert result.equal == 0 and "| 0 of 2 | 2, 2 |" in as_lines([result])[2]
    assert "cannot answer most of these questions" in "\n".join(as_lines([result]))


def test_without_data_a_critic_is_asked_about_generated_images() -> None:
    """The questions are in the words that it was trained with, and its image size applies."""
    prompts = trained_with(checkpoint("critic")).prompt_set
    record = TrainedWith("mine", prompts, image_pixels=4096, card=AgentCard(role="critic"))
    questions = prepare_questions(record, GgufSettings(compare_rows=6))
    assert len(questions.asked) == 6 and questions.settings.max_pixels == 4096
    texts = [part for part in questions.asked[0][0].content if isinstance(part, str)]
    assert prompts is not None and texts[0].startswith(prompts.critic.partition("<image>")[0])
    shown = {str(question[0].content) for question in questions.asked}
    assert len(shown) == 6


def test_a_planner_needs_questions_and_gets_those_of_its_rows(tmp_path: Path) -> None:
    record = TrainedWith("mine", card=AgentCard(role="planner"))
    with pytest.raises(SettingsError, match="--compare-data"):
        prepare_questions(record, GgufSettings())
    from support.small_agents import STORY

    turns = [{"role": "user", "content": "A story."}, {"role": "assistant", "content": write_plan(STORY)}]
    path = tmp_path / "planner_sft.json"
    path.write_text(json.dumps([{"messages": turns}] * 3))
    questions = prepare_questions(record, GgufSettings(compare_rows=2, compare_data=str(path)))
    assert [question[0].content for question in questions.asked] == [("A story.",)] * 2
    with pytest.raises(SettingsError, match="planner-sft"):
        critic = TrainedWith("mine", card=AgentCard(role="critic"))
        prepare_questions(critic, GgufSettings(compare_data=str(path)))
