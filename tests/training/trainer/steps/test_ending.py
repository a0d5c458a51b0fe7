"""A training ends early at the user's request, and its newest checkpoint is the result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import short_trainings
from support.cli_calls import call
from support.short_trainings import AtStep, Killed, die, moved
from support.tiny_checkpoint import question

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.prompts.agent_card import read_card
from interleave_thinker.backend.core.prompts.prompt_set import prompt_set_of
from interleave_thinker.backend.models.chat import ReplySettings, open_chat
from interleave_thinker.training.stages import grpo
from interleave_thinker.training.trainer.ending import Ending, in_use
from interleave_thinker.training.trainer.model_card import read_facts
from interleave_thinker.training.trainer.resume import claim_run, step_of
from interleave_thinker.training.trainer.run import TrainingRun


@pytest.mark.parametrize("stage", short_trainings.STAGES)
def test_another_process_ends_a_running_training(stage: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def finish() -> None:
        said = call("train", "finish", out)
        assert said.exit_code == 0 and "ends after its current step" in said.output, said.output

    log = AtStep(1, finish)
    changes = {"save_every": 9, "updates": 2} if stage == "critic-grpo" else {"save_steps": 99}
    final = short_trainings.STAGES[stage](folder, out, log, **changes)
    assert final == out / "final"
    steps = sorted(step_of(path) for path in (out / "steps").glob("checkpoint-*"))
    assert steps == [2], "after the step that follows; GRPO after a whole rollout"
    assert any("ending after step 2" in line for line in log.lines)
    facts = read_facts(final)
    assert facts is not None and facts.steps == 2
    assert "ended early at the user's request, after step 2 of 4" in facts.notes
    if stage != "sft":
        assert list(json.loads((out / "checks.json").read_text())) == ["0", "2"], "it was checked"
    # The checkpoint opens as an agent wherever it is: with its prompts, job and image size.
    step = tmp_path / "elsewhere"
    shutil.copytree(out / "steps" / "checkpoint-2", step)
    assert prompt_set_of(step) == prompt_set_of(final) is not None
    assert read_card(step / "agent.json") == read_card(final / "agent.json")
    chat = open_chat(f"transformers:{step}", device="cpu", share=False)
    assert chat.reply(question(0, 255), ReplySettings(max_tokens=2)).tokens > 0


def test_a_training_that_does_not_run_is_finished_by_its_command(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        short_trainings.sft(folder, out, AtStep(3, die))
    said = call("train", "finish", out)
    assert said.exit_code == 0 and "run the training's command again" in said.output, said.output
    lines: list[str] = []
    final = short_trainings.sft(folder, out, lines.append)
    assert not any(line.startswith("step ") for line in lines)
    assert "after step 2 of 4" in (final / "README.md").read_text()
    assert not moved(final, out / "steps" / "checkpoint-2")
    said = call("train", "finish", out)
    assert said.exit_code == 0 and f"checkpoint: {final}" in said.output


def test_what_cannot_be_finished_says_why(tmp_path: Path) -> None:
    refused = call("train", "finish", tmp_path)
    assert refused.exit_code == 1 and "does not contain a training" in refused.stderr
    (tmp_path / "training.json").write_text("{}")
    refused = call("train", "finish", tmp_path)
    assert refused.exit_code == 1 and "nothing to keep yet" in refused.stderr
    assert not (tmp_path / "finish.json").exists()
    busy = pytest.raises(TrainingError, match="Another process is training")
    with in_use(tmp_path), busy, in_use(tmp_path):
        pass


def test_a_stage_of_a_finished_own_critic_is_finished(tmp_path: Path) -> None:
    stage = tmp_path / "own" / "sft"
    stage.mkdir(parents=True)
    (stage / "training.json").write_text("{}")
    (tmp_path / "own" / "final").mkdir()
    for place in (stage, tmp_path / "own"):
        said = call("train", "finish", place)
        assert said.exit_code == 0 and "this training is finished" in said.output, said.output
    assert not (stage / "finish.json").exists()


def test_a_request_counts_for_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo, "newest_checkpoint", lambda steps: steps / "checkpoint-2")
    ending = Ending(tmp_path)
    monitor: Any = SimpleNamespace(ending=ending)
    ending.ask()
    monkeypatch.setenv("RANK", "1")
    assert not ending.due(2), "the first process has not seen it"
    assert grpo.CheckpointSelection(tmp_path, monitor, 4, print).finished is None
    ending.agree = lambda problem: "asked"
    assert ending.due(2)
    assert grpo.CheckpointSelection(tmp_path, monitor, 4, print).finished is not None


def test_a_request_needs_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")

    class Run(TrainingRun):
        out, log = tmp_path, staticmethod(print)

        def description(self) -> dict[str, Any]:
            return {"stage": "sft"}

        def prepared(self) -> Any: ...

        def run(self) -> Path:
            assert not self.ending.asked, "there is nothing to keep, so it trains"
            (self.out / "steps" / "checkpoint-2").mkdir(parents=True, exist_ok=True)
            raise Killed

    Ending(tmp_path).ask()
    for _ in range(2):  # it is resumed with the same devices
        with pytest.raises(Killed):
            Run().carry_out()
    assert json.loads((tmp_path / "training.json").read_text())["devices"] == 8


def test_one_device_finishes_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    claim_run(tmp_path, {"learning_rate": 1.0})
    monkeypatch.delenv("WORLD_SIZE")
    claim_run(tmp_path, {"learning_rate": 1.0}, only_saved=True)
    with pytest.raises(TrainingError, match="learning_rate"):
        claim_run(tmp_path, {"learning_rate": 2.0}, only_saved=True)
