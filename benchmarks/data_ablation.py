"""What the data stages are worth in the tiny world, on trajectories and base agents of benchmarks/chain.py.

    OMP_NUM_THREADS=1 python benchmarks/data_ablation.py planner --chain runs/chain --out runs/rows
    OMP_NUM_THREADS=1 python benchmarks/data_ablation.py critic --chain runs/chain --out runs/filtered

planner: rows of all four kinds against whole plans alone (`--kinds text`), asked the questions of all kinds
about new stories. critic: `data filter` against every image as it came, asked about new
pages, half of them right.

Decision: both sides of a pair have the same base, trajectories and number of optimiser steps; only the rows
differ. A seed leaves out another third of the trajectories and shuffles in another order, so the spread
between seeds holds both. Pairs are compared case by case over all seeds. It goes on after a stop; the last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import conftest  # noqa: E402, F401 - makes the package importable

from interleave_thinker.backend.answers.reading import read_plan  # noqa: E402
from interleave_thinker.backend.errors import AnswerError  # noqa: E402
from interleave_thinker.backend.generators import open_generator  # noqa: E402
from interleave_thinker.backend.scorers import open_scorer  # noqa: E402
from interleave_thinker.backend.tinyworld.drawing import draw  # noqa: E402
from interleave_thinker.backend.types import Attempt, StepResult, StopReason, Trajectory  # noqa: E402
from interleave_thinker.training.data.planner_rows.kinds import Asking, Question  # noqa: E402
from interleave_thinker.training.data.planner_rows.make import PlannerRows  # noqa: E402
from interleave_thinker.training.data.planner_rows.settings import KINDS, PlannerRowsData  # noqa: E402
from interleave_thinker.training.evaluation.held_out import greedy_answers  # noqa: E402
from interleave_thinker.training.evaluation.intervals import paired, share  # noqa: E402
from interleave_thinker.training.rows.conversations import as_prompt_completion  # noqa: E402
from interleave_thinker.training.rows.row_sets import RowSet  # noqa: E402
from interleave_thinker.training.rows.sft import SftMessage, SftRow, read_rows  # noqa: E402
from interleave_thinker.training.runs.convert import RunConverter  # noqa: E402
from interleave_thinker.training.runs.settings import FilterData  # noqa: E402
from interleave_thinker.training.sft.train import SftData, SftTraining, train  # noqa: E402
from interleave_thinker.training.tinyworld.ablation.measures import verdicts_of  # noqa: E402
from interleave_thinker.training.tinyworld.data.judged_pages import balanced  # noqa: E402
from interleave_thinker.training.tinyworld.data.prompts import PROMPT_SET  # noqa: E402
from interleave_thinker.training.tinyworld.data.requests import Story, random_story  # noqa: E402
from interleave_thinker.training.tinyworld.stories import request_of  # noqa: E402

BATCH = 16
ALL_KINDS = {"all kinds": ",".join(KINDS), "whole plans": "text"}
FILTERED = {
    "filtered": FilterData(),
    "as they came": FilterData(
        improved_only=False, cut_at_best=False, floor=0.0, rl_share=0.0, rl_variance=1e9, balance=0.0
    ),
}


def chosen(chain: Path, seed: int) -> list[Path]:
    """Two thirds of the chain's trajectories, other ones for each of three seeds."""
    runs = sorted(path.parent for path in (chain / "runs").glob("*/execution_record.json"))
    return [run for number, run in enumerate(runs) if (number + seed) % 3]


def trained(start: Path, rows: RowSet, out: Path, seed: int, steps: int) -> Path:
    """A fine-tuning of so many optimiser steps."""
    settings = SftTraining(
        epochs=steps * BATCH / len(rows.rows),
        batch=BATCH,
        rate=1e-3,
        warm_up=0.05,
        weight_decay=0.01,
        second_moment=0.98,
        freeze_vision=False,
        device="cpu",
        precision="bf16",
        half="fp16",
        samples=0,
        tensorboard=False,
        save_every=10**6,
        seed=seed,
    )
    return train(start, SftData(rows), out, settings, PROMPT_SET, lambda line: None)


