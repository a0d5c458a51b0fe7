"""trl's SFT trainer: rows in file order (a curriculum), losses averaged over tokens, masked answers.

The loss is the mean over all learned tokens of an optimizer step, over its micro-batches and all ranks. trl
divides by this number of tokens if the trainer counts them. transformers does not count them for models with
`accepts_loss_kwargs = False` (Qwen3-VL and most other vision-language models), so counting is enabled here.
The held-out loss is the mean over all tokens of its rows, for the same reason. Rows that accelerate repeats
to fill the last batch of each rank are neither learned nor measured twice.

trl's collator builds a batch, and labels that must not be learned are removed afterwards. To find which
tokens belong to a part of an answer, the learned tokens are decoded and encoded again with offsets. The chat
template may therefore add anything around the answer; a template that changes the answer itself raises an
error instead of teaching something wrong. A token that is only partly in a masked part is masked as well.

This module needs trl, so only training code imports it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import SequentialSampler
from transformers import TrainerCallback
from trl.trainer.sft_trainer import SFTTrainer

from ...backend.core.errors import TrainingError
from ...backend.core.pictures import Picture
from ...backend.core.seams.chat_model import MAX_PIXELS, scaled_down
from ..trainer.resume import is_to_stop, lowest, measured_losses

IGNORE_INDEX = -100
"""Label of a token that the loss ignores."""
CONTEXT = 40
"""Characters before and after a part that identify its position."""


class MaskedImageCollator:
    """Wraps trl's `collator`: scales images down and masks the parts listed in `not_learned`.

    Images are scaled as by the running agents, and to at most `pixels`. The batch is that of trl, with
    `input_ids` and `labels` of the shape `(rows, tokens)`.
    """

    def __init__(
        self, collator: Callable[[list[dict[str, Any]]], Any], pixels: int, tokenizer: Any = None
    ) -> None:
        self.collator = collator
        self.pixels = pixels
        self.tokenizer = tokenizer

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        """Return trl's batch of these examples with masked labels."""
        for example in examples:
            area = min(self.pixels, MAX_PIXELS)
            example["images"] = [scaled_down(Picture(image), area).image for image in example["images"]]
        marked = [(_answer(example), _parts(example)) for example in examples]
        batch = self.collator(examples)
        for number, (answer, parts) in enumerate(marked):
            if parts:
                mask_labels(
                    self.tokenizer, batch["input_ids"][number], batch["labels"][number], answer, parts
                )
        return batch


