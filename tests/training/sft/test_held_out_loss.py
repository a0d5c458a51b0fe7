"""The held-out loss of fine-tuning: its rows, early stopping, the chosen checkpoint, and interruptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.short_trainings import SFT, Killed, moved, sft, sft_row, sft_rows

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.training.rows.sft import RowSet
from interleave_thinker.training.stages.sft import SftData
from interleave_thinker.training.trainer.resume import is_to_stop, lowest, measured_losses, newest_checkpoint

OTHER = '<think>none</think>\n\n<answer>{"previous_step_success": true, "refine_prompt": "dark"}</answer>'


def losses_at(checkpoint: Path) -> dict[int, float]:
    return measured_losses(json.loads((checkpoint / "trainer_state.json").read_text())["log_history"])


def test_held_out_rows_are_not_trained_on_and_are_reported(folder: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    sft(folder, tmp_path, lines.append, rows=sft_rows(40, 40), loss_rows=2, max_steps=4)
    assert any("parameters on 38 rows in 4 steps" in line for line in lines)
    assert [line for line in lines if "held out: loss" in line][-1].startswith("step 4 held out")
    losses = losses_at(tmp_path / "steps" / "checkpoint-4")
    assert list(losses) == [2, 4] and 0 < losses[4] < losses[2]
    assert any(line.startswith("step 4/4") and "0:00 left" in line for line in lines)
    card = (tmp_path / "final" / "README.md").read_text()
    assert "| training rows | 38 |" in card and "| rows whose loss was measured | 2 |" in card
    assert "- max-steps: 4" in card and "- loss-rows: 2" in card


def test_a_rising_loss_ends_it_at_the_same_step_after_a_kill(folder: Path, tmp_path: Path) -> None:
    # Answers that are never trained on: their loss grows with the training.
    opposite = [sft_row(f"Is it light? {number}", OTHER, "0.png", "0.png") for number in range(4)]
    options = {"measured": RowSet(opposite, folder), "loss_rows": 4, "early_stopping_patience": 2}
    lines: list[str] = []

    def killer(line: str) -> None:
        lines.append(line)
        if line.startswith("using the checkpoint of step"):  # the decision is made and nothing of it is saved
            raise Killed

    with pytest.raises(Killed):
        sft(folder, tmp_path, killer, num_train_epochs=8, **options)
    (stop,) = [line for line in lines if line.startswith("STOPPING")]
    last = newest_checkpoint(tmp_path / "steps")
    assert last is not None
    losses = losses_at(last)
    best = lowest(losses)
    assert best is not None and f"since step {best}" in stop
    assert len([step for step in losses if step > best]) == 2 and max(losses) < 32
    resumed: list[str] = []
    final = sft(folder, tmp_path, resumed.append, num_train_epochs=8, **options)
    assert not any(line.startswith("step ") for line in resumed)
    assert not moved(final, tmp_path / "steps" / f"checkpoint-{best}") and moved(final, last)
    assert f"Stopped at step {max(losses)} of 32; used step {best}" in (final / "README.md").read_text()


def test_settings_that_failed_before_the_first_step_can_be_corrected(folder: Path, tmp_path: Path) -> None:
    (tmp_path / ".checks.json.0123456789abcdef.tmp").write_text("half")
    with pytest.raises(SettingsError, match="max_length"):
        sft(folder, tmp_path, max_length=16, max_steps=1)
    assert sft(folder, tmp_path, max_steps=1).is_dir()
    assert not list(tmp_path.glob(".*.tmp"))
    with pytest.raises(TrainingError, match="different max_length"):
        sft(folder, tmp_path, max_length=16, max_steps=1)


def test_early_stopping_without_held_out_rows_is_rejected(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="loss_rows"):
        sft(folder, tmp_path, early_stopping_patience=2)
    with pytest.raises(SettingsError, match="too few"):
        sft(folder, tmp_path, early_stopping_patience=2, loss_rows=4)


def test_measured_rows_are_not_trained_on(folder: Path) -> None:
    data = SftData(RowSet(sft_rows(50, 50), folder)).with_held_out(SFT.model_copy(update={"loss_rows": 2}))
    assert len(data.losses.rows) == 2 and len(data.rows.rows) == 48
    assert not {row.line() for row in data.losses.rows} & {row.line() for row in data.rows.rows}


def test_steps_are_never_more_than_those_of_the_epochs() -> None:
    for most, steps in ((None, 4), (3, 3), (99, 4)):
        assert SFT.model_copy(update={"max_steps": most}).optimizer_steps(16) == steps


def test_a_non_finite_loss_is_never_the_lowest_and_never_stops() -> None:
    history = [{"step": step, "eval_loss": loss} for step, loss in ((2, 0.5), (4, float("nan")), (6, 0.6))]
    losses = measured_losses([{"step": 1, "loss": 0.1}, *history])
    assert losses == {2: 0.5, 6: 0.6} and lowest(losses) == 2 and lowest({}) is None
    assert is_to_stop(losses, 1) and not is_to_stop(losses, 2) and not is_to_stop(losses, None)
    assert not is_to_stop({}, 1)
