"""The held-out loss of fine-tuning: its rows, early stopping, the chosen checkpoint, and interruptions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_checkpoint, page

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.core.errors import SettingsError, TrainingError
from interleave_thinker.training.rows.sft import RowSet, SftMessage, SftRow
from interleave_thinker.training.stages.sft import SftData, SftTraining, train
from interleave_thinker.training.trainer.resume import is_to_stop, lowest, measured_losses, newest_checkpoint

FAST = SftTraining(
    num_train_epochs=4,
    per_device_train_batch_size=4,
    learning_rate=1e-2,
    warmup_steps=0,
    freeze_vision=False,
    device="cpu",
    save_steps=2,
    tensorboard=False,
)
OTHER = '<think>none</think>\n\n<answer>{"previous_step_success": true, "refine_prompt": "dark"}</answer>'


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_checkpoint(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    for grey in (0, 255):
        page(grey).image.save(folder / f"{grey}.png")
    return folder


def row(number: int, answer: str) -> SftRow:
    question = SftMessage(role="user", content=f"<image>Is it light? {number}")
    return SftRow(
        messages=[question, SftMessage(role="assistant", content=answer)], images=[f"{number % 2 * 255}.png"]
    )


def rows(count: int) -> list[SftRow]:
    return [row(number, ACCEPTED if number % 2 else REFUSED) for number in range(count)]


def tune(
    base: Path, images: Path, out: Path, log: Callable[[str], None] = lambda line: None, **changes
) -> Path:
    measured = changes.pop("measured", None)
    data = SftData(RowSet(changes.pop("rows", rows(16)), images), measured=measured)
    return train(base, data, out, FAST.model_copy(update=changes), log=log)


def weights(folder: Path) -> dict:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def same(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return all((first[name].float() - second[name].float()).abs().max() == 0 for name in first)


def opposite(images: Path) -> RowSet:
    """Rows with answers that are never trained on: their loss grows with the training."""
    return RowSet([row(100 + number, OTHER) for number in range(4)], images)


def test_held_out_rows_are_not_trained_on_and_are_reported(base: Path, images: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    tune(base, images, tmp_path, lines.append, rows=rows(40), loss_rows=2, max_steps=4)
    assert any("parameters on 38 rows in 4 steps" in line for line in lines)
    assert [line for line in lines if "held out: loss" in line][-1].startswith("step 4 held out")
    history = json.loads((tmp_path / "steps" / "checkpoint-4" / "trainer_state.json").read_text())
    losses = measured_losses(history["log_history"])
    assert list(losses) == [2, 4] and 0 < losses[4] < losses[2]
    assert any(line.startswith("step 4/4") and "0:00 left" in line for line in lines)
    card = (tmp_path / "final" / "README.md").read_text()
    assert "| training rows | 38 |" in card and "| rows whose loss was measured | 2 |" in card
    assert "- max-steps: 4" in card and "- loss-rows: 2" in card


def test_a_rising_loss_ends_it_and_the_lowest_is_taken(base: Path, images: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    final = tune(
        base,
        images,
        tmp_path,
        lines.append,
        measured=opposite(images),
        loss_rows=4,
        early_stopping_patience=2,
        num_train_epochs=8,
    )
    (stop,) = [line for line in lines if line.startswith("STOPPING")]
    last = newest_checkpoint(tmp_path / "steps")
    assert last is not None
    losses = measured_losses(json.loads((last / "trainer_state.json").read_text())["log_history"])
    best = lowest(losses)
    assert best is not None and f"since step {best}" in stop
    assert len([step for step in losses if step > best]) == 2 and max(losses) < 32
    assert same(final, tmp_path / "steps" / f"checkpoint-{best}") and not same(final, last)
    assert f"Stopped at step {max(losses)} of 32; used step {best}" in (final / "README.md").read_text()


class Killed(BaseException):
    """Represents a killed process."""


def test_a_killed_one_stops_at_the_same_step(base: Path, images: Path, tmp_path: Path) -> None:
    options = {
        "measured": opposite(images),
        "loss_rows": 4,
        "early_stopping_patience": 2,
        "num_train_epochs": 8,
    }
    straight = tune(base, images, tmp_path / "straight", **options)

    def killer(line: str) -> None:
        if line.startswith("using the checkpoint of step"):  # the decision is made and nothing of it is saved
            raise Killed

    with pytest.raises(Killed):
        tune(base, images, tmp_path / "killed", killer, **options)
    lines: list[str] = []
    resumed = tune(base, images, tmp_path / "killed", lines.append, **options)
    assert same(straight, resumed) and not any(line.startswith("step ") for line in lines)


def test_settings_that_failed_before_the_first_step_can_be_corrected(
    base: Path, images: Path, tmp_path: Path
) -> None:
    (tmp_path / ".checks.json.0123456789abcdef.tmp").write_text("half")
    with pytest.raises(SettingsError, match="max_length"):
        tune(base, images, tmp_path, max_length=16, max_steps=1)
    assert tune(base, images, tmp_path, max_steps=1).is_dir()
    assert not list(tmp_path.glob(".*.tmp"))
    with pytest.raises(TrainingError, match="different max_length"):
        tune(base, images, tmp_path, max_length=16, max_steps=1)


def test_early_stopping_without_held_out_rows_is_rejected(base: Path, images: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="loss_rows"):
        tune(base, images, tmp_path, early_stopping_patience=2)
    with pytest.raises(SettingsError, match="too few"):
        tune(base, images, tmp_path, early_stopping_patience=2, loss_rows=4)


def test_measured_rows_are_not_trained_on(images: Path) -> None:
    data = SftData(RowSet(rows(50), images)).with_held_out(FAST.model_copy(update={"loss_rows": 2}))
    assert len(data.losses.rows) == 2 and len(data.rows.rows) == 48
    assert not {row.line() for row in data.losses.rows} & {row.line() for row in data.rows.rows}


def test_steps_are_never_more_than_those_of_the_epochs() -> None:
    assert (
        FAST.optimizer_steps(16) == 16 and FAST.model_copy(update={"max_steps": 3}).optimizer_steps(16) == 3
    )
    assert FAST.model_copy(update={"max_steps": 99}).optimizer_steps(16) == 16


def test_a_non_finite_loss_is_never_the_lowest_and_never_stops() -> None:
    history = [{"step": step, "eval_loss": loss} for step, loss in ((2, 0.5), (4, float("nan")), (6, 0.6))]
    losses = measured_losses([{"step": 1, "loss": 0.1}, *history])
    assert losses == {2: 0.5, 6: 0.6} and lowest(losses) == 2 and lowest({}) is None
    assert is_to_stop(losses, 1) and not is_to_stop(losses, 2) and not is_to_stop(losses, None)
    assert not is_to_stop({}, 1)