def answers(agent: Path, questions: Sequence[dict[str, Any]]) -> list[str]:
    """Greedy answers of a checkpoint."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    only_here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    model = AutoModelForImageTextToText.from_pretrained(
        agent, use_safetensors=True, dtype=torch.float32, **only_here
    )
    processor = AutoProcessor.from_pretrained(agent, **only_here)
    return greedy_answers(model, processor, questions, 400, 50)[0]


def steps_of(answer: str) -> object:
    try:
        return read_plan(answer).steps
    except AnswerError:
        return None


class Planners:
    """Rows of all kinds against whole plans alone."""

    arms = tuple(ALL_KINDS)
    start = "base/planner/checkpoint"

    def __init__(self, options: argparse.Namespace) -> None:
        rng = Random("data ablation")
        told = [as_told(random_story(rng, "evaluate")) for _ in range(options.cases)]
        self._asked = [
            question
            for number, trajectory in enumerate(told)
            for question in Asking(KINDS, PROMPT_SET).questions_of(f"new {number}", trajectory).questions
        ]

    def rows(self, arm: str, runs: list[Path], out: Path) -> RowSet:
        PlannerRows(PlannerRowsData(kinds=ALL_KINDS[arm]), PROMPT_SET, log=_silent).make(runs, out)
        return RowSet(read_rows(out / "planner_sft.json"), out)

    def right(self, agent: Path) -> dict[str, list[bool]]:
        """For each kind of question, whether the steps of each answer are exact."""
        said = answers(agent, [as_question(one) for one in self._asked])
        right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
        for asked, answer in zip(self._asked, said, strict=True):
            right[asked.kind].append(steps_of(answer) == steps_of(asked.answer))
        return right


def as_told(story: Story) -> Trajectory:
    """A story as a trajectory whose every page was right at the first attempt."""
    results, pages = [], iter(story.pages)
    for step in story.plan.steps:
        drawn = [Attempt(prompt=step.prompt, seed=0, image=draw(next(pages)))] if step.prompt else []
        reason = StopReason.accepted if drawn else StopReason.text_only
        results.append(
            StepResult(step=step, attempts=tuple(drawn), chosen=0 if drawn else None, stop_reason=reason)
        )
    return Trajectory(request=request_of(story), plan=story.plan, results=tuple(results))


def as_question(asked: Question) -> dict[str, Any]:
    message = SftMessage(role="user", content=asked.text)
    row = SftRow(
        messages=[message, SftMessage(role="assistant", content=asked.answer)],
        images=["-"] * len(asked.images),
    )
    return {"prompt": as_prompt_completion(row, Path())["prompt"], "images": list(asked.images)}


class Critics:
    """Filtered trajectories against every image as it came."""

    arms = tuple(FILTERED)
    start = "base/critic/checkpoint"

    def __init__(self, options: argparse.Namespace) -> None:
        self._pages = balanced(open_generator("tinyworld").pipeline, options.cases, 77)  # type: ignore[attr-defined]

    def rows(self, arm: str, runs: list[Path], out: Path) -> RowSet:
        converter = RunConverter(FILTERED[arm], PROMPT_SET, open_scorer("tinyworld"), log=_silent)
        converter.convert(runs, out)
        return RowSet(read_rows(out / "critic_sft.json"), out)

    def right(self, agent: Path) -> dict[str, list[bool]]:
        """Whether each verdict is right; on right pages, on wrong ones; whether each can be read."""
        said = [one.success if one else None for one in verdicts_of(agent, self._pages)]
        truth = [page.success for page in self._pages]
        right = [one == true for one, true in zip(said, truth, strict=True)]
        return {
            "verdicts": right,
            "right pages accepted": [ok for ok, true in zip(right, truth, strict=True) if true],
            "wrong pages refused": [ok for ok, true in zip(right, truth, strict=True) if not true],
            "answers read": [one is not None for one in said],
        }


def _silent(line: str) -> None:
    """The tables of every seed's data would hide those that are asked for."""


def carry_out(compared: Planners | Critics, options: argparse.Namespace) -> dict[str, Any]:
    """Train and ask every arm of every seed; each is noted as soon as it is known."""
    found: dict[str, list[dict[str, list[bool]]]] = {arm: [] for arm in compared.arms}
    sizes: dict[str, list[int]] = {arm: [] for arm in compared.arms}
    for seed in range(options.seeds):
        for arm in compared.arms:
            place = options.out / f"{arm.replace(' ', '-')}-{seed}"
            noted = place / "right.json"
            if not noted.exists():
                began, used = time.monotonic(), time.process_time()
                rows = compared.rows(arm, chosen(options.chain, seed), place / "rows")
                agent = trained(options.chain / compared.start, rows, place / "sft", seed, options.steps)
                right = compared.right(agent)
                noted.write_text(json.dumps({"rows": len(rows.rows), "right": right}))
                spent = f"{time.monotonic() - began:.0f} s, {time.process_time() - used:.0f} s of processor"
                shares = {name: round(share(one).rate, 3) for name, one in right.items()}
                print(f"seed {seed}, {arm}: {len(rows.rows)} rows, {shares} ({spent})", flush=True)
            note = json.loads(noted.read_text())
            found[arm].append(note["right"])
            sizes[arm].append(note["rows"])
    return table(found, sizes)


def table(found: dict[str, list[dict[str, list[bool]]]], sizes: dict[str, list[int]]) -> dict[str, Any]:
    """Shares of each seed, and the difference over all of them, case by case."""
    one, other = found
    whole: dict[str, Any] = {"rows": sizes}
    print(f"\n| | {one}, by seed | {other}, by seed | difference, 95 % |\n|---|---|---|---|")
    for name in found[one][0]:
        by_seed = {arm: [round(share(right[name]).rate, 3) for right in found[arm]] for arm in found}
        flat = {arm: [case for right in found[arm] for case in right[name]] for arm in found}
        gap = paired(flat[one], flat[other])
        shown = " | ".join(" ".join(f"{rate:.3f}" for rate in rates) for rates in by_seed.values())
        print(f"| {name} | {shown} | {gap} |")
        whole[name] = {**by_seed, "difference": gap.model_dump()}
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["planner", "critic"])
    parser.add_argument("--chain", type=Path, required=True, help="OUT of benchmarks/chain.py.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=250, help="Optimiser steps of 16 rows.")
    parser.add_argument("--cases", type=int, default=200, help="New stories, or new pages.")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    asked: Callable[[argparse.Namespace], Planners | Critics]
    asked = {"planner": Planners, "critic": Critics}[options.what]
    began, used = time.monotonic(), time.process_time()
    whole = carry_out(asked(options), options)
    whole |= {
        "what": options.what,
        "steps": options.steps,
        "cases": options.cases,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(time.process_time() - used, 1),
    }
    print(json.dumps(whole))


if __name__ == "__main__":
    main()
