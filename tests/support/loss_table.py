"""Losses and gradients of one optimizer step over the same six rows, split differently.

The splits use different micro-batches and ranks; an independent sum over tokens is the reference.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from support.forked import forked
from support.free_port import free_port
from support.short_trainings import SFT, sft_row

from interleave_thinker.training.rows.sft import RowSet, SftRow
from interleave_thinker.training.stages.sft import SftData, SftTraining

ONE_RANK = ((6, 1), (3, 2), (2, 3), (1, 6), (4, 2))
TWO_RANKS = ((3, 1), (1, 3), (2, 2), (4, 1))
"""(rows of a micro-batch, micro-batches per step) on each rank; the last two are uneven."""
LENGTHS = (1, 2, 4, 7, 11, 16)
"""Sentences in the answers of the six rows."""


class Measured(NamedTuple):
    """One optimizer step of one split: its loss, the held-out loss of the same rows and the gradient."""

    split: str
    loss: float
    held_out: float
    gradient: list[float]

    def apart(self, other: Measured) -> float:
        """Return the largest difference between both gradients, as a share of the largest value."""
        largest = max(map(abs, other.gradient))
        return max(abs(a - b) for a, b in zip(self.gradient, other.gradient, strict=True)) / largest


def six_rows() -> list[SftRow]:
    """Return rows with answers of very different lengths and zero, one or two images."""
    return [
        sft_row(
            f"Is it light? {number}",
            "<think>light</think> true False " * length,
            *["0.png", "255.png"][: number % 3],
        )
        for number, length in enumerate(LENGTHS)
    ]


def settings_of(split: tuple[int, int], lora_rank: int) -> SftTraining:
    changes = {
        "per_device_train_batch_size": split[0], "gradient_accumulation_steps": split[1],
        "learning_rate": 1e-12, "save_steps": 1, "loss_rows": 6, "lora_r": lora_rank,
    }  # fmt: skip
    return SFT.model_copy(update=changes)


def measured(
    checkpoint: Path, images: Path, out: Path, split: tuple[int, int], lora_rank: int = 0
) -> Measured:
    """Run one optimizer step with the trainer that `train sft` uses."""
    from transformers import TrainerCallback

    from interleave_thinker.training.stages.sft import _FineTuning

    gradient: list[float] = []

    class Gradient(TrainerCallback):
        """Stores the gradient of the step: three numbers and the norm for every weight."""

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any, **rest: Any) -> None:
            for weight in model.parameters():
                if weight.grad is not None:
                    gradient.extend([*weight.grad.flatten()[:3].tolist(), float(weight.grad.norm())])

    rows = RowSet(six_rows(), images)
    settings = settings_of(split, lora_rank)
    tuning = _FineTuning(checkpoint, SftData(rows), out, settings, None, lambda line: None)
    trainer, _ = tuning._trainer(rows, rows, 1)
    trainer.args.max_grad_norm = 0.0
    trainer.add_callback(Gradient())
    trainer.train()
    assert trainer.state.global_step == 1
    held_out = next(entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry)
    loss = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    ranks = trainer.accelerator.num_processes
    name = f"{split[0]} x {split[1]}" + (f" on {ranks} ranks" if ranks > 1 else "")
    return Measured(name, loss, held_out, gradient)


def summed(checkpoint: Path, images: Path) -> tuple[float, int]:
    """Return the mean loss over the learned tokens, computed row by row from the logits, and their number."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from interleave_thinker.training.rows.sft import as_prompt_completion

    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
    total, tokens = 0.0, 0
    for row in six_rows():
        made = as_prompt_completion(row, images)
        asked = processor.apply_chat_template(made["prompt"], tokenize=False, add_generation_prompt=True)
        whole = processor.apply_chat_template(made["prompt"] + made["completion"], tokenize=False)
        same = (number for number, pair in enumerate(zip(asked, whole, strict=False)) if pair[0] != pair[1])
        asked = whole[: next(same, len(asked))]
        shown = [Image.open(images / name).convert("RGB") for name in row.images] or None
        before, batch = (processor(text=[text], images=shown, return_tensors="pt") for text in (asked, whole))
        with torch.no_grad():
            logits = model(**batch).logits[0, :-1].double()
        ids, start = batch["input_ids"][0, 1:], before["input_ids"].shape[1] - 1
        likely = logits.log_softmax(-1).gather(1, ids[:, None])[start:, 0]
        total, tokens = total - float(likely.sum()), tokens + len(likely)
    return total / tokens, tokens


def on_two_ranks(checkpoint: Path, images: Path, out: Path, lora_rank: int = 0) -> list[Measured]:
    """Run the splits over two forked processes, with the variables that torchrun would set.

    Processes that torchrun starts import everything again, which takes ten times as long as the splits.
    """
    port = str(free_port())
    with ThreadPoolExecutor(2) as waiting:
        ranks = [
            waiting.submit(forked, partial(_rank, rank, port, checkpoint, images, out, lora_rank), 280)
            for rank in range(2)
        ]
        assert [rank.result().code for rank in ranks] == [0, 0]
    return [Measured(*json.loads(line)) for line in (out / "ranks.jsonl").read_text().splitlines()]


def _rank(rank: int, port: str, checkpoint: Path, images: Path, out: Path, lora_rank: int) -> None:
    from accelerate.state import AcceleratorState, GradientState

    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    os.environ.update({name: str(number) for name, number in numbers.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, CUDA_VISIBLE_DEVICES="")
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    for number, split in enumerate(TWO_RANKS):
        found = measured(checkpoint, images, out / f"ranks_{lora_rank}_{number}", split, lora_rank)
        if rank == 0:
            with (out / "ranks.jsonl").open("a") as file:
                file.write(json.dumps(found) + "\n")
