"""Half precision: a weight that would become infinite is an error with a hint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_checkpoint import build_adapter

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.backend.core.errors import TrainingError
from interleave_thinker.training.trainer.saving import _convert, merge


def test_a_weight_that_becomes_infinite_is_named(tmp_path: Path) -> None:
    weights = {"small": torch.tensor([1.0, 65504.0]), "ids": torch.tensor([2**40])}
    save_file(weights | {"large": torch.tensor([1.0, 7e4])}, tmp_path / "model.safetensors")
    with pytest.raises(TrainingError, match=r"'large' to float16: 1 values, up to 70000") as error:
        _convert(tmp_path, "float16")
    assert "save_dtype=bfloat16" in error.value.hint
    assert load_file(tmp_path / "model.safetensors")["large"].dtype == torch.float32
    _convert(tmp_path, "bfloat16")
    assert load_file(tmp_path / "model.safetensors")["large"].isfinite().all()


def test_merging_into_a_half_precision_base_is_reported(base: Path, tmp_path: Path) -> None:
    base = shutil.copytree(base, tmp_path / "base")
    adapter = build_adapter(base, tmp_path / "adapter", 1, 0.5)
    _convert(base, "float16")
    file = adapter / "adapter_model.safetensors"
    save_file({name: value * 1e4 for name, value in load_file(file).items()}, file)
    with pytest.raises(TrainingError, match=r"to float16: .* would become infinite") as error:
        merge(base, adapter, tmp_path / "merged")
    assert "bfloat16" in error.value.hint and not (tmp_path / "merged").exists()
