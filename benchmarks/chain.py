"""Trains a planner and a critic of the tiny world from nothing, using only documented commands.

    OMP_NUM_THREADS=1 python -m benchmarks.chain --out runs/chain
    OMP_NUM_THREADS=1 python -m benchmarks.chain --out runs/chain --until rows   # the data alone

The stages are prompts, trajectories of a teacher, filter, planner rows and two trainings. Then both agents
are measured on held-out stories next to the shipped ones. Every stage is a command in its own process, so the
chain tests the documentation and its times are those of the commands. Finished stages are recorded in
OUT/chain.json and skipped by the next call. Training starts from `train tinyworld-base` (which has read
single sentences and described images, but planned no story and judged no image). The shipped agents are only
the teacher and the reference. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import ROOT

HERE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import conftest
from interleave_thinker.cli import main
main()
"""
"""Runs the `interleave-thinker` command of this checkout."""
TRAINED, SHIPPED = "trained", "shipped"


@dataclass(frozen=True)
class Stage:
    """One command of the chain."""

    name: str
    arguments: tuple[str, ...]

    def shown(self) -> str:
        """Return the command line."""
        return shlex.join(["interleave-thinker", *self.arguments])


def stages(out: Path, options: argparse.Namespace) -> list[Stage]:
    """Return the chain in order. The folder of each stage's result has its name."""

    def at(name: str) -> str:
        return str(out / name)

    def stage(name: str, command: str, *arguments: str) -> Stage:
        return Stage(name, (*command.split(), *arguments))

    training = ("--config", "tiny", "--bf16", "--seed", str(options.seed), "--learning-rate", "1e-3")
    training += ("--per-device-train-batch-size", "16", "--num-train-epochs")
    planner = (*training, str(options.planner_epochs), "--data", at("planner-rows/planner_sft.json"))
    critic = (*training, str(options.critic_epochs), "--data", at("critic-rows/critic_sft.json"))
    measured = ("--stories", str(options.stories), "--seed", "1", "--max-attempts", "1,3")
    trained = (
        "--planner",
        f"transformers:{at('planner/final')}",
        "--critic",
        f"transformers:{at('critic/final')}",
    )
    return [
        stage("base", "train tinyworld-base", "--out", at("base"), "--seed", str(options.seed)),
        stage(
            "prompts",
            "data tinyworld-prompts",
            *("--out", at("prompts"), "--rows", str(options.prompts), "--seed", str(options.seed)),
        ),
        stage(
            "trajectories",
            "data trajectories",
            *(at("prompts/prompts.jsonl"), "--out", at("runs"), "--parallel", "2"),
        ),
        stage(
            "filter",
            "data filter",
            *(at("runs"), "--out", at("critic-rows"), "--scorer", "tinyworld"),
            *("--critic-prompts", at("base/critic/checkpoint")),
        ),
        stage(
            "rows",
            "data planner-rows",
            *(at("runs"), "--out", at("planner-rows"), "--planner-prompts", at("base/planner/checkpoint")),
        ),
        stage(
            "planner",
            "train planner-sft",
            *("--init", at("base/planner/checkpoint"), *planner),
            *("--out", at("planner")),
        ),
        stage(
            "critic",
            "train critic-sft",
            *("--init", at("base/critic/checkpoint"), *critic),
            *("--out", at("critic")),
        ),
        stage(TRAINED, "evaluate tinyworld", *trained, *measured, "--json", at(f"{TRAINED}.json")),
        stage(SHIPPED, "evaluate tinyworld", *measured, "--json", at(f"{SHIPPED}.json")),
    ]


class Notes:
    """Finished stages and their times, stored in OUT/chain.json."""

    def __init__(self, out: Path) -> None:
        self._path = out / "chain.json"
        self.of: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            self.of = json.loads(self._path.read_text(encoding="utf-8"))

    def is_done(self, stage: Stage) -> bool:
        """Whether exactly this command has finished."""
        note = self.of.get(stage.name, {})
        return bool(note.get("done")) and note.get("command") == stage.shown()

    def add(self, stage: Stage, seconds: float, processor: float, done: bool) -> None:
        """Record a stage. Times of an interrupted stage are added up."""
        before = self.of.get(stage.name, {})
        if before.get("command") != stage.shown():
            before = {}
        self.of[stage.name] = {
            "command": stage.shown(),
            "seconds": round(before.get("seconds", 0.0) + seconds, 1),
            "processor_seconds": round(before.get("processor_seconds", 0.0) + processor, 1),
            "done": done,
        }
        self._path.write_text(json.dumps(self.of, indent=1) + "\n", encoding="utf-8")


