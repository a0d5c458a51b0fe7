"""A training that is killed with SIGKILL at any moment resumes to bit-identical weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("trl", reason='training needs: pip install "interleave-thinker[training]"')

from interleave_thinker.training.trainer.resume import is_whole, newest_checkpoint

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX"),
]
FAR_SIDE = Path(__file__).parents[1] / "support" / "killed_training.py"
KILLED = -signal.SIGKILL

Order = Callable[[str, Path, str], int]


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Order]:
    """Run a stage in its own process, to its end ("") or to a moment; returns the exit status."""
    folder = tmp_path_factory.mktemp("far")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with (folder / "errors.txt").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(FAR_SIDE), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        assert process.stdin and process.stdout
        sent, heard = process.stdin, process.stdout

        def run(stage: str, out: Path, moment: str = "") -> int:
            sent.write(json.dumps({"stage": stage, "out": str(out), "kill": moment}) + "\n")
            sent.flush()
            for line in heard:
                if line.startswith("exit "):
                    status = int(line.split()[1])
                    assert status in (0, KILLED), (folder / "errors.txt").read_text()[-4000:]
                    return status
            raise AssertionError((folder / "errors.txt").read_text()[-4000:])

        assert run("prepare", folder) == 0
        yield run
        sent.close()
        process.wait(60)


def lines(out: Path) -> list[str]:
    """Return the steps that were logged since the last call."""
    log = out.with_suffix(".log")
    said = [line.split(" | ")[0] for line in log.read_text().splitlines() if " | " in line]
    log.unlink()
    return said


def weights(out: Path) -> bytes:
    (file,) = (out / "final").glob("*.safetensors")
    return file.read_bytes()


@pytest.mark.parametrize("stage", ["sft", "lora"])
def test_fine_tuning(stage: str, order: Order, tmp_path: Path) -> None:
    straight, out = tmp_path / "straight", tmp_path / "killed"
    assert order(stage, straight, "") == 0 and lines(straight)[-1] == "step 4/4"
    steps = out / "steps"
    # While the first checkpoint is written: the optimiser's file is cut in half, and nothing is there to go
    # on from.
    assert order(stage, out, "half checkpoint-2/optimizer.pt") == KILLED
    assert (steps / "checkpoint-2" / "optimizer.pt").stat().st_size > 0 and newest_checkpoint(steps) is None
    lines(out)
    # Between two checkpoints.
    assert order(stage, out, "line step 3/") == KILLED
    assert lines(out)[0] == "step 1/4" and newest_checkpoint(steps) == steps / "checkpoint-2"
    # All steps are done, and the result is half written.
    assert order(stage, out, "open final.part/tokenizer_config.json") == KILLED
    assert lines(out)[0] == "step 3/4" and not (out / "final").exists()
    assert order(stage, out, "") == 0
    assert not out.with_suffix(".log").read_text().count(" | "), "no step is made again"
    assert weights(out) == weights(straight)


def test_reinforcement(order: Order, tmp_path: Path) -> None:
    straight, out = tmp_path / "straight", tmp_path / "killed"
    assert order("grpo", straight, "") == 0
    steps = out / "steps"
    # Everything of the checkpoint is there but the trainer's own state, which is written last.
    assert order("grpo", out, "open checkpoint-2/trainer_state.json") == KILLED
    assert (steps / "checkpoint-2" / "optimizer.pt").is_file() and not is_whole(steps / "checkpoint-2")
    lines(out)
    # In the middle of a rollout's updates.
    assert order("grpo", out, "line step 3/") == KILLED
    assert lines(out)[0] == "step 1/4" and newest_checkpoint(steps) == steps / "checkpoint-2"
    # While the last checkpoint is written.
    assert order("grpo", out, "half checkpoint-4/optimizer.pt") == KILLED
    assert lines(out)[0] == "step 3/4"
    assert (steps / "checkpoint-4").is_dir() and newest_checkpoint(steps) == steps / "checkpoint-2"
    assert order("grpo", out, "") == 0
    assert lines(out)[0] == "step 3/4"
    assert weights(out) == weights(straight)
    for name in ("checks.json", "rollouts/step_000000.jsonl", "rollouts/step_000002.jsonl"):
        assert (out / name).read_text() == (straight / name).read_text(), name
    drawn = out.with_suffix(".drawn").read_text().splitlines()
    assert len(drawn) == len(set(drawn)), "an image was generated twice"
    assert sorted(drawn) == sorted(straight.with_suffix(".drawn").read_text().splitlines())
