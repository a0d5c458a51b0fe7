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
    num_train_epochs=1, per_device_train_batch_size=4, learning_rate=1e-2, warmup_steps=0,
    freeze_vision=False, device="cpu", save_steps=2, tensorboard=False,
)  # fmt: skip
GRPO = small_grpo.SMALL.model_copy(
    update={"num_generations": 2, "per_device_train_batch_size": 2, "max_completion_length": 16}
    | {"check_rows": 2, "check_batch": 2}
)


class Killed(BaseException):
    """Represents a killed process: the exception is not caught."""


class AtStep:
    """Log that collects lines, and acts at the first line of a step."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        self.beginning, self.act = f"step {step}/", act
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if line.startswith(self.beginning) and " | " in line:
            self.beginning = "done"
            self.act()


def die() -> None:
    raise Killed


def quiet(line: str) -> None:
    """Ignore a line of progress."""


def prepare(folder: Path) -> Path:
    """Create the critic, its images and the rows of reinforcement in a folder."""
    build_checkpoint(folder / "base")
    for grey in (0, 255):
        page(grey).image.save(folder / f"{grey}.png")
    page(9, (96, 96)).image.save(folder / "large.png")
    # Without the held-out rows, each rollout is an epoch of its own.
    small_grpo.make_data(folder, 3, 2)
    return folder


def sft_row(question: str, answer: str, *images: str, **fields: Any) -> SftRow:
    """Return a row that shows these images before its question."""
    turns = [
        SftMessage(role="user", content=f"{'<image>' * len(images)}{question}"),
        SftMessage(role="assistant", content=answer),
    ]
    return SftRow(messages=turns, images=list(images), **fields)


def sft_rows(count: int = 16, questions: int = 3) -> list[SftRow]:
    """Return rows that ask about a light or a dark image, in this number of different wordings."""
    return [
        sft_row(
            f"Is it light? {number % questions}",
            ACCEPTED if number % 2 else REFUSED,
            "0.png",
            f"{number % 2 * 255}.png",
        )
        for number in range(count)
    ]


def sft(folder: Path, out: Path, log: Log = quiet, **changes: Any) -> Path:
    """Fine-tune the critic in 4 steps; `rows` and `measured` replace its rows."""
    rows = RowSet(changes.pop("rows", sft_rows()), folder)
    data = SftData(rows, measured=changes.pop("measured", None), role="critic")
    settings = SFT.model_copy(update=changes)
    return train_sft(folder / "base", data, out, settings, default_prompt_set(), log)


def grpo(folder: Path, out: Path, log: Log = quiet, **changes: Any) -> Path:
    """Reinforce the tiny world's critic in 2 rollouts of 2 steps."""
    return small_grpo.run(folder / "critic_rl.jsonl", out, GRPO.model_copy(update=changes), log)


def weights(folder: Path, name: str = "model.safetensors") -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / name)


def moved(old: Path, new: Path) -> set[str]:
    """Return the names of the weights that differ."""
    first, second = weights(old), weights(new)
    assert first.keys() == second.keys()
    return {name for name in first if not first[name].float().equal(second[name].float())}


STAGES = {"sft": sft, "critic-grpo": grpo}