def carry_out(stage: Stage, notes: Notes) -> None:
    """Run one command, and exit if it fails."""
    print(f"\n$ {stage.shown()}", flush=True)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", HERE, str(ROOT / "tests"), *stage.arguments])
    status, used = 1, None
    try:
        _, status, used = os.wait4(process.pid, 0)
    except KeyboardInterrupt:
        process.terminate()
        _, status, used = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    # data trajectories returns 3 if some trajectories were given up, which is normal for a teacher.
    done = code == 0 or (stage.name == "trajectories" and code == 3)
    notes.add(stage, time.monotonic() - began, used.ru_utime + used.ru_stime, done)
    if not done:
        sys.exit(f"{stage.name} ended with exit code {code}. Run the same command again to continue there.")


def figures(out: Path, notes: Notes) -> dict[str, Any]:
    """Return times, number of rows, and the figures of both pairs of agents."""
    spent = notes.of
    whole = {
        "seconds": {name: note["seconds"] for name, note in spent.items()},
        "processor_seconds": {name: note["processor_seconds"] for name, note in spent.items()},
    }
    chain = [name for name in spent if name != SHIPPED]
    for key in ("seconds", "processor_seconds"):
        whole[f"{key}_in_all"] = round(sum(spent[name][key] for name in chain), 1)
    rows = {"planner": out / "planner-rows/planner_sft.json", "critic": out / "critic-rows/critic_sft.json"}
    whole["rows"] = {
        name: len(json.loads(path.read_text(encoding="utf-8")))
        for name, path in rows.items()
        if path.exists()
    }
    for pair in (TRAINED, SHIPPED):
        path = out / f"{pair}.json"
        if path.exists():
            whole[pair] = json.loads(path.read_text(encoding="utf-8"))
    return whole


def show(whole: dict[str, Any]) -> None:
    """Print tables of the stages and figures."""
    print("\n| stage | clock, s | processor, s |\n|---|---|---|")
    for name, seconds in whole["seconds"].items():
        print(f"| {name} | {seconds:.0f} | {whole['processor_seconds'][name]:.0f} |")
    print(f"| all but the shipped agents' measure | {whole['seconds_in_all']:.0f} ", end="")
    print(f"| {whole['processor_seconds_in_all']:.0f} |")
    pairs = [pair for pair in (TRAINED, SHIPPED) if pair in whole]
    if not pairs:
        return
    print(f"\n| held-out stories | {' | '.join(pairs)} |\n|---|{'---|' * len(pairs)}")
    for name in whole[pairs[0]]["intervals"]:
        print(f"| {name} | {' | '.join(_share(whole[pair]['intervals'][name]) for pair in pairs)} |")
    for kind in ("stories", "steps"):
        for attempts in whole[pairs[0]][f"{kind}.success"]:
            shares = [_share(whole[pair][f"{kind}.success"][attempts]) for pair in pairs]
            print(f"| {kind} right, {attempts} attempts | {' | '.join(shares)} |")


def _share(share: dict[str, Any]) -> str:
    return f"{share['rate']:.3f} ({share['low']:.3f} to {share['high']:.3f})"


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=400)
    parser.add_argument("--planner-epochs", type=float, default=5)
    parser.add_argument("--critic-epochs", type=float, default=3)
    parser.add_argument("--stories", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--until", help="Last stage to run.")
    options = parser.parse_args()
    chain = stages(options.out, options)
    names = [stage.name for stage in chain]
    if options.until not in (None, *names):
        parser.error(f"unknown stage {options.until!r}; choose one of {', '.join(names)}")
    options.out.mkdir(parents=True, exist_ok=True)
    notes = Notes(options.out)
    for stage in chain:
        if not notes.is_done(stage):
            carry_out(stage, notes)
        if stage.name == options.until:
            break
    whole = figures(options.out, notes)
    show(whole)
    print(json.dumps(whole))


if __name__ == "__main__":
    main()
