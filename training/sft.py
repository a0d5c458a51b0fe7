"""Supervised fine-tuning of planner and critic with trl's SFTTrainer: loss on the answer alone, several images a row.

Decision: the trainer is trl's, used as it is; ours are the checks before it starts and the checkpoint that comes out (half
precision if asked, prompt set beside the weights). On a CPU the defaults that need a GPU are switched off by name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..backend.errors import SettingsError
from ..backend.prompts import PromptSet
from .data import SftRow, as_dataset


class SftTraining(BaseModel):
    """Settings of supervised fine-tuning. Defaults are the published run's (FORMATS: rewards), but for the batch."""

    model_config = ConfigDict(extra="forbid")

    epochs: float = Field(default=2.0, gt=0, description="Passes over the data.")
    batch: int = Field(default=32, ge=1, description="Rows per optimiser step on one device.")
    accumulation: int = Field(default=1, ge=1, description="Batches per optimiser step.")
    rate: float = Field(default=2e-5, gt=0, description="Peak learning rate; cosine after the warm-up.")
    warm_up: float = Field(default=0.1, ge=0, lt=1, description="Share of the steps for the warm-up.")
    weight_decay: float = Field(default=1e-6, ge=0, description="AdamW weight decay.")
    second_moment: float = Field(default=0.999, gt=0, lt=1, description="AdamW beta 2.")
    cutoff: int = Field(default=16384, ge=16, description="Longest row in tokens; longer ones are an error.")
    freeze_vision: bool = Field(
        default=True, description="Keep the vision tower and its projector as they are."
    )
    ordered: bool = Field(default=False, description="Take the rows as the file has them (a curriculum).")
    save_every: int = Field(default=500, ge=1, description="Steps between resumable checkpoints.")
    device: Literal["auto", "cpu"] = Field(default="auto", description="Where to train.")
    precision: Literal["fp32", "bf16"] = Field(default="fp32", description="Arithmetic of the training.")
    gradient_checkpointing: bool = Field(
        default=True, description="On a GPU, compute activations twice instead of keeping them."
    )
    workers: int = Field(default=0, ge=0, description="Processes that read and prepare images.")
    half: bool = Field(default=False, description="Save the finished checkpoint in half precision.")
    seed: int = Field(default=0, ge=0, description="Seed of data order and dropout.")


def train(
    checkpoint: Path,
    rows: list[SftRow],
    images: Path,
    out: Path,
    settings: SftTraining,
    prompt_set: PromptSet | None = None,
    log: Callable[[str], None] = print,
) -> Path:
    """Fine-tune `checkpoint` on `rows` (image paths relative to `images`) into `out`; continues a stopped run.

    Returns the finished checkpoint's folder, `out / "final"`. Raises SettingsError if a row is longer than the cutoff.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    import torch
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForImageTextToText, AutoProcessor, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    processor = AutoProcessor.from_pretrained(checkpoint, local_files_only=True)
    processor.tokenizer.padding_side = "left"
    _check_lengths(rows, processor, settings.cutoff)
    model = AutoModelForImageTextToText.from_pretrained(
        checkpoint, local_files_only=True, use_safetensors=True, dtype=torch.float32
    )
    if settings.freeze_vision:
        model.model.visual.requires_grad_(False)
    on_cpu = settings.device == "cpu" or not torch.cuda.is_available()
    steps_in_all = math.ceil(len(rows) / (settings.batch * settings.accumulation)) * settings.epochs
    config = SFTConfig(
        output_dir=str(out / "steps"),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.rate,
        warmup_steps=round(settings.warm_up * steps_in_all),
        weight_decay=settings.weight_decay,
        adam_beta2=settings.second_moment,
        lr_scheduler_type="cosine",
        max_length=None,
        use_cpu=on_cpu,
        bf16=settings.precision == "bf16",
        gradient_checkpointing=settings.gradient_checkpointing and not on_cpu,
        dataloader_num_workers=settings.workers,
        logging_steps=max(1, min(20, int(steps_in_all / 10))),
        save_steps=settings.save_every,
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        seed=settings.seed,
    )

    class Ordered(SFTTrainer):
        def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
            if settings.ordered:
                return SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]
            return super()._get_train_sampler(*arguments, **options)

    class Report(TrainerCallback):
        def on_log(
            self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **rest: Any
        ) -> None:
            if logs and "loss" in logs:
                accuracy = float(logs.get("mean_token_accuracy", 0.0))
                log(
                    f"step {state.global_step}/{state.max_steps} loss {float(logs['loss']):.4f} "
                    f"token accuracy {accuracy:.4f} rate {float(logs['learning_rate']):.2e}"
                )

    trainer = Ordered(
        model=model,
        args=config,
        train_dataset=as_dataset(rows, images),
        processing_class=processor,
        callbacks=[Report()],
    )
    steps = out / "steps"
    trainer.train(resume_from_checkpoint=get_last_checkpoint(str(steps)) if steps.is_dir() else None)
    final = out / "final"
    finished = trainer.accelerator.unwrap_model(trainer.model)
    finished.to(torch.float16 if settings.half else torch.float32).save_pretrained(
        final, safe_serialization=True
    )
    processor.save_pretrained(final)
    if prompt_set is not None:
        prompt_set.save(final / "prompt_set")
    return final


def _check_lengths(rows: list[SftRow], processor: Any, cutoff: int) -> None:
    """Text length is a lower bound of a row's length: what is over the cutoff by text alone cannot be trained on."""
    texts = ["".join(message.content for message in row.messages) for row in rows]
    for start in range(0, len(texts), 4096):
        encoded = processor.tokenizer(texts[start : start + 4096], add_special_tokens=False)["input_ids"]
        for number, ids in enumerate(encoded, start):
            if len(ids) > cutoff:
                raise SettingsError(
                    f"Row {number} has {len(ids)} tokens of text; the cutoff is {cutoff}.",
                    "Shorten the row or raise --cutoff.",
                )
