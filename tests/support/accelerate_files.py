"""Trains with the accelerate files of the recipes on two CPU processes, and compares with one process.

Three optimizer steps over the rows of loss_table.py. Each file is used as it is, except for two processes
instead of eight and 32-bit weights, so that rounding of bfloat16 does not hide a difference. accelerate runs
FSDP on accelerators only: on a CPU it ignores the file without a message and trains with DDP. The worker
therefore starts the process group (gloo) as a CPU's and then reports it as that of accelerators.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import conftest  # noqa: F401 - names the package

from support.loss_table import settings_of, six_rows

from interleave_thinker.training.recipes.recipe import FOLDER
from interleave_thinker.training.rows.sft import RowSet
from interleave_thinker.training.stages.sft import SftData
from interleave_thinker.training.trainer.model_loading import count_parameters

STEPS = 3
RATE = 1e-3
RESULT = "trained.json"


class Trained(NamedTuple):
    """A training: loss and held-out loss of each step, its parameters, and how it was distributed."""

    losses: list[float]
    held_out: list[float]
    parameters: int
    how: str
    sharded: int
    """Number of weight tensors of which each process holds only a part."""


def trained(checkpoint: Path, images: Path, out: Path, split: tuple[int, int]) -> Trained:
    """Train with the trainer of `train sft`; the last checkpoint is `saved(out)`."""
    from interleave_thinker.training.stages.sft import _FineTuning

    rows = RowSet(six_rows(), images)
    changes = {"num_train_epochs": float(STEPS), "learning_rate": RATE}
    settings = settings_of(split, 0).model_copy(update=changes)
    tuning = _FineTuning(checkpoint, SftData(rows), out, settings, None, lambda line: None)
    trainer, _ = tuning._trainer(rows, rows, STEPS)
    counted, _ = count_parameters(trainer.model)
    trainer.train()
    assert trainer.state.global_step == STEPS
    log = trainer.state.log_history
    sharded = sum(hasattr(one, "ds_id") or hasattr(one, "full_tensor") for one in trainer.model.parameters())
    return Trained(
        [entry["loss"] for entry in log if "loss" in entry],
        [entry["eval_loss"] for entry in log if "eval_loss" in entry],
        counted,
        trainer.accelerator.distributed_type.value,
        sharded,
    )


def saved(out: Path) -> dict[str, Any]:
    """Return the weights in the file of the last checkpoint of a training in `out`.

    FSDP also writes the output layer, which is the same tensor as the embedding.
    """
    from safetensors.torch import load_file

    weights = load_file(out / "steps" / f"checkpoint-{STEPS}" / "model.safetensors")
    tied = weights.pop("lm_head.weight", None)
    assert tied is None or tied.equal(weights["model.language_model.embed_tokens.weight"])
    return weights


def apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the largest difference between two sets of weights."""
    assert one.keys() == other.keys()
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def on_two_processes(name: str, checkpoint: Path, images: Path, out: Path) -> Trained:
    """Train with the accelerate file of this name on two processes, three rows on each."""
    out.mkdir()
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(FOLDER / f"{name}.yaml"),
    ]
    changed = ["--num_processes", "2", "--mixed_precision", "no", "--main_process_port", "0"]
    worker = [__file__, "--worker", str(checkpoint), str(images), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*launch, *changed, *worker], env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Trained(*json.loads((out / RESULT).read_text()))


def _worker(checkpoint: Path, images: Path, out: Path) -> None:
    if os.environ.get("ACCELERATE_USE_FSDP") == "true":
        report_accelerators()
    found = trained(checkpoint, images, out, (3, 1))
    if os.environ["RANK"] == "0":
        (out / RESULT).write_text(json.dumps(found))


def report_accelerators() -> None:
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    start = PartialState.__init__

    def started(self: Any, *given: Any, **named: Any) -> None:
        start(self, *given, **named)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = started  # type: ignore[method-assign]


if __name__ == "__main__":
    _worker(*map(Path, sys.argv[2:]))
