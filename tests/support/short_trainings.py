"""The shortest training of each stage, on a tiny random critic and two images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import small_grpo
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_checkpoint, page

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.training.rows.sft import RowSet, SftMessage, SftRow
from interleave_thinker.training.stages.sft import SftData, SftTraining
from interleave_thinker.training.stages.sft import train as train_sft

Log = Callable[[str], None]

SFT = SftTraining(
    num_train_epochs=1,
    per_device_train_batch_size=4,
    learning_rate=1e-2,
    freeze_vision=False,
    device="cpu",
    save_steps=2,
    tensorboard=False,
)
GRPO = small_grpo.SMALL.model_copy(
    update={"updates": 2, "num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 16}
    | {"tensorboard": False, "check_rows": 2, "check_batch": 2}
)


def quiet(line: str) -> None:
    """Ignore a line of progress."""


def prepare(folder: Path) -> Path:
    """Create the critic, its images and the rows of reinforcement in a folder."""
    build_checkpoint(folder / "base")
    for grey in (0, 255):
        page(grey).image.save(folder / f"{grey}.png")
    small_grpo.make_data(folder, 4, 6)
    return folder


def sft_rows(count: int = 16) -> list[SftRow]:
    """Return rows that ask about a light or a dark image."""
    rows = []
    for number in range(count):
        asked = SftMessage(role="user", content=f"<image><image>Is it light? {number % 3}")
        told = SftMessage(role="assistant", content=ACCEPTED if number % 2 else REFUSED)
        rows.append(SftRow(messages=[asked, told], images=["0.png", "255.png" if number % 2 else "0.png"]))
    return rows


def sft(folder: Path, out: Path, log: Log = quiet, **changes: Any) -> Path:
    """Fine-tune the critic in 4 steps."""
    data = SftData(RowSet(sft_rows(), folder), role="critic")
    return train_sft(folder / "base", data, out, SFT.model_copy(update=changes), default_prompt_set(), log)


def grpo(folder: Path, out: Path, log: Log = quiet, **changes: Any) -> Path:
    """Reinforce the tiny world's critic in 2 rollouts of 2 steps."""
    return small_grpo.run(folder / "critic_rl.jsonl", out, GRPO.model_copy(update=changes), log)


STAGES = {"sft": sft, "critic-grpo": grpo}
