"""Critics that write fewer tokens: the verdict before the reasoning, or short reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from interleave_thinker import Critic, Picture, Reply, ReplySettings, Verdict
from interleave_thinker.backend.core.answers.reading import read_verdict, write_verdict
from interleave_thinker.backend.core.prompts.prompt_set import named_prompt_set, prompt_set_of
from interleave_thinker.backend.models.chat.verdict_watch import VerdictWatch
from interleave_thinker.cli import app
from interleave_thinker.training.from_runs.convert import JudgedImage, sft_row

VERDICTS = [
    Verdict(success=True, refined_prompt="a house"),
    Verdict(success=False, refined_prompt="a red <answer> house", reasoning="too\nblue"),
    Verdict(success=False, refined_prompt='the word "sun"', reasoning="\n framed \n"),
]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_either_order_is_written_and_read(verdict: Verdict) -> None:
    before, after = (write_verdict(verdict, verdict_first) for verdict_first in (False, True))
    assert read_verdict(before) == read_verdict(after) == verdict
    assert after.startswith("<answer>")
    assert ("<think>" in after) == bool(verdict.reasoning)


def test_the_verdict_is_known_after_the_first_words() -> None:
    text = write_verdict(Verdict(success=True, refined_prompt="a house", reasoning="all there"), True)
    watch, read = VerdictWatch(held=True), 0
    while not watch.settled:
        watch.add(text[read])
        read += 1
    assert text[:read] == '<answer>{"previous_step_success": true,'
    assert read_verdict(text[:read]).success is True


class Confused:
    """Returns a reply that cannot be parsed, then an answer; records its messages."""

    identity = "confused"
    prompt_set = named_prompt_set("verdict-first")

    def __init__(self) -> None:
        self.told: list[Any] = []

    def reply(self, messages: Any, settings: ReplySettings, on_token: Any = None) -> Reply:
        self.told.append(messages[-1].content[-1])
        return Reply(text="?" if len(self.told) == 1 else write_verdict(VERDICTS[1], True))


def test_a_critic_is_reminded_of_its_own_form() -> None:
    chat = Confused()
    verdict = Critic(chat).judge(None, Picture.white((8, 8)), "a house", "a house")
    assert verdict.success is False and verdict.reasoning == "too\nblue"
    assert chat.told[1].index("<answer>") < chat.told[1].index("<think>")


def test_the_form_is_chosen_before_training_and_used_for_data(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["prompts", "use", "verdict-first", "--to", str(tmp_path)])
    assert result.exit_code == 0, result.output
    chosen = prompt_set_of(tmp_path)
    assert chosen == named_prompt_set("verdict-first")
    fields = {name: None for name in JudgedImage.__dataclass_fields__}
    given = {
        "answer": VERDICTS[1],
        "original": "a house",
        "used": "a red house",
        "size": (8, 8),
        "after": "b" * 40,
    }
    row = sft_row(JudgedImage(**{**fields, **given, "before": "a" * 40}), chosen)  # type: ignore[arg-type]
    assert row.messages[-1].content == write_verdict(VERDICTS[1], True)
