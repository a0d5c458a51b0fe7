"""A training ends early at the user's request, and its newest checkpoint is the result."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import short_trainings
from support.cli_calls import call
from support.tiny_checkpoint import ACCEPTED, QUESTION, REFUSED, page, question

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from safetensors.torch import load_file

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.prompts.agent_card import read_card
from interleave_thinker.backend.core.prompts.prompt_set import prompt_set_of
from interleave_thinker.backend.models.chat import ReplySettings, open_chat
from interleave_thinker.cli.train import command as train_commands
from interleave_thinker.training.gate.held_out import Check
from interleave_thinker.training.rows.sft import SftMessage, SftRow, write_rows
from interleave_thinker.training.stages import grpo as checkpoint_selection
from interleave_thinker.training.trainer.ending import (
    Ending,
    StartedWith,
    in_use,
    started_with,
    two_interrupts,
)
from interleave_thinker.training.trainer.model_card import read_facts
from interleave_thinker.training.trainer.resume import claim_run, step_of
from interleave_thinker.training.trainer.run import TrainingRun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_trainings.prepare(tmp_path_factory.mktemp("ended"))


@pytest.fixture
def hears_interrupts() -> Iterator[None]:
    """Enable Ctrl-C: a shell starts background processes with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class AtStep:
    """Log that collects lines, and acts at the first line of a step."""

    def __init__(self, step: int, act) -> None:
        self.beginning, self.act = f"step {step}/", act
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if line.startswith(self.beginning) and " | " in line:
            self.act()
            self.beginning = "done"


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
    assert "ended early" in (final / "README.md").read_text()
    if stage != "sft":
        assert list(json.loads((out / "checks.json").read_text())) == ["0", "2"], "it was checked"
    again = AtStep(0, None)
    assert short_trainings.STAGES[stage](folder, out, again, **changes) == final
    assert again.lines == ["this training is finished"]
    # The checkpoint opens as an agent wherever it is: with its prompts, job and image size.
    step = tmp_path / "elsewhere"
    shutil.copytree(out / "steps" / "checkpoint-2", step)
    assert prompt_set_of(step) == prompt_set_of(final) is not None
    assert read_card(step / "agent.json") == read_card(final / "agent.json")
    chat = open_chat(f"transformers:{step}", device="cpu", share=False)
    assert chat.reply(question(0, 255), ReplySettings(max_tokens=2)).tokens > 0


def test_a_checkpoint_that_fails_its_check_is_not_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AtStep(2, Ending(tmp_path / "run").ask)
    found = iter([None, None, "it fell"])
    monkeypatch.setattr(Check, "low", lambda self, floor, first: next(found))
    with pytest.raises(TrainingError, match="Training stopped: it fell"):
        short_trainings.grpo(folder, tmp_path / "run", log)
    facts = read_facts(tmp_path / "run" / "final")
    assert facts is not None and facts.steps == 2 and facts.stopped == "it fell"


def run_until(step: int, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> list[str]:
    """Run a training command that is interrupted at a step; returns its lines."""

    def stop() -> None:
        raise KeyboardInterrupt

    log = AtStep(step, stop)
    monkeypatch.setattr(train_commands, "log", log)
    said = call(*arguments)
    assert said.exit_code == 130, said.output
    monkeypatch.undo()
    return log.lines


def critic_rows(folder: Path, count: int, shift: int) -> Path:
    rows = []
    for number in range(count):
        grey = (200 if number % 2 else 30) + number + shift
        page(grey).image.save(folder / f"{grey}.png")
        answer = ACCEPTED if number % 2 else REFUSED
        asked = SftMessage(role="user", content=f"<image>{QUESTION}")
        rows.append(
            SftRow(messages=[asked, SftMessage(role="assistant", content=answer)], images=[f"{grey}.png"])
        )
    path = folder / f"rows{shift}.json"
    write_rows(path, rows)
    return path


def test_a_training_that_does_not_run_is_finished_at_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    critic_rows(tmp_path, 16, 0), critic_rows(tmp_path, 38, 1)
    monkeypatch.chdir(tmp_path)
    options = [
        *("--model", folder / "base", "--data", "rows0.json", "--held-out", "rows1.json", "--out", "run"),
        *("--per-device-train-batch-size", 4, "--num-train-epochs", 1, "--set", "save_steps=2"),
        *(
            "--set",
            "device=cpu",
            "--set",
            "tensorboard=false",
            "--set",
            "gate_tokens=16",
            "--set",
            "gate_items=0",
            "--force",
        ),
    ]
    run_until(3, monkeypatch, "train", "critic-sft", *options)
    monkeypatch.chdir(tmp_path.parent)
    assert not (tmp_path / "run" / "trained").exists()
    (tmp_path / "rows0.json").rename(tmp_path / "moved.json")
    failed = call("train", "finish", tmp_path / "run")
    assert failed.exit_code != 0 and not (tmp_path / "run" / "finish.json").exists(), "no request waits"
    (tmp_path / "moved.json").rename(tmp_path / "rows0.json")
    said = call("train", "finish", tmp_path / "run")
    assert said.exit_code == 0, said.output
    assert "step 3/4" not in said.output and "| images accepted |" in said.output
    final = tmp_path / "run" / "final"
    card = (final / "README.md").read_text()
    assert "after step 2 of 4" in card and "NOT passed" in card
    saved, newest = (
        load_file(path / "model.safetensors") for path in (final, tmp_path / "run/steps/checkpoint-2")
    )
    assert all((saved[name] == newest[name]).all() for name in newest)
    said = call("train", "finish", tmp_path / "run")
    assert said.exit_code == 0 and f"checkpoint: {final}" in said.output


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT on Windows")
def test_two_interrupts_end_a_training_and_keep_its_result(folder: Path, tmp_path: Path) -> None:
    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    log = AtStep(1, press)
    final = short_trainings.sft(folder, tmp_path / "run", log, save_steps=99)
    facts = read_facts(final)
    assert facts is not None and facts.steps == 2
    assert any("press Ctrl-C again" in line for line in log.lines)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill sends no SIGINT on Windows")
def test_one_interrupt_stops_after_a_while_and_a_third_at_once() -> None:
    ended: list[int] = []

    def press() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), two_interrupts(lambda: ended.append(1), lambda line: None, 0.05):
        press()
        time.sleep(20)
    assert not ended
    with pytest.raises(KeyboardInterrupt), two_interrupts(lambda: ended.append(1), lambda line: None, 20):
        press()
        press()
        assert ended == [1]
        press()
    with pytest.raises(KeyboardInterrupt), two_interrupts(lambda: ended.append(1), lambda line: None, 20):
        press()  # the block ends before the time is over
    assert ended == [1]
    with two_interrupts(lambda: ended.append(1), lambda line: None):
        child = os.fork()
        if child == 0:
            press()  # a worker that loads images
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_what_cannot_be_finished_says_why(folder: Path, tmp_path: Path) -> None:
    refused = call("train", "finish", tmp_path)
    assert refused.exit_code == 1 and "does not contain a training" in refused.stderr
    (tmp_path / "training.json").write_text("{}")
    refused = call("train", "finish", tmp_path)
    assert refused.exit_code == 1 and "nothing to keep yet" in refused.stderr
    assert not (tmp_path / "finish.json").exists()
    with (
        in_use(tmp_path),
        pytest.raises(TrainingError, match="Another process is training"),
        in_use(tmp_path),
    ):
        pass


