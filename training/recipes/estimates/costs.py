"""Estimates the RAM, disk space, VRAM share of vLLM and hours that a training needs.

The estimates use only the model's shape and the recipe, as in vram.py. Hours are a lower bound: compute at 35
% of an H100's peak, and generation at half of its bandwidth. The time of image generation and scoring depends
on the service, so only the effect of each of its seconds is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....backend.vram.footprint import GB
from ...grpo.planner_settings import PlannerGrpoTraining
from ...grpo.settings import GrpoTraining, vllm_length
from ...sft.train import SftTraining
from ...trainer.model_loading import ModelTraining
from .vram import Memory, Stage, cache_bytes_per_token, question_tokens

KEPT = 3
"""Checkpoints on disk at the same time: two are kept, and a third is written before the older one is deleted.
"""
VLLM_REST = 2 * GB
"""VRAM for activations and CUDA graphs of a colocated vLLM, in bytes; an assumption."""
ANSWER_TOKENS = 600
"""Tokens of a typical answer: of a critic, or a plan with four or five steps."""
H100 = 989e12
"""Dense bf16 operations per second (NVIDIA's data sheet); an A100 has a third."""
SHARE_OF_PEAK = 0.35
BANDWIDTH = 3.35e12
SHARE_OF_BANDWIDTH = 0.5
WAITS = ("weights", "gradients", "optimizer")
"""Parts of a model's memory that are moved to RAM while another model uses the GPU."""


def host_memory(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Return the RAM in bytes.

    Every process reads all weights before they are moved to its GPU. With several devices, the first process
    gathers weights and optimizer for a checkpoint.
    """
    if settings.load_in_4bit:
        return 5 * GB * devices  # one file of weights at a time
    reading = memory.whole * _held(settings) * devices
    return max(reading, checkpoint_size(memory, settings, 1) if devices > 1 else 0.0)


def checkpoint_size(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Return the bytes of one resumable checkpoint.

    It contains the weights (under FSDP2 in two forms) and the two AdamW moments of the trained parameters.
    """
    moments = 2.0 if settings.optim == "adamw_8bit" else 8.0
    weights = memory.trained * 4.0 if settings.lora_r else memory.whole * 4.0
    return weights * (2 if devices > 1 else 1) + memory.trained * moments


def disk(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Return the maximum bytes on disk: the checkpoints, and the final weights before conversion."""
    weights = memory.trained if settings.lora_r else memory.whole
    return KEPT * checkpoint_size(memory, settings, devices) + weights * 4.0


def vllm_need(config: Any, memory: Memory, settings: GrpoTraining) -> float:
    """Return the bytes of VRAM per GPU that a colocated vLLM needs to start.

    They consist of 16-bit weights, the cache of one prompt and answer of maximum length, and activations.
    """
    cache = vllm_length(settings) * cache_bytes_per_token(config)
    return (memory.whole * 2.0 + cache) / settings.vllm_tensor_parallel_size + VLLM_REST


def hours(config: Any, memory: Memory, settings: Stage, devices: int) -> float:
    """Return the minimum hours for 1,000 rows on H100s, with prompts and answers of typical length."""
    tokens = question_tokens(config, settings) + ANSWER_TOKENS
    # Forward pass, backward pass to activations, backward pass to trained weights, and a second forward pass
    # with gradient checkpointing.
    passes = 2 + 2 + 2 * (memory.trained / memory.whole) + (2 if settings.gradient_checkpointing else 0)
    if isinstance(settings, SftTraining):
        return settings.num_train_epochs * _computed(1000 * tokens * passes * memory.whole, devices)
    again = 2 if settings.updates > 1 or settings.use_vllm else 0
    learned = _computed(1000 * settings.num_generations * tokens * (passes + again) * memory.whole, devices)
    read = memory.whole * 2.0 / (BANDWIDTH * SHARE_OF_BANDWIDTH)
    return settings.num_train_epochs * (learned + 1000 / settings.prompts * ANSWER_TOKENS * read / 3600)


def _computed(operations: float, devices: int) -> float:
    return operations / (H100 * SHARE_OF_PEAK * devices) / 3600


def _held(settings: ModelTraining) -> float:
    return 4.0 if not settings.lora_r or not settings.bf16 else 2.0


@dataclass(frozen=True)
class Machine:
    """Machine that a training runs on: number of devices; bytes of VRAM per GPU, RAM and free disk space."""

    devices: int
    vram: float
    ram: float
    free: float


def lines(config: Any, memory: Memory, settings: Stage, machine: Machine, parallel: int) -> Iterator[str]:
    """Yield the lines of the report; each device makes `parallel` redraws or judgments at the same time."""
    devices, vram, ram, free = machine.devices, machine.vram, machine.ram, machine.free
    host = host_memory(memory, settings, devices)
    small = "" if host < 0.9 * ram else f"; this machine has {ram / GB:.0f} GB"
    how = f", {devices} processes that each read the weights" if devices > 1 else ""
    if settings.device != "cpu":  # on a CPU, the memory above is the RAM
        yield f"RAM: about {_gb(host)} (estimated{how}){small}"
    one, all_of_it = checkpoint_size(memory, settings, devices), disk(memory, settings, devices)
    small = "" if all_of_it < free else f"; {free / GB:.0f} GB are free here"
    yield f"disk: about {_gb(all_of_it)} (estimated: {KEPT} checkpoints of {_gb(one)}, and the result){small}"
    if isinstance(settings, GrpoTraining) and settings.use_vllm and settings.vllm_mode == "colocate":
        need, share = vllm_need(config, memory, settings), settings.vllm_gpu_memory_utilization * vram
        needs = (
            f"vLLM: {_gb(need)} for its weights and a cache of {vllm_length(settings):,} tokens (estimated)"
        )
        yield (
            f"{needs}, of {_gb(share)}"
            if need <= share
            else (
                f"{needs}, but its share of the VRAM is {_gb(share)}, so it would not start. Raise "
                f"--vllm-gpu-memory-utilization to {need / vram + 0.005:.2f} or "
                "--vllm-tensor-parallel-size, or "
                "lower --max-prompt-length or --max-completion-length"
            )
        )
    if settings.device == "cpu":
        return
    at_least = hours(config, memory, settings, devices)
    yield (
        f"time: at least {at_least:.2g} hours for 1,000 rows on {devices} H100 (estimated; three times as "
        "long on A100)"
    )
    if isinstance(settings, GrpoTraining):
        each = settings.num_train_epochs * 1000 * settings.num_generations / (parallel * devices) / 3600
        what = "a judgment" if isinstance(settings, PlannerGrpoTraining) else "a redraw with its score"
        yield f"      and at most {each:.2g} hours more for every second that {what} takes"


def _gb(size: float) -> str:
    return f"{size / GB:.1f} GB"
