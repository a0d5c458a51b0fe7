"""A colocated vLLM, which sleeps between rollouts, starts without a cache of processed images."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from support.small_grpo import SMALL, make_data, run
from trl.generation import vllm_generation as trl_engine

from interleave_thinker.training.stages import grpo, grpo_trainer
from interleave_thinker.training.stages.grpo_trainer import without_image_cache

vllm_generation: Any = trl_engine
COLOCATED = SMALL.model_copy(update={"use_vllm": True})
SERVED = {"vllm_mode": "server", "vllm_server_base_url": "http://elsewhere:8000"}


class Started(Exception):
    """Raised instead of training."""


class StandIn:
    """Takes the arguments of vLLM's LLM."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments, self.slept = arguments, False

    def sleep(self, level: int) -> None:
        self.slept = True


def test_the_training_starts_a_sleeping_vllm_without_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[StandIn] = []

    def create(reward: Any, args: Any, model: Any, **rest: Any) -> None:
        """Start vLLM as trl's trainer does."""
        for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
            monkeypatch.setenv(name, value)
        accelerator = SimpleNamespace(
            num_processes=1, process_index=0, local_process_index=0, wait_for_everyone=lambda: None
        )
        made = vllm_generation.VLLMGeneration(
            model, accelerator, None, mode=args.vllm_mode, enable_sleep_mode=args.vllm_enable_sleep_mode
        )
        started.append(made.llm)
        raise Started

    monkeypatch.setattr(vllm_generation, "LLM", StandIn, raising=False)
    for name, value in (
        ("is_vllm_available", lambda: True),
        ("DistributedBackend", lambda accelerator: None),
    ):
        monkeypatch.setattr(vllm_generation, name, value)
    monkeypatch.setattr(vllm_generation, "ensure_master_addr_port", lambda: None)
    monkeypatch.setattr(grpo, "require", lambda *names: None)
    monkeypatch.setattr(grpo_trainer, "RewardTrainer", create)
    with pytest.raises(Started):
        run(make_data(tmp_path / "rl"), tmp_path / "run", COLOCATED)
    assert started[0].slept and started[0].arguments["mm_processor_cache_gb"] == 0
    assert vllm_generation.LLM is StandIn


@pytest.mark.parametrize("changes", [{"use_vllm": False}, SERVED])
def test_only_a_colocated_vllm_is_changed(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_generation, "LLM", StandIn, raising=False)
    said: list[str] = []
    with without_image_cache(COLOCATED.model_copy(update=changes), said.append):
        assert vllm_generation.LLM is StandIn
    assert not said


def test_a_trl_that_starts_vllm_elsewhere_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(vllm_generation, "LLM", raising=False)
    said: list[str] = []
    with without_image_cache(COLOCATED, said.append):
        pass
    assert len(said) == 1 and said[0].startswith("WARNING")
