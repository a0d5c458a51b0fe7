"""Which checkpoints count as complete, in all forms that trainers write, and whose training a folder is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.training.trainer.resume import (
    claim_run,
    given_back_on_failure,
    is_whole,
    newest_checkpoint,
)


def checkpoint(folder: Path, optimizer: str) -> Path:
    folder.mkdir(parents=True)
    save_file({"weight": torch.zeros(4)}, folder / "model.safetensors")
    for name in (optimizer, "scheduler.pt", "rng_state_0.pth"):
        torch.save({"state": torch.zeros(64)}, folder / name)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": []}))
    return folder


@pytest.mark.parametrize("optimizer", ["optimizer.pt", "optimizer.bin"])
def test_one_optimizer_file_is_enough(tmp_path: Path, optimizer: str) -> None:
    """The second is what FSDP writes for a full state dict."""
    older = checkpoint(tmp_path / "checkpoint-1", optimizer)
    newer = checkpoint(tmp_path / "checkpoint-2", optimizer)
    assert newest_checkpoint(tmp_path) == newer
    (newer / optimizer).write_bytes((newer / optimizer).read_bytes()[:200])
    assert not is_whole(newer) and newest_checkpoint(tmp_path) == older
    (older / optimizer).unlink()
    assert newest_checkpoint(tmp_path) is None


def test_the_weights_that_are_spread_count_too(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "checkpoint-1", "optimizer.bin")
    torch.save({"weight": torch.zeros(64)}, folder / "pytorch_model_fsdp.bin")
    assert is_whole(folder)
    (folder / "pytorch_model_fsdp.bin").write_bytes(b"cut")
    assert not is_whole(folder)


def test_a_resume_needs_as_many_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another number of devices, the schedule and the rows of each device would change."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    claim_run(tmp_path, {"learning_rate": 1.0})
    claim_run(tmp_path, {"learning_rate": 1.0})
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(TrainingError, match="devices: 8 there, 4 here"):
        claim_run(tmp_path, {"learning_rate": 1.0})
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(TrainingError, match="different devices"):
        claim_run(tmp_path, {"learning_rate": 1.0})


def test_another_training_raises_one_short_line(tmp_path: Path) -> None:
    settings = {f"setting_{number}": number for number in range(38)}
    claim_run(tmp_path, {"stage": "sft", **settings})
    claim_run(tmp_path, {"stage": "sft", **settings})
    with pytest.raises(
        TrainingError, match=r"training of stage 'sft', but this one is 'critic-grpo'\."
    ) as other:
        claim_run(tmp_path, {"stage": "critic-grpo", "prompts": 4})
    with pytest.raises(TrainingError, match="different setting_7 \\(setting_7: 7 there, 8 here\\)"):
        claim_run(tmp_path, {"stage": "sft", **settings, "setting_7": 8})
    with pytest.raises(TrainingError, match="and 33 more settings") as many:
        claim_run(tmp_path, {"stage": "sft"})
    assert all("setting_9" not in str(error.value) for error in (other, many))


def fail(out: Path, made_of: dict[str, float]) -> None:
    claim_run(out, made_of)
    with pytest.raises(RuntimeError), given_back_on_failure(out):
        raise RuntimeError


def test_a_failure_without_a_checkpoint_leaves_its_folder(tmp_path: Path) -> None:
    fail(tmp_path, {"learning_rate": 1.0})
    (tmp_path / "checks.json").write_text("{}")
    fail(tmp_path, {"learning_rate": 1.0})
    assert (tmp_path / "checks.json").exists(), "the same training keeps its files"
    (tmp_path / "rollouts").mkdir()
    default_prompt_set().save(tmp_path / "prompt_set")
    claim_run(tmp_path, {"learning_rate": 2.0})
    assert [path.name for path in tmp_path.iterdir()] == ["training.json"]
    with pytest.raises(TrainingError, match="different learning_rate"):
        claim_run(tmp_path, {"learning_rate": 1.0})
    checkpoint(tmp_path / "steps" / "checkpoint-1", "optimizer.pt")
    fail(tmp_path, {"learning_rate": 2.0})
    with pytest.raises(TrainingError, match="different learning_rate"):
        claim_run(tmp_path, {"learning_rate": 1.0})


def test_half_written_files_of_a_killed_training_are_removed(tmp_path: Path) -> None:
    left = [tmp_path / ".checks.json.0123456789abcdef.tmp"]
    left.append(tmp_path / "rollouts" / f".step_000000.jsonl.{'0' * 16}.tmp")
    left.append(tmp_path / "shown" / f".a.png.{'0' * 16}.tmp")
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    with given_back_on_failure(tmp_path):
        pass
    assert not any(path.exists() for path in left)
