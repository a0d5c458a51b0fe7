"""Loss, gradient and held-out loss do not depend on micro-batches, accumulation steps and ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.loss_table import ONE_RANK, TWO_RANKS, Measured, measured, on_two_ranks, summed

EXACT = 1e-6


def check(found: list[Measured], base: Path, images: Path) -> None:
    """Every split has the loss of an independent sum, and the gradient of the first split."""
    truth, tokens = summed(base, images)
    assert tokens > 100
    for one in found:
        assert one.loss == pytest.approx(truth, rel=EXACT), one.split
        assert one.held_out == pytest.approx(truth, rel=EXACT), one.split
        assert one.apart(found[0]) < 5 * EXACT, one.split


@pytest.mark.parametrize(("splits", "lora_rank"), [(ONE_RANK, 0), (ONE_RANK[-2:], 4)])
def test_micro_batches_do_not_change_the_loss(
    splits: list[tuple[int, int]], lora_rank: int, base: Path, images: Path, tmp_path: Path
) -> None:
    found = [measured(base, images, tmp_path / f"{split}", split, lora_rank) for split in splits]
    check(found, base, images)


def test_ranks_do_not_change_the_loss(base: Path, images: Path, tmp_path: Path) -> None:
    whole = measured(base, images, tmp_path / "whole", (6, 1))
    found = on_two_ranks(base, images, tmp_path)
    assert len(found) == len(TWO_RANKS) and all(one.split.endswith("on 2 ranks") for one in found)
    check([whole, *found], base, images)
