"""Preference training of the tiny critic.

Images reach the model, a killed training resumes to the same weights, sampled pairs become a checkpoint, and
the monitor stops a collapse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small_grpo import make_data, weights

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.answers.reading import write_verdict
from interleave_thinker.backend.errors import SettingsError, TrainingError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import prompt_set_of
from interleave_thinker.backend.types import Verdict
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.preference import CriticPair, read_critic_pairs, write_pairs
from interleave_thinker.training.data.rows.rl import as_question, read_rl_rows
from interleave_thinker.training.dpo.settings import DpoTraining, split_pairs
from interleave_thinker.training.dpo.task import CriticPairs
from interleave_thinker.training.dpo.train import train
from interleave_thinker.training.gate.monitored_run import TrainingData

SMALL = DpoTraining(
    learning_rate=1e-4,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=1,
    max_steps=4,
    save_steps=2,
    check_rows=4,
    check_batch=4,
    max_completion_length=100,
    collapse_threshold=0.0,
    freeze_vision=False,
    tensorboard=False,
    device="cpu",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs about rendered images: the right verdict against the wrong one, with the same reasoning."""
    folder = tmp_path_factory.mktemp("pairs")
    rows, _ = read_rl_rows(make_data(folder))
    prompt_set = prompt_set_of(checkpoint("critic"))
    assert prompt_set is not None
    pairs = []
    for row in rows:
        asked = as_question(row, folder, folder / "shown", prompt_set)
        parts = asked["prompt"][0]["content"]
        text = "".join("<image>" if part["type"] == "image" else part["text"] for part in parts)
        truth = row.evaluation.success
        said = {
            verdict: write_verdict(
                Verdict(success=verdict, refined_prompt=row.prompt_used, reasoning="I looked.")
            )
            for verdict in (True, False)
        }
        names = [str(Path(path).relative_to(folder.resolve())) for path in asked["images"]]
        pairs.append(
            CriticPair.model_validate(
                {
                    "messages": [{"role": "user", "content": text}],
                    "images": names,
                    "chosen": said[truth],
                    "rejected": said[not truth],
                    "truth": truth,
                }
            )
        )
    write_pairs(folder / "critic_pairs.jsonl", pairs)
    return folder / "critic_pairs.jsonl"


def run(data: Path, out: Path, log: Callable[[str], None] = lambda line: None, **changes: Any) -> Path:
    settings = SMALL.model_copy(update=changes)
    rows, held = split_pairs(read_critic_pairs(data)[0], settings.check_rows)
    return train(
        checkpoint("critic"), TrainingData(rows, held, data.parent), out, settings, CriticPairs(), log
    )


class Killed(BaseException):
    """Represents a killed process: the exception is not caught."""


def test_a_killed_training_resumes_to_the_same_critic(data: Path, tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    lines: list[str] = []
    final = run(data, straight, lines.append)

    def killer(line: str) -> None:
        if line.startswith("step 3/"):
            raise Killed

    with pytest.raises(Killed):
        run(data, killed, killer)
    again = (run(data, killed) / "model.safetensors").read_bytes()
    assert again == (final / "model.safetensors").read_bytes()
    assert again != (checkpoint("critic") / "model.safetensors").read_bytes()
    assert (killed / "checks.json").read_text() == (straight / "checks.json").read_text()
    assert sorted(map(int, json.loads((straight / "checks.json").read_text()))) == [0, 2, 4]
    assert (final / "prompt_set").is_dir()
    told = [line for line in lines if "held-out pairs:" in line]
    assert len(told) == 2 and all("accuracy" in line and "margin" in line for line in told)
    (live,) = [line for line in lines if line.startswith("step 1/4")]
    assert all(part in live for part in ("loss", "accuracy", "margin", "chosen", "rejected", "left"))
    assert any("tokens" in line and "of images" in line for line in lines)
    page = (straight / "report.html").read_text()
    assert "Reward margin of the pairs" in page and "truth: " in page and "pairs held out" in page
    with pytest.raises(TrainingError, match="different beta"):
        run(data, straight, beta=0.2)


def test_the_loss_falls_and_an_adapter_needs_no_second_model(data: Path, tmp_path: Path) -> None:
    adapter = run(
        data,
        tmp_path,
        lora_r=4,
        learning_rate=5e-3,
        num_train_epochs=3.0,
        max_steps=6,
        save_steps=6,
        warmup_steps=0.0,
    )
    assert weights(adapter, "adapter_model.safetensors")
    state = json.loads((tmp_path / "steps" / "checkpoint-6" / "trainer_state.json").read_text())
    losses = [entry["loss"] for entry in state["log_history"] if "loss" in entry]
    assert losses[0] == pytest.approx(0.6931, abs=1e-3), "an adapter that is nothing yet is its own reference"
    assert losses[-1] < 0.6


def test_the_images_of_a_pair_reach_the_model(data: Path, tmp_path: Path) -> None:
    """The same pairs with other images have another loss; without images it would be the same."""

    def first_loss(path: Path, out: Path) -> list[float]:
        run(path, out, max_steps=2, save_steps=2, warmup_steps=0.0)
        state = json.loads((out / "steps" / "checkpoint-2" / "trainer_state.json").read_text())
        return [entry["logps/chosen"] for entry in state["log_history"] if "logps/chosen" in entry]

    other = tmp_path / "other"
    rows, _ = read_critic_pairs(data)
    for name in {name for row in rows for name in row.images}:
        picture = Picture.open(data.parent / name)
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        Picture.white(picture.size).image.point(lambda value: value // 3).save(other / name)
    write_pairs(other / "critic_pairs.jsonl", rows)
    seen, blind = first_loss(data, tmp_path / "a"), first_loss(other / "critic_pairs.jsonl", tmp_path / "b")
    assert seen[0] != pytest.approx(blind[0], rel=1e-3)


def test_a_collapsing_critic_stops_training_and_the_last_good_one_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from interleave_thinker.training.dpo import task

    tokens, found = [50.0, 60.0, 150.0], task.critic_pair_check

    def longer(*arguments: Any) -> Any:
        return found(*arguments).model_copy(update={"tokens": tokens.pop(0)})

    monkeypatch.setattr(task, "critic_pair_check", longer)
    with pytest.raises(TrainingError, match=r"150 tokens, from 50.*last good"):
        run(data, tmp_path)
    assert (tmp_path / "final" / "prompt_set").is_dir()
    with pytest.raises(TrainingError, match="last good"):
        run(data, tmp_path)


def test_no_image_of_a_check_is_trained_on(data: Path) -> None:
    rows, _ = read_critic_pairs(data)
    trained, held = split_pairs([*rows, *rows], 4)
    assert {row.images[-1] for row in trained}.isdisjoint(row.images[-1] for row in held)
    assert 0 < len(held) <= 4
    with pytest.raises(SettingsError, match="too few"):
        split_pairs(rows[:3], 4)


def test_one_command_trains_from_a_recipe(data: Path, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from interleave_thinker.cli.train.command import app

    out = tmp_path / "run"
    given = [
        "critic-dpo",
        "--config",
        "tiny",
        "--max-steps",
        "1",
        "--per-device-train-batch-size",
        "2",
        "--collapse-threshold",
        "0",
    ]
    given += ["--max-completion-length", "40", "--data", str(data), "--out", str(out)]
    refused = CliRunner().invoke(app, [*given, "--held-out", str(data)])
    assert isinstance(refused.exception, SettingsError) and "none is left" in str(refused.exception)
    result = CliRunner().invoke(app, [*given, "--check-rows", "2"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.output.splitlines()[-1] == f"checkpoint: {out / 'final'}"
