"""Trainings in processes that kill themselves at a given moment, for test_training_kill.py.

One process imports the libraries and forks for every order, so that a killed training costs its steps and not
its imports. An order is a JSON line `{"stage", "out", "kill"}`; the answer is the child's exit status (minus
the signal).
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import conftest  # noqa: F401 - makes the package importable
import torch
from support.small_grpo import SMALL, make_data
from support.tiny_checkpoint import ACCEPTED, REFUSED, build_checkpoint, page

from interleave_thinker.backend.models.generators import open_generator
from interleave_thinker.backend.models.scorers import open_scorer
from interleave_thinker.tinyworld import checkpoint
from interleave_thinker.training.reward.critic_reward import RewardSettings, RewardSetup
from interleave_thinker.training.reward.redrawer import DrawingSettings
from interleave_thinker.training.rows.rl import read_rl_rows
from interleave_thinker.training.rows.sft import RowSet, SftMessage, SftRow
from interleave_thinker.training.stages import grpo, sft
from interleave_thinker.training.stages.grpo import CriticTask
from interleave_thinker.training.stages.grpo_settings import TrainingData
from interleave_thinker.training.trainer import callbacks  # noqa: F401 - imported before the forks


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str) -> None:
    """Die when a file is opened ("open NAME") or half of it is written ("half NAME"). `Log` handles lines."""
    kind, _, name = moment.partition(" ")
    if kind == "open":
        sys.addaudithook(
            lambda event, values: die() if event == "open" and str(values[0]).endswith(name) else None
        )
    elif kind == "half":
        save = torch.save

        def half(what: object, path: object, *rest: object, **options: object) -> None:
            if not str(path).endswith(name):
                return save(what, path, *rest, **options)  # type: ignore[arg-type]
            buffer = io.BytesIO()
            save(what, buffer)
            whole = buffer.getvalue()
            Path(str(path)).write_bytes(whole[: len(whole) // 2])
            die()

        torch.save = half  # type: ignore[assignment]


class Log:
    """Appends lines to a file; dies at "line BEGINNING"."""

    def __init__(self, path: Path, moment: str) -> None:
        self.path = path
        self.last = moment.removeprefix("line ") if moment.startswith("line ") else None

    def __call__(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{line}\n")
        if self.last is not None and line.startswith(self.last):
            die()


class Counted:
    """The tiny world's generator; writes what it generates to a file."""

    def __init__(self, path: Path) -> None:
        self.inner = open_generator("tinyworld")
        self.identity = self.inner.identity
        self.path = path

    def draw(self, prompt, source, seed):
        with self.path.open("a") as file:
            file.write(f"{seed} {source.digest if source else '-'} {prompt}\n")
        return self.inner.draw(prompt, source, seed)


def prepare(folder: Path) -> None:
    """Create what all trainings start from: a small model with two images, and rows about images."""
    build_checkpoint(folder / "base")
    for grey in (0, 255):
        page(grey).image.save(folder / f"{grey}.png")
    make_data(folder, right=0, wrong=8)


def fine_tune(folder: Path, out: Path, log: Log, **changes: object) -> None:
    rows = []
    for number in range(16):
        asked = SftMessage(role="user", content=f"<image><image>Is it light? {number % 3}")
        told = SftMessage(role="assistant", content=ACCEPTED if number % 2 else REFUSED)
        rows.append(SftRow(messages=[asked, told], images=["0.png", "255.png" if number % 2 else "0.png"]))
    settings = sft.SftTraining(
        num_train_epochs=1,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        device="cpu",
        save_steps=2,
    )
    settings = settings.model_copy(update={"freeze_vision": False, "tensorboard": False, **changes})
    sft.train(folder / "base", sft.SftData(RowSet(rows, folder)), out, settings, log=log)


def reinforce(folder: Path, out: Path, log: Log) -> None:
    rows, _ = read_rl_rows(folder / "critic_rl.jsonl")
    changes = {"check_rows": 2, "check_batch": 2, "temperature": 1.4, "tensorboard": False}
    settings = SMALL.model_copy(update=changes)
    reward = RewardSetup(
        Counted(out.with_suffix(".drawn")),
        open_scorer("tinyworld"),
        RewardSettings(),
        DrawingSettings(tries=1),
    )
    data = TrainingData(rows[2:], rows[:2], folder)
    grpo.train(checkpoint("critic"), data, out, settings, CriticTask(reward), log)


def adapt(folder: Path, out: Path, log: Log) -> None:
    """Train an adapter whose dropout requires the random state to be restored."""
    fine_tune(folder, out, log, lora_r=4, lora_dropout=0.2)


STAGES = {"sft": fine_tune, "lora": adapt, "grpo": reinforce}


def obey(folder: Path, stage: str, out: Path, moment: str) -> None:
    if stage == "prepare":
        return prepare(folder)
    arm(moment)
    STAGES[stage](folder, out, Log(out.with_suffix(".log"), moment))


def main(folder: Path) -> None:
    # Imported once here; otherwise every child would import it again.
    from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: F401
    from trl.trainer.sft_trainer import SFTTrainer  # noqa: F401

    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                obey(folder, order["stage"], Path(order["out"]), order["kill"])
            except BaseException:  # noqa: BLE001 - a forked child must not continue as its parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(f"exit {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
