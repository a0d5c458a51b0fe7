"""Runs the walk-through: `python -m benchmarks.cluster --help`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.ray_here import importable
from support.small_teachers import records

from interleave_thinker.training.recipes.recipe import FOLDER

from ..rows_side_by_side import files_in
from . import nodes
from .disturbance import Disturbance
from .walk import GIVEN_UP, Walk, own_port

KEYS = "INTERLEAVE_SERVICE_KEY", "INTERLEAVE_GENERATOR_KEY"
FSDP2 = f"--config_file {FOLDER / 'accelerate-fsdp2.yaml'} --num_machines 2 --num_processes 2"
SMALL_SFT = "--max-steps 6 --save-steps 2 --per-device-train-batch-size 16"
SAVED = "checkpoint-2"
WEIGHTS = "model.safetensors"
SMALL_GRPO = "--prompts 4 --num-generations 4 --per-device-train-batch-size 8 --rollouts 2 --save-every 1 "
SMALL_GRPO += "--check-rows 5 --check-batch 5"
NO_VLLM = 2
"""Exit code of a command whose library is not installed."""


def calls(runs: Path) -> int:
    """Return the number of calls of models in all ledgers."""
    return sum(len(path.read_bytes().splitlines()) for path in runs.glob("*/ledger.jsonl"))


def unequal(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return the names of files that differ, or that only one side has."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def data(walk: Walk, doomed: Any, rows: int, service: str) -> dict[str, Any]:
    """Make trajectories and rows, with and without the death of a node; returns the comparison."""
    work = f"--out runs --ray auto --workers 3 --generator http:{service}"
    to_rows = "data filter runs --out rows --scorer tinyworld --critic-prompts tinyworld:critic"
    ended = (0, GIVEN_UP)
    calm = walk.inside("undisturbed")
    calm.run("trajectories", f"data trajectories ../prompts/prompts.jsonl {work}", allowed=ended)
    calm.run("filter", to_rows)
    disturbance = Disturbance(walk, walk.out / "runs", doomed, rows // 3, service)
    walk.run("trajectories", f"data trajectories prompts/prompts.jsonl {work}", disturbance.look, ended)
    walk.run("filter", f"{to_rows} --ray auto --workers 2")
    ones, others = records(calm.out / "runs"), records(walk.out / "runs")
    return {
        "killed": disturbance.killed,
        "in_progress": disturbance.in_progress,
        "runs": len(list((walk.out / "runs").glob("*/execution_record.json"))),
        "failed": (walk.out / "runs" / "failed.jsonl").exists(),
        "files": len(ones),
        "unequal": unequal(ones, others),
        "calls": [calls(one.out / "runs") for one in (calm, walk)],
        "row_files": len(files_in(walk.out / "rows")),
        "unequal_rows": unequal(files_in(calm.out / "rows"), files_in(walk.out / "rows")),
        "undisturbed_seconds": calm.seconds,
    }


def training(walk: Walk, service: str) -> dict[str, Any]:
    """Fine-tune, with the second machine killed in the middle, and reinforce; returns the comparison."""
    sft = f"train critic-sft --config tiny --data rows/critic_sft.json {SMALL_SFT}"
    walk.launched("sft-undisturbed", launch(), f"{sft} --out sft-undisturbed")
    killed: list[str] = []

    def kill() -> None:
        if not killed and (walk.out / "sft/steps" / SAVED).is_dir():
            killed.extend(nodes.kill(walk.processes[1].pid))
            walk.say(f"  SIGKILL to machine 1 after {SAVED}")

    walk.launched("sft-killed", launch(), f"{sft} --out sft", kill, (1, -signal.SIGKILL))
    distributed = walk.launched("sft", launch(), f"{sft} --out sft").splitlines()[-1]
    walk.say(f"  {distributed}")
    weights = [(walk.out / name / "final" / WEIGHTS).read_bytes() for name in ("sft", "sft-undisturbed")]
    grpo = "train critic-grpo --config tiny --data rows/critic_rl.jsonl --model sft/final --scorer tinyworld "
    grpo += f"--generator http:{service} --out grpo {SMALL_GRPO}"
    said = walk.run("vllm", f"{grpo} --use-vllm --vllm-mode colocate --dry-run", allowed=(0, NO_VLLM))
    walk.say(f"  {said.splitlines()[-1]}")
    walk.launched("grpo", launch(), grpo)
    return {"distributed": distributed, "equal_weights": weights[0] == weights[1]}


def launch() -> str:
    """Return the options of `accelerate launch` for two machines."""
    return f"{FSDP2} --mixed_precision no --main_process_ip 127.0.0.1 --main_process_port {own_port()}"


def main() -> None:
    """Run the walk-through and print its figures."""
    parser = argparse.ArgumentParser(
        description=sys.modules[__package__ or ""].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="New folder.")
    parser.add_argument("--rows", type=int, default=24, help="Number of prompts.")
    parser.add_argument("--until", choices=("filter", "grpo"), default="grpo", help="Last stage.")
    options = parser.parse_args()
    out, port = options.out.resolve(), own_port()
    out.mkdir(parents=True)
    os.environ |= dict.fromkeys(KEYS, "miniature")
    walk, service = Walk(out), f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as package, importable(Path(package)):
        walk.run("prompts", f"data tinyworld-prompts --out prompts --rows {options.rows}")
        with nodes.three_nodes(cpus=2) as doomed:
            walk.say("three Ray nodes: 1 (head), 2, 3")
            # Without a cache of images, so that both runs generate all of them.
            served = (
                f"serve --generator tinyworld --devices cpu,cpu,cpu --keep 0 --host 0.0.0.0 --port {port}"
            )
            with walk.served(f"{served} --ray auto --replica-cpus 0.5"):
                figures = {"equal_weights": True} | data(walk, doomed, options.rows, service)
                if options.until == "grpo":
                    figures |= training(walk, service)
    print(json.dumps(figures | {"seconds": walk.seconds}))
    equal = not figures["unequal"] and not figures["unequal_rows"] and figures["equal_weights"]
    sys.exit(0 if figures["killed"] and equal else 1)


if __name__ == "__main__":
    main()
