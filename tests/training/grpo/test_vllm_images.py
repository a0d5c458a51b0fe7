"""A colocated vLLM, which sleeps between rollouts, starts without a cache of processed images."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')

from support.small_grpo import SMALL
from trl.generation import vllm_generation as trl_engine

from interleave_thinker.training.stages.grpo_trainer import without_image_cache

vllm_generation: Any = trl_engine
COLOCATED = SMALL.model_copy(update={"use_vllm": True})


def test_only_a_colocated_vllm_is_started_without_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_generation, "LLM", dict, raising=False)
    said: list[str] = []
    for changes, arguments in (
        ({}, {"model": "m", "mm_processor_cache_gb": 0}),
        ({"use_vllm": False}, {"model": "m"}),
        ({"vllm_mode": "server"}, {"model": "m"}),
    ):
        with without_image_cache(COLOCATED.model_copy(update=changes), said.append):
            assert vllm_generation.LLM(model="m") == arguments
        assert vllm_generation.LLM is dict and not said


def test_a_trl_that_starts_vllm_elsewhere_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(vllm_generation, "LLM", raising=False)
    said: list[str] = []
    with without_image_cache(COLOCATED, said.append):
        pass
    assert len(said) == 1 and said[0].startswith("WARNING")
