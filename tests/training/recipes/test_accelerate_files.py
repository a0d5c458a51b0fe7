"""The accelerate files of the recipes train on two processes as one process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tiny_checkpoint import build_checkpoint, page

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.accelerate_files import STEPS, apart, on_two_processes, saved, trained

ROUNDING = 1e-6
"""Largest relative difference of the losses."""
WEIGHTS = 1e-5
"""Largest difference of the weights after three steps: a hundredth of the learning rate."""


# DeepSpeed compiles its communication when it runs for the first time.
@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "how"),
    [("accelerate-ddp", "MULTI_CPU"), ("accelerate-fsdp2", "FSDP"), ("accelerate-zero3", "DEEPSPEED")],
)
def test_two_processes_train_as_one(name: str, how: str, tmp_path: Path) -> None:
    if how == "DEEPSPEED":
        pytest.importorskip("deepspeed", reason="ZeRO-3 needs: pip install deepspeed")
    for grey in (0, 255):
        page(grey).image.save(tmp_path / f"{grey}.png")
    checkpoint = build_checkpoint(tmp_path / "tiny")
    one = trained(checkpoint, tmp_path, tmp_path / "one", (6, 1))
    two = on_two_processes(name, checkpoint, tmp_path, tmp_path / "two")
    assert two.how == how and len(two.losses) == len(two.held_out) == STEPS
    assert bool(two.sharded) is (how != "MULTI_CPU")
    assert two.losses == pytest.approx(one.losses, rel=ROUNDING)
    assert two.held_out == pytest.approx(one.held_out, rel=ROUNDING)
    assert one.losses[-1] < 0.9 * one.losses[0], "the steps change the weights"
    assert two.parameters == one.parameters > 0
    assert apart(saved(tmp_path / "one"), saved(tmp_path / "two")) < WEIGHTS