def test_a_stage_of_a_finished_own_critic_is_finished(tmp_path: Path) -> None:
    stage = tmp_path / "own" / "sft"
    (stage / "steps" / "checkpoint-2").mkdir(parents=True)
    (stage / "training.json").write_text("{}")
    (tmp_path / "own" / "final").mkdir()
    started = StartedWith(command=["own-critic"], folder=str(tmp_path), inode=stage.stat().st_ino)
    (stage / "command.json").write_text(started.model_dump_json())
    before = {path for path in tmp_path.rglob("*") if path.name != "in-use.lock"}
    said = call("train", "finish", stage)
    assert said.exit_code == 0 and "this training is finished" in said.output, said.output
    assert {path for path in tmp_path.rglob("*") if path.name != "in-use.lock"} == before


def test_the_command_of_a_copied_folder_runs_only_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, program = tmp_path / "run", tmp_path / "program.py"
    monkeypatch.setattr("interleave_thinker.training.trainer.resume.newest_checkpoint", lambda steps: steps)
    token = started_with.set(("merge", "--set", f"converter={program}", "--model", "nowhere"))
    with in_use(out):
        (out / "training.json").write_text("{}")
    started_with.reset(token)
    own = call("train", "finish", out)
    assert f"train merge --set converter={program}" in own.output, "it says what it runs"
    assert "Cannot find the checkpoint folder 'nowhere'" in own.stderr
    copy = shutil.copytree(out, tmp_path / "copy")
    refused = call("train", "finish", copy)
    assert refused.exit_code == 1 and "--trust-command" in refused.stderr
    assert str(program) in "".join(refused.stderr.split()) and "nowhere'" not in refused.stderr
    assert not (copy / "finish.json").exists()
    trusted = call("train", "finish", copy, "--trust-command")
    assert "Cannot find the checkpoint folder 'nowhere'" in trusted.stderr
    (copy / "command.json").write_text('{"command": [], "folder": "."}')
    refused = call("train", "finish", copy, "--trust-command")
    assert refused.exit_code == 1 and "is not known" in refused.stderr


def test_a_request_counts_for_all_processes_or_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_selection, "newest_checkpoint", lambda steps: steps / "checkpoint-2")
    ending = Ending(tmp_path)
    monitor: Any = SimpleNamespace(ending=ending)
    ending.ask()
    monkeypatch.setenv("RANK", "1")
    assert not ending.due(2), "the first process has not seen it"
    assert checkpoint_selection.CheckpointSelection(tmp_path, monitor, 4, print).finished is None
    ending.agree = lambda problem: "asked"
    assert ending.due(2)
    assert checkpoint_selection.CheckpointSelection(tmp_path, monitor, 4, print).finished is not None


def test_a_request_without_a_checkpoint_does_not_change_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")

    class Run(TrainingRun):
        out, log = tmp_path, staticmethod(print)

        def description(self) -> dict[str, Any]:
            return {"stage": "sft"}

        def prepared(self) -> Any: ...

        def run(self) -> Path:
            assert not self.ending.asked, "there is nothing to keep, so it trains"
            (self.out / "steps" / "checkpoint-2").mkdir(parents=True, exist_ok=True)
            raise KeyboardInterrupt

    Ending(tmp_path).ask()
    for _ in range(2):  # it is resumed with the same devices
        with pytest.raises(KeyboardInterrupt):
            Run().carry_out()
    assert json.loads((tmp_path / "training.json").read_text())["devices"] == 8


def test_a_training_of_several_devices_is_finished_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    claim_run(tmp_path, {"learning_rate": 1.0})
    monkeypatch.delenv("WORLD_SIZE")
    claim_run(tmp_path, {"learning_rate": 1.0}, only_saved=True)
    with pytest.raises(TrainingError, match="learning_rate"):
        claim_run(tmp_path, {"learning_rate": 2.0}, only_saved=True)
