"""Estimates of RAM, disk, vLLM and time by the doctor, compared with manual calculations."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.backend.vram.agent_shapes import published_config
from interleave_thinker.backend.vram.footprint import GB
from interleave_thinker.training.recipes.estimates import costs
from interleave_thinker.training.recipes.estimates.doctor import settings_of
from interleave_thinker.training.recipes.estimates.vram import Memory
from interleave_thinker.training.recipes.recipe import read_recipe

WHOLE, VISION = 8_767_123_696, 576_388_336
MODEL = "Qwen/Qwen3-VL-8B-Instruct"


def published(stage: str, **changes: Any) -> Any:
    return settings_of(read_recipe("paper-8b", stage) | changes, stage)


def test_main_memory_and_disk_of_the_published_runs() -> None:
    rl, memory = published("critic-grpo"), Memory({}, WHOLE, WHOLE)
    assert costs.host_memory(memory, rl, 8) / GB == pytest.approx(8 * 4 * 8.767, rel=1e-3)  # 281 GB
    assert costs.checkpoint_size(memory, rl, 8) / GB == pytest.approx((4 + 4 + 8) * 8.767, rel=1e-3)  # 140 GB
    assert costs.disk(memory, rl, 8) / GB == pytest.approx((3 * 16 + 4) * 8.767, rel=1e-3)
    sft = published("critic-sft")
    kept = costs.checkpoint_size(Memory({}, WHOLE - VISION, WHOLE), sft, 8)
    assert kept / GB == pytest.approx(8 * 8.767 + 8 * 8.1907, rel=1e-3)


def test_an_adapter_is_small() -> None:
    one = settings_of(read_recipe("one-80gb", "critic-sft"), "critic-sft")
    memory = Memory({}, 170_000_000, WHOLE)
    assert costs.checkpoint_size(memory, one, 1) / GB == pytest.approx(2.04)
    assert costs.host_memory(memory, one, 1) / GB == pytest.approx(17.53, abs=0.01)


def test_the_estimate_reports_a_vllm_that_cannot_start() -> None:
    config, memory = published_config(MODEL), Memory({}, WHOLE, WHOLE)

    def said(**changes: Any) -> str:
        settings = published("critic-grpo", **changes)
        told = costs.lines(config, memory, settings, costs.Machine(8, 80 * GB, 1e15, 1e15), 16)
        return next(line for line in told if line.startswith("vLLM"))

    # 2 bytes x 8.767e9, 20,480 tokens x 147,456 bytes, and 2 GB.
    assert "22.6 GB" in said() and "would not start" not in said()
    whole = said(vllm_max_model_length=262_144)
    assert (
        "58.2 GB" in whole and "would not start" in whole and "--vllm-gpu-memory-utilization to 0.73" in whole
    )
    assert "would not start" not in said(vllm_max_model_length=262_144, vllm_tensor_parallel_size=4)


def test_on_a_cpu_the_memory_is_not_counted_twice() -> None:
    tiny = settings_of(read_recipe("tiny", "critic-sft"), "critic-sft")
    told = list(costs.lines(None, Memory({}, 1, 1), tiny, costs.Machine(1, 0.0, 1e15, 1e15), 1))
    assert [line.partition(":")[0] for line in told] == ["disk"]


def test_hours_grow_with_the_work() -> None:
    config, memory = published_config(MODEL), Memory({}, WHOLE, WHOLE)
    rl = published("critic-grpo")
    eight = costs.hours(config, memory, rl, 8)
    # 8,000 answers of 3,160 tokens, 10 operations a weight, at 346e12 a second on eight GPUs; 62.5 rollouts
    # of 600 tokens.
    assert eight == pytest.approx(
        8000 * 3160 * 10 * WHOLE / (8 * 346.15e12) / 3600 + 62.5 * 600 * 2 * WHOLE / 1.675e12 / 3600, rel=1e-3
    )
    assert costs.hours(config, memory, published("critic-grpo", num_generations=16), 8) > 1.6 * eight
    assert costs.hours(config, memory, rl, 4) > 1.4 * eight
    assert costs.hours(config, memory, published("critic-sft"), 8) < eight


def test_the_estimate_reports_missing_resources_of_this_machine() -> None:
    config, memory = published_config(MODEL), Memory({}, WHOLE, WHOLE)
    told = "\n".join(
        costs.lines(
            config, memory, published("critic-grpo"), costs.Machine(8, 80 * GB, 64 * GB, 100 * GB), 16
        )
    )
    assert "this machine has 64 GB" in told and "100 GB are free here" in told and "hours" in told