def mask_labels(tokenizer: Any, ids: Any, labels: Any, answer: str, parts: Sequence[tuple[int, int]]) -> None:
    """Set the labels of parts of an answer to `IGNORE_INDEX`, in place.

    Args:
        tokenizer: Tokenizer of the model.
        ids: Token ids of one row, `(tokens,)`.
        labels: Labels of the row, `(tokens,)`.
        answer: Text of the answer.
        parts: Character ranges `(start, end)` of the answer.

    Raises:
        TrainingError: The learned tokens of the row do not decode to this answer.
    """
    places = (labels != IGNORE_INDEX).nonzero().flatten()
    learned = ids[places].tolist()
    text = tokenizer.decode(learned, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if encoded["input_ids"] != learned:
        raise TrainingError(
            "Cannot mask a part of an answer: the learned tokens do not decode to the answer.",
            "Use a checkpoint whose tokenizer and chat template belong together.",
        )
    for start, end in parts:
        first, last = _found(text, answer, start, end)
        inside = [begin < last and first < stop for begin, stop in encoded["offset_mapping"]]
        for place, within in zip(places.tolist(), inside, strict=True):
            if within:
                labels[place] = IGNORE_INDEX


def _found(text: str, answer: str, start: int, end: int) -> tuple[int, int]:
    """Return the range of this part of the answer in `text`, the decoded tokens."""
    pieces = (answer[max(0, start - CONTEXT) : start], answer[start:end], answer[end : end + CONTEXT])
    # Some tokenizers normalize text to composed characters (NFC).
    for before, part, after in (pieces, [unicodedata.normalize("NFC", piece) for piece in pieces]):
        if text.count(before + part + after) == 1:
            first = text.index(before + part + after) + len(before)
            return first, first + len(part)
    raise TrainingError(
        f"The checkpoint's chat template changes the answer at {answer[start:end]!r}.",
        "Train without such rows: write the refined prompt yourself, or remove the annotation.",
    )


def _answer(example: dict[str, Any]) -> str:
    content = example["completion"][0]["content"]
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def _parts(example: dict[str, Any]) -> list[tuple[int, int]]:
    return [(start, end) for start, end in example["completion"][0].get("not_learned") or []]


class RowTrainer(SFTTrainer):
    """SFT trainer with losses averaged over tokens; with `ordered` it keeps the order of the rows."""

    def __init__(self, ordered: bool, **options: Any) -> None:
        self.ordered = ordered
        self._measured = (0.0, 0)
        """Sum of the held-out loss over tokens, and the number of tokens, on this rank."""
        super().__init__(**options)
        self.model_accepts_loss_kwargs = True

    def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
        if self.ordered:
            return SequentialSampler(self.train_dataset)  # pyright: ignore[reportArgumentType]
        return super()._get_train_sampler(*arguments, **options)

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> Any:
        """Return the micro-batches of an optimizer step and their number of learned tokens on all ranks."""
        rows, size = len(self.train_dataset), self.args.per_device_train_batch_size  # pyright: ignore[reportArgumentType]
        batches = (self._without_repeats(batch, rows, size) for batch in epoch_iterator)
        return super().get_batch_samples(batches, num_batches, device)

    def prediction_step(
        self, model: Any, inputs: Any, *arguments: Any, **options: Any
    ) -> tuple[Any, None, None]:
        """Measure the mean loss of a held-out batch, and add it to the sum over tokens.

        Returns:
            (loss as a scalar tensor, None, None).
        """
        rows, size = len(self.eval_dataset), self.args.per_device_eval_batch_size  # pyright: ignore[reportArgumentType]
        inputs = self._prepare_inputs(self._without_repeats(inputs, rows, size))
        tokens = int((inputs["labels"][:, 1:] != IGNORE_INDEX).sum())
        with torch.no_grad(), self.compute_loss_context_manager():
            loss: Any = self.compute_loss(model, inputs)
        if tokens:
            total, counted = self._measured
            self._measured = total + float(loss) * tokens, counted + tokens
        return loss, None, None

    def evaluation_loop(self, *arguments: Any, metric_key_prefix: str = "eval", **options: Any) -> Any:
        """Measure all held-out rows; the loss is the mean over the tokens of all batches and ranks."""
        self._measured = (0.0, 0)
        found: Any = super().evaluation_loop(*arguments, metric_key_prefix=metric_key_prefix, **options)
        here = torch.tensor(self._measured, dtype=torch.float32, device=self.accelerator.device)
        summed: Any = self.accelerator.reduce(here, "sum")
        total, tokens = summed.tolist()
        found.metrics[f"{metric_key_prefix}_loss"] = total / tokens if tokens else math.nan
        return found

    def _without_repeats(self, batch: Any, rows: int, size: int) -> Any:
        """Mask the labels of repeated rows in the last batch of a dataset.

        Args:
            batch: Batch whose `labels` have the shape `(size, tokens)`.
            rows: Number of rows of the dataset.
            size: Batch size of a rank.
        """
        state, ranks = self.accelerator.gradient_state, self.accelerator.num_processes
        left = rows % (size * ranks)
        if ranks > 1 and left and state.end_of_dataloader:
            batch["labels"][max(0, left - self.accelerator.process_index * size) :] = IGNORE_INDEX
        return batch


Log = Callable[[str], None]


class HeldOutLoss(TrainerCallback):
    """Logs the held-out loss and stops the training after `patience` measurements without a lower one.

    With `patience=None` it never stops the training.
    """

    def __init__(self, log: Log, patience: int | None) -> None:
        self.log = log
        self.patience = patience

    def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
        """Log the loss that was just measured, and request a stop if it is time."""
        losses = measured_losses(state.log_history)
        best, step = lowest(losses), state.global_step
        if best is None or step not in losses:
            self.log(f"step {step} held out: the loss is not finite")
            return control
        known = "the lowest so far" if best == step else f"lowest {losses[best]:.4f} at step {best}"
        self.log(f"step {step} held out: loss {losses[step]:.4f} ({known})")
        if is_to_stop(losses, self.patience):
            count = sum(measured > best for measured in losses)
            self.log(f"STOPPING: no lower held-out loss at the {count} checkpoints since step {best}")
            control.should_training_stop = True
        return control
