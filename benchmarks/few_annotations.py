"""Measures what a custom critic learns from few annotations, with six ways of training.

    OMP_NUM_THREADS=1 python -m benchmarks.few_annotations --out runs/few

A few runs of a generator with a fault unknown to the shipped critic are annotated, and figures are measured
on new images of that generator. The simulated user of `evaluate own-critic` is lazy here: only every third
rejected image has a better prompt, and none has a note. Every way is a complete `own-critic` with its gate;
its critic is measured even if the gate rejects it. The shipped critic judges the same images, so differences
are paired. The same command continues a stopped run. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.feedback.log import read_feedback, record_feedback
from interleave_thinker.tinyworld.lab.data.oracle_critic import OracleCritic
from interleave_thinker.tinyworld.lab.own_critic.annotations import AnnotatedRuns, annotated_runs
from interleave_thinker.tinyworld.lab.own_critic.evaluate import (
    GATE,
    ShowSettings,
    judged_rows,
    old_rows,
    training_of,
)
from interleave_thinker.tinyworld.lab.own_critic.shifted_generator import shifted_generator
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import TinyWorldGenerator
from interleave_thinker.tinyworld.runtime.generator import open as open_world
from interleave_thinker.training.data.from_runs.convert import SFT_FILE
from interleave_thinker.training.data.from_runs.report import REPORT_JSON, RunsReport
from interleave_thinker.training.data.from_runs.settings import RunsData
from interleave_thinker.training.gate.gate_rule import Gate, Measured, measured
from interleave_thinker.training.gate.regression_gate import GATE_FILE, LEARNED_FILE, GateRefused, answers_of
from interleave_thinker.training.own_critic.own_critic import (
    TRAINED,
    OwnCriticAgents,
    OwnCriticData,
    OwnCriticSettings,
    train_own_critic,
)
from interleave_thinker.training.own_critic.rehearsal import Rehearsal
from interleave_thinker.training.statistics.intervals import agresti_min_interval
from interleave_thinker.training.trainer.resume import claim_run

BETTER_PROMPTS = 3
"""Every Nth rejection has a better prompt."""
OLD_SEED, PAGES_SEED = 60_000, 3_000_000
"""They differ from those of `evaluate own-critic`."""


@dataclass(frozen=True)
class Way:
    """One way to train on the annotations.

    Attributes:
        epochs: Epochs.
        exact: Whether the reasoning is exact.
        old_share: Share of old rows.
        part: Share of the runs.
    """

    epochs: float
    exact: bool
    old_share: float = 0.5
    part: float = 1.0

    @property
    def name(self) -> str:
        """The options that select this way."""
        reasoning = "--reasoning tinyworld " if self.exact else ""
        old = f" --old-share {self.old_share}" if self.old_share != 0.5 else ""
        part = f", {self.part:.2f} of the runs" if self.part < 1 else ""
        return f"{reasoning}--num-train-epochs {self.epochs:g}{old}{part}"


WAYS = (
    Way(6, exact=False),
    Way(1, exact=True),
    Way(3, exact=True),
    Way(6, exact=True),
    Way(2, exact=True, old_share=0.8),
    Way(8, exact=True, part=1 / 3),
)


def thin_out(run: Path, first: int) -> int:
    """Remove the better prompts from all but every third rejection of a run, counting from `first`.

    Returns the count after the run.
    """
    for one in read_feedback(run):
        if one.accepted is False:
            if first % BETTER_PROMPTS and one.better_prompt:
                record_feedback(run, one.model_copy(update={"better_prompt": None}))
            first += 1
    return first


def annotated(folder: Path, shifted: TinyWorldGenerator, settings: ShowSettings) -> tuple[list[Path], int]:
    """Return the folders of the annotated runs and the number of annotations."""
    runs = AnnotatedRuns(settings.runs, settings.attempts, settings.seed)
    count = annotated_runs(folder, shifted, runs, print)
    folders, rejected = sorted(folder.iterdir()), 0
    for run in folders:
        rejected = thin_out(run, rejected)
    return folders, count


def trained(out: Path, way: Way, runs: list[Path], old: Path, settings: ShowSettings) -> tuple[Path, bool]:
    """Return the folder in which this way trained a critic, and whether the gate accepted it."""
    folder = out / way.name.replace(" ", "_").replace(",", "")
    how = OwnCriticSettings(
        data=RunsData(reasoning="tinyworld" if way.exact else "own", held_out_runs=0.2),
        sft=training_of(settings.model_copy(update={"epochs": way.epochs})),
        rehearsal=Rehearsal(old_share=way.old_share, least_rows=1, least_steps=1),
        gate=GATE,
    )
    some = runs[: round(way.part * len(runs))]
    agents = OwnCriticAgents(oracle=OracleCritic() if way.exact else None)
    try:
        train_own_critic(checkpoint("critic"), OwnCriticData(some, old), folder, how, agents)
    except GateRefused as refused:
        print(refused)
        return folder, False
    return folder, True


def row_of(way: Way, folder: Path, passed: bool, before: Measured, after: Measured) -> dict[str, Any]:
    """Return the row of a way."""
    made = RunsReport.model_validate_json((folder / "data" / REPORT_JSON).read_text(encoding="utf-8"))
    gate = Gate.model_validate_json((folder / "sft" / GATE_FILE).read_text(encoding="utf-8"))
    held = folder / "sft" / LEARNED_FILE
    learned = "none"
    if held.exists():
        told = Gate.model_validate_json(held.read_text(encoding="utf-8"))
        learned = f"{told.before.accuracy.rate:.3f} to {told.after.accuracy.rate:.3f}"
    change = agresti_min_interval(after.hits, before.hits)
    return {
        "way": asdict(way),
        "rows": made.files[SFT_FILE].rows,
        "overruled": made.files[SFT_FILE].overruled,
        "right": str(after.accuracy),
        "wrong_refused": str(after.false_recall),
        "change": f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]",
        "held_out_annotations": learned,
        "gate": "passed" if passed else "refused: " + " ".join(gate.faults),
    }


def measure(out: Path, settings: ShowSettings) -> dict[str, Any]:
    """Run all ways below `out`, and print and return their table."""
    plain = open_world("")
    shifted = shifted_generator(plain, settings.shifted)
    runs, count = annotated(out / "runs", shifted, settings)
    old = old_rows(out / "old", plain, settings.old_rows, OLD_SEED + settings.seed)
    rows, pages = judged_rows(shifted, out / "pages", settings.pages, PAGES_SEED + settings.seed)
    truths = [page.success for page in pages]

    def judged(critic: Path) -> Measured:
        return measured(answers_of(critic, None, rows, GATE, "cpu"), truths)

    before = judged(checkpoint("critic"))
    print(f"{len(runs)} runs, {count} annotations; shipped critic: {before.accuracy}, {before.false_recall}")
    found = []
    for way in WAYS:
        folder, passed = trained(out, way, runs, old, settings)
        found.append(row_of(way, folder, passed, before, judged(folder / "sft" / TRAINED)))
    print("\n| | rows (overruling) | right verdicts | wrong pages refused | change | held-out | the gate |")
    print("|---|---|---|---|---|---|---|")
    for way, row in zip(WAYS, found, strict=True):
        cells = [way.name, f"{row['rows']} ({row['overruled']})", row["right"], row["wrong_refused"]]
        print(f"| {' | '.join([*cells, row['change'], row['held_out_annotations'], row['gate']])} |")
    return {"annotations": count, "shipped": str(before.accuracy), "ways": found}


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--old-rows", type=int, default=1600)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = vars(parser.parse_args())
    out: Path = options.pop("out")
    began = time.process_time()
    try:
        claim_run(out, {"stage": "few annotations", "better_prompts": BETTER_PROMPTS, **options})
        found = measure(out, ShowSettings(**options))
    except InterleaveError as error:
        raise SystemExit(str(error)) from error
    print(json.dumps({**found, "processor_seconds": round(time.process_time() - began)}))


if __name__ == "__main__":
    main()
