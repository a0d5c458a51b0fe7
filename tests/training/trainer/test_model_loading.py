"""Loading and counting of weights that ZeRO-3 divides, without DeepSpeed: its marks are set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from interleave_thinker.training.stages.sft import SftTraining
from interleave_thinker.training.trainer import model_loading


def test_weights_of_zero3_are_saved(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors import safe_open
    from transformers.conversion_mapping import get_model_conversion_mapping

    def loaded(*given: Any, **options: Any) -> Any:
        """Mark the weights as DeepSpeed does, and attach all renamings as transformers then does."""
        model = load(*given, **options)
        for number, weight in enumerate(model.parameters()):
            weight.ds_id, weight.ds_numel = number, weight.numel() + 1
        model._weight_conversions = get_model_conversion_mapping(model)
        return model

    load = model_loading.load_whole
    settings = SftTraining(device="cpu", freeze_vision=False)
    whole = model_loading.load_policy(base, settings).model
    monkeypatch.setattr(model_loading, "load_whole", loaded)
    divided = model_loading.load_policy(base, settings).model
    tensors = len(list(whole.parameters()))
    assert model_loading.count_parameters(divided)[1] == model_loading.count_parameters(whole)[1] + tensors
    names = []
    for number, model in enumerate((whole, divided)):
        model.save_pretrained(tmp_path / str(number))
        with safe_open(tmp_path / str(number) / "model.safetensors", "pt") as file:
            names.append(sorted(file.keys()))
    assert names[0] == names[1]
