"""How few annotations teach a critic of one's own something: a few annotated runs of a generator with a fault
that the shipped critic never saw, six ways to train on them, figures on new pages of that generator.

    OMP_NUM_THREADS=1 python benchmarks/few_annotations.py --out runs/few

Decision: the person is `evaluate own-critic`'s, but lazy: of the rejected images every third has a better
prompt, and none has a note. Every way is a whole `own-critic`, gate included, whose critic is measured also
if it is refused; the shipped critic answers the same pages, so differences are paired. The same command goes
on after a stop; the last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable

from interleave_thinker.backend.feedback.log import FEEDBACK, Feedback
from interleave_thinker.backend.tinyworld import checkpoint
from interleave_thinker.backend.tinyworld.generator import open as open_world
from interleave_thinker.training.evaluation.gate_rows import GateSettings
from interleave_thinker.training.evaluation.gate_rule import Measured, measured
from interleave_thinker.training.evaluation.intervals import cautious
from interleave_thinker.training.evaluation.regression_gate import GateRefused, answers_of
from interleave_thinker.training.rows.row_sets import RowSet
from interleave_thinker.training.rows.sft import write_rows
from interleave_thinker.training.runs.convert import SFT_FILE
from interleave_thinker.training.runs.own_critic import (
    TRAINED,
    OwnCriticAgents,
    OwnCriticData,
    OwnCriticSettings,
    train_own_critic,
)
from interleave_thinker.training.runs.rehearsal import Rehearsal
from interleave_thinker.training.runs.report import REPORT_JSON
from interleave_thinker.training.runs.settings import RunsData
from interleave_thinker.training.tinyworld.data.critic_rows import PageFolder, judge_row, make_mistakes
from interleave_thinker.training.tinyworld.data.oracle_critic import OracleCritic
from interleave_thinker.training.tinyworld.own_critic.annotations import AnnotatedRuns, annotated_runs
from interleave_thinker.training.tinyworld.own_critic.evaluate import ShowSettings, training_of
from interleave_thinker.training.tinyworld.own_critic.shifted_generator import shifted_generator
from interleave_thinker.training.tinyworld.world.judged_pages import balanced

OLD_SEED, PAGES_SEED = 60_000, 3_000_000
BETTER_PROMPTS = 3
"""Every which rejection has a better prompt."""
GATE = GateSettings(gate_tokens=320, gate_batch=50)


@dataclass(frozen=True)
class Way:
    """One way to train on the annotations: passes over the rows, whether the reasoning is exact, the share of
    old rows, of how many of the runs."""

    epochs: float
    exact: bool
    old_share: float = 0.5
    part: float = 1.0

    @property
    def name(self) -> str:
        reasoning = "--reasoning tinyworld " if self.exact else ""
        old = f" --old-share {self.old_share}" if self.old_share != 0.5 else ""
        part = f", {self.part:.2f} of the runs" if self.part < 1 else ""
        return f"{reasoning}--epochs {self.epochs:g}{old}{part}"


WAYS = (
    Way(6, exact=False),
    Way(1, exact=True),
    Way(3, exact=True),
    Way(6, exact=True),
    Way(2, exact=True, old_share=0.8),
    Way(8, exact=True, part=1 / 3),
)


def thin_out(run: Path, first: int) -> int:
    """Take the better prompts of a run's rejections away but for every third, counted on from `first`;
    returns the count after it."""
    path, kept = run / FEEDBACK, []
    for line in path.read_text(encoding="utf-8").splitlines():
        one = Feedback.model_validate_json(line)
        if one.accepted is False:
            if first % BETTER_PROMPTS:
                one = one.model_copy(update={"better_prompt": None})
            first += 1
        kept.append(one.model_dump_json(exclude_none=True))
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return first


def annotated(out: Path, options: argparse.Namespace) -> tuple[list[Path], int]:
    """The folders of the annotated runs, and how many annotations they have."""
    noted = out / "annotations.json"
    if not noted.exists():
        shifted = shifted_generator(open_world(""))
        count = annotated_runs(out / "runs", shifted, AnnotatedRuns(options.runs, 3, options.seed), print)
        rejected = 0
        for run in sorted((out / "runs").iterdir()):
            if (run / FEEDBACK).exists():
                rejected = thin_out(run, rejected)
        noted.write_text(json.dumps({"annotations": count, "rejected": rejected}), encoding="utf-8")
    return sorted((out / "runs").iterdir()), json.loads(noted.read_text(encoding="utf-8"))["annotations"]


def old_rows(out: Path, options: argparse.Namespace) -> Path:
    path = out / "old" / SFT_FILE
    if not path.exists():
        rows = make_mistakes(path.parent, open_world("").pipeline, options.old_rows, OLD_SEED + options.seed)
        write_rows(path, rows)
    return path


def trained(out: Path, way: Way, runs: list[Path], old: Path, seed: int) -> tuple[Path, bool]:
    """The critic that this way makes, and whether the gate let it pass."""
    folder = out / way.name.replace(" ", "_").replace(",", "")
    settings = OwnCriticSettings(
        data=RunsData(reasoning="tinyworld" if way.exact else "own", held_out_runs=0.2),
        sft=training_of(ShowSettings(epochs=way.epochs, seed=seed)),
        rehearsal=Rehearsal(old_share=way.old_share, least_rows=1, least_steps=1),
        gate=GATE,
    )
    some = runs[: round(way.part * len(runs))]
    agents = OwnCriticAgents(oracle=OracleCritic() if way.exact else None)
    try:
        train_own_critic(checkpoint("critic"), OwnCriticData(some, old), folder, settings, agents)
        passed = True
    except GateRefused as refused:
        print(refused)
        passed = False
    return folder, passed


def row_of(way: Way, folder: Path, passed: bool, before: Measured, after: Measured) -> dict[str, Any]:
    made = json.loads((folder / "data" / REPORT_JSON).read_text(encoding="utf-8"))["files"][SFT_FILE]
    state = json.loads((folder / "sft" / "learned.json").read_text(encoding="utf-8"))
    change = cautious(after.hits, before.hits)
    return {
        "way": asdict(way),
        "rows": made["rows"],
        "overruled": made["overruled"],
        "right": str(after.accuracy),
        "wrong_refused": str(after.false_recall),
        "change": f"{change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}]",
        "held_out_annotations": f"{state['before']['accuracy']['rate']:.3f} to "
        f"{state['after']['accuracy']['rate']:.3f}",
        "gate_passed": passed,
        "gate": json.loads((folder / "sft" / "gate.json").read_text(encoding="utf-8"))["faults"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--old-rows", type=int, default=1600)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    out: Path = options.out
    began = time.process_time()
    runs, count = annotated(out, options)
    old = old_rows(out, options)
    pages = balanced(shifted_generator(open_world("")).pipeline, options.pages, PAGES_SEED + options.seed)
    rows = RowSet([judge_row(page, PageFolder(out / "pages" / "images")) for page in pages], out / "pages")
    truths = [page.success for page in pages]

    def judged(critic: Path) -> Measured:
        return measured(answers_of(critic, None, rows, GATE, "cpu"), truths)

    before = judged(checkpoint("critic"))
    print(f"{len(runs)} runs, {count} annotations; shipped critic: {before.accuracy}, {before.false_recall}")
    found = []
    for way in WAYS:
        folder, passed = trained(out, way, runs, old, options.seed)
        after = judged(folder / "sft" / TRAINED)
        found.append(row_of(way, folder, passed, before, after))
    print("\n| | rows (overruling) | right verdicts | wrong pages refused | change | held-out | the gate |")
    print("|---|---|---|---|---|---|---|")
    for way, row in zip(WAYS, found, strict=True):
        verdict = "passed" if row["gate_passed"] else "refused: " + " ".join(row["gate"])
        cells = [way.name, f"{row['rows']} ({row['overruled']})", row["right"], row["wrong_refused"]]
        print(f"| {' | '.join([*cells, row['change'], row['held_out_annotations'], verdict])} |")
    whole = {"annotations": count, "shipped": str(before.accuracy), "ways": found}
    print(json.dumps({**whole, "processor_seconds": round(time.process_time() - began)}))


if __name__ == "__main__":
    main()
