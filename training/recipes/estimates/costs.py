"""What a training asks of the machine around the cards: main memory, disk, vLLM's share of a card, and hours.

Decisions. Reckoned, as in vram.py, from weights and the recipe alone, and each figure comes with what it
was made of. Hours are a lower bound: arithmetic at a third of an H100's peak and answers at half of its
bandwidth; drawing and scoring depend on who does it, so that only what each of their seconds costs is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....backend.vram.footprint import GB
from ...dpo.settings import DpoTraining
from ...grpo.planner_settings import PlannerGrpoTraining
from ...grpo.settings import GrpoTraining, vllm_length
from ...sft.train import SftTraining
from ...trainer.model_loading import ModelTraining
from .vram import Memory, Stage, cache_bytes_per_token, question_tokens

KEPT = 3
"""Checkpoints on the disk at once: two are kept, and a third is written before the older one goes."""
VLLM_REST = 2 * GB
"""Activations and graphs of a colocated vLLM; an assumption."""
ANSWER_TOKENS = 600
"""A usual answer: of a critic, or a plan of four or five steps."""
H100 = 989e12
"""Operations a second in bf16, dense (NVIDIA's data sheet); an A100 has a third."""
SHARE_OF_PEAK = 0.35
BANDWIDTH = 3.35e12
SHARE_OF_BANDWIDTH = 0.5
WAITS = ("weights", "gradients", "optimiser")
"""Parts of a model's memory that leave the card when another takes its turn."""


def host_memory(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Bytes of main memory: every process reads all weights before they go to its card, and the first one of
    several gathers weights and optimiser for a checkpoint."""
    if settings.load_in_4bit:
        return 5 * GB * devices  # one file of weights at a time
    reading = memory.whole * _held(settings) * devices
    return max(reading, checkpoint_size(memory, settings, 1) if devices > 1 else 0.0)


def checkpoint_size(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Bytes of one resumable checkpoint: weights (under FSDP2 in two forms) and AdamW's two moments, of what
    trains."""
    moments = 2.0 if settings.optim == "adamw_8bit" else 8.0
    weights = memory.trained * 4.0 if settings.lora_r else memory.whole * 4.0
    return weights * (2 if devices > 1 else 1) + memory.trained * moments


def disk(memory: Memory, settings: ModelTraining, devices: int) -> float:
    """Bytes on the disk at the fullest moment: the checkpoints, and the finished weights as they are saved
    first."""
    weights = memory.trained if settings.lora_r else memory.whole
    return KEPT * checkpoint_size(memory, settings, devices) + weights * 4.0


def vllm_need(config: Any, memory: Memory, settings: GrpoTraining) -> float:
    """Bytes on each card without which a colocated vLLM does not start: 16-bit weights, the cache of one
    question and answer as long as they may be, and the rest."""
    cache = vllm_length(settings) * cache_bytes_per_token(config)
    return (memory.whole * 2.0 + cache) / settings.vllm_tensor_parallel_size + VLLM_REST


def hours(config: Any, memory: Memory, settings: Stage, devices: int) -> float:
    """Hours for 1,000 rows on H100s, at least: what a usual question and a usual answer take."""
    tokens = question_tokens(config, settings) + ANSWER_TOKENS
    # Forward, backward to the activations, backward to the weights that train, and forward again for what was
    # not kept.
    passes = 2 + 2 + 2 * (memory.trained / memory.whole) + (2 if settings.gradient_checkpointing else 0)
    if isinstance(settings, SftTraining):
        return settings.num_train_epochs * _computed(1000 * tokens * passes * memory.whole, devices)
    if isinstance(settings, DpoTraining):
        # Two answers, and the reference reads both once.
        return settings.num_train_epochs * _computed(2000 * tokens * (passes + 2) * memory.whole, devices)
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
    """What a training runs on: devices, and bytes of each card, of main memory, and free on the disk."""

    devices: int
    card: float
    ram: float
    free: float


def lines(config: Any, memory: Memory, settings: Stage, machine: Machine, parallel: int) -> Iterator[str]:
    """The report, line by line; `parallel` redraws or judgements run at once on each
    device."""
    devices, card, ram, free = machine.devices, machine.card, machine.ram, machine.free
    host = host_memory(memory, settings, devices)
    small = "" if host < 0.9 * ram else f"; here are {ram / GB:.0f}"
    how = f", {devices} processes that each read the weights" if devices > 1 else ""
    yield f"main memory: about {_gb(host)} (reckoned{how}){small}"
    one, all_of_it = checkpoint_size(memory, settings, devices), disk(memory, settings, devices)
    small = "" if all_of_it < free else f"; free here: {free / GB:.0f}"
    yield f"disk: about {_gb(all_of_it)} (reckoned: {KEPT} checkpoints of {_gb(one)}, and the result){small}"
    if isinstance(settings, GrpoTraining) and settings.use_vllm and settings.vllm_mode == "colocate":
        need, share = vllm_need(config, memory, settings), settings.vllm_gpu_memory_utilization * card
        said = f"vLLM: {_gb(need)} for its weights and {vllm_length(settings):,} tokens of cache (reckoned)"
        yield (
            f"{said}, of {_gb(share)}"
            if need <= share
            else (
                f"{said}, but its share of the card is {_gb(share)}: it would not start. Raise "
                "--vllm-gpu-memory-utilization to "
                f"{need / card + 0.005:.2f}, or --vllm-tensor-parallel-size, or lower --max-prompt-length or "
                "--max-completion-length"
            )
        )
    if settings.device == "cpu":
        return
    at_least = hours(config, memory, settings, devices)
    yield (
        f"time: at least {at_least:.2g} hours for 1,000 rows on {devices} H100 (reckoned; three times "
        "that on A100)"
    )
    if isinstance(settings, GrpoTraining):
        each = settings.num_train_epochs * 1000 * settings.num_generations / (parallel * devices) / 3600
        what = "a judgement" if isinstance(settings, PlannerGrpoTraining) else "a redraw with its score"
        yield f"      and {each:.2g} hours more at most for every second that {what} takes"


def _gb(size: float) -> str:
    return f"{size / GB:.1f} GB"
