"""Cost of the agents with and without the pack's savings, on identical work.

    python -m research.experiments.agents    # the mixed profile, saving by saving; the last line is JSON
    python -m research.experiments.agents --profiles easy mixed hard guided --side 512 --pairs 5
    python -m research.experiments.agents --model real-proportions   # proportions of Qwen3-VL-8B
    python -m research.experiments.agents --tables ablation --pairs 6    # the default without each saving
    python -m research.experiments.agents --tables engine policy     # different numerics; fewer tokens

Equality is checked first, and no ratio is printed for work that was not equal. Times are processor time of
this process on one thread, in interleaved pairs (A B A B ...); the result is the median of the pairs' ratios
with their range. Savings that change nothing (exact), the numerics (engine) or the work itself (policy) are
in separate tables.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set

from .agents_loops import (
    ALL,
    DEFAULT,
    MODELS,
    POLICY_WAYS,
    PROFILES,
    WAYS,
    WITHOUT,
    Cost,
    Ours,
    Outcome,
    PlainLoop,
    Way,
    Work,
    build,
    build_adapter,
    costing,
    engine_ways,
    make_work,
)

Measure = Callable[[Any], tuple[Any, Any]]
CONFIDENCE = 0.95


def relative_rows(systems: Sequence[Any], measure: Measure, rounds: int) -> list[dict[str, Any]]:
    """Return a row for every system, with its time relative to the first one.

    Args:
        systems: The default, then others.
        measure: Runs a system; returns its outcome and its cost.
        rounds: Number of times that each system runs.
    """
    seconds: list[list[float]] = [[] for _ in systems]
    counts: list[dict[str, int]] = [{} for _ in systems]
    for number in range(rounds):
        for index in range(len(systems)):
            at = (index + number) % len(systems)
            _, cost = measure(systems[at])
            seconds[at].append(cost.cpu_seconds)
            counts[at] = cost.counts()
    rows = []
    for system, own, counted in zip(systems, seconds, counts, strict=True):
        ratios = [after / before for before, after in zip(seconds[0], own, strict=True)]
        row = {"way": system.name, "counts": counted, "cpu_seconds": round(median(own), 3)}
        rows.append(row | {"ratio": round(median(ratios), 3), "interval": median_interval(ratios)})
    return rows


def median_interval(values: Sequence[float]) -> list[float] | None:
    """Return the 95 % confidence interval of the median, from order statistics; None below six values."""
    number, left, within = len(values), 0, 0.0
    while (within := within + 2 * comb(number, left) / 2**number) <= 1 - CONFIDENCE:
        left += 1
    ordered = sorted(values)
    return [round(ordered[left - 1], 3), round(ordered[-left], 3)] if left else None


TARGET = 1.8
TABLES = ("exact", "engine", "policy", "ablation")


class System(Protocol):
    """A system that does the work."""

    name: str

    @property
    def model(self) -> Any:
        """The language model."""
        ...

    def run(self, work: Work, folder: Path, side: int) -> Outcome:
        """Do the work in a folder, with images of `side` pixels."""
        ...


def measured(system: System, work: Work, side: int) -> tuple[Outcome, Cost]:
    """Run one job in its own folder."""
    with tempfile.TemporaryDirectory() as folder, costing(system.model) as cost:
        outcome = system.run(work, Path(folder), side)
    return outcome, cost


def unequal(ours: Outcome, theirs: Outcome) -> str:
    """Return the name of the first differing part of two outcomes; empty if they are equal."""
    for part in ("prompts", "images", "accepted", "chosen"):
        if getattr(ours, part) != getattr(theirs, part):
            return part
    return ""


def compared(plain: System, ours: System, work: Work, side: int, pairs: int) -> dict[str, Any]:
    """Return the counts of both systems and, for equal work, the ratio of their processor times in pairs."""
    row: dict[str, Any] = {"way": ours.name}
    times = []
    for _ in range(pairs):
        theirs, plain_cost = measured(plain, work, side)
        own, cost = measured(ours, work, side)
        row |= {"counts": cost.counts(), "plain_counts": plain_cost.counts()}
        different = unequal(own, theirs)
        if different:
            return row | {"unequal": different}
        times.append((plain_cost.cpu_seconds, cost.cpu_seconds))
    ratios = sorted(before / after for before, after in times)
    return row | {
        "plain_cpu_seconds": round(median(before for before, _ in times), 3),
        "cpu_seconds": round(median(after for _, after in times), 3),
        "ratio": round(median(ratios), 3),
        "ratio_range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "pairs": pairs,
    }


def other_table(
    plain: System, open_way: Callable[[Any], System], table: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Print and return the engine or policy table, on the mixed profile."""
    work = make_work("mixed", options.side)
    ways = engine_ways() if table == "engine" else POLICY_WAYS
    print(f"\n{table}, mixed: {options.side} pixels, model {options.model}\n{HEADING}")
    rows, said = [], {}
    for way in ways:
        system = open_way(way)
        row = compared(plain, system, work, options.side, options.pairs) | {
            "table": table,
            "profile": "mixed",
        }
        said[way.name] = measured(system, work, options.side)[0].free
        if way.reference:
            row["agreement"] = agreement(said[way.name], said[way.reference])
        rows.append(row)
        same = f"  {row['agreement']:.1%} of greedy tokens as {way.reference!r}" if way.reference else ""
        print(shown(row) + same, flush=True)
    return rows


def agreement(ours: list[int], theirs: list[int]) -> float:
    """Return the share of positions with the same greedy token."""
    return round(sum(map(int.__eq__, ours, theirs)) / max(len(ours), len(theirs)), 4)


def shown(row: dict[str, Any]) -> str:
    """Format a row of a table."""
    counts = row["counts"]
    line = (
        f"{row['way']:36} {counts['lm_forwards']:6} {counts['lm_tokens']:8} {counts['images_seen']:7} "
        f"{counts['vision_patches']:8}"
    )
    if "unequal" in row:
        return f"{line}  UNEQUAL in {row['unequal']}: no ratio"
    if "ratio" not in row:
        return line
    low, high = row["ratio_range"]
    return f"{line} {row['cpu_seconds']:8.2f} {row['ratio']:6.2f}  ({low:.2f}-{high:.2f})"


HEADING = (
    f"{'':36} {'passes':>6} {'tokens':>8} {'images':>7} {'patches':>8} {'cpu s':>8} "
    f"{'times less (range)':>18}"
)
RELATIVE_HEADING = HEADING.replace("times less (range)", "times more (95 % CI)")


def profile_table(
    plain: System, open_way: Callable[[Any], System], profile: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Print and return the exact table of a profile. Only the mixed profile has every saving."""
    work = make_work(profile, options.side)
    ways = WAYS if profile == "mixed" and not options.brief else (DEFAULT, ALL)
    rows = []
    print(f"\nexact, {profile}: {options.side} pixels, model {options.model}\n{HEADING}")
    for way in ways:
        pairs = options.pairs if way in (DEFAULT, ALL) else max(1, options.pairs // 2)
        row = compared(plain, open_way(way), work, options.side, pairs)
        if not rows:
            print(shown({"way": plain.name, "counts": row["plain_counts"]}))
        rows.append(row | {"table": "exact", "profile": profile})
        print(shown(row), flush=True)
    return rows


def ablation_table(open_way: Callable[[Any], Ours], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print and return the cost of the default without each saving, on the mixed profile."""
    work = make_work("mixed", options.side)
    systems = [open_way(way) for way in (DEFAULT, *WITHOUT)]
    return relative_table("ablation", systems, lambda system: measured(system, work, options.side), options)


def relative_table(
    table: str, systems: list[Ours], measure: Callable[[Ours], tuple[Any, Cost]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Print and return the cost of every system, and its time relative to the first one."""
    print(f"\n{table}, mixed: {options.side} pixels, model {options.model}\n{RELATIVE_HEADING}")
    rows = relative_rows(systems, measure, options.pairs)
    for row in rows:
        within = "({:.3f}-{:.3f})".format(*row["interval"]) if row["interval"] else ""
        line = shown({"way": row["way"], "counts": row["counts"]})
        print(f"{line} {row['cpu_seconds']:8.2f} {row['ratio']:6.3f}  {within}", flush=True)
    return [row | {"table": table, "profile": "mixed"} for row in rows]


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        prog="research/experiments/agents", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--profiles", nargs="+", choices=tuple(PROFILES), default=["mixed"])
    parser.add_argument(
        "--tables", nargs="+", choices=TABLES, default=["exact", "engine", "policy"], help="what to measure"
    )
    parser.add_argument("--side", type=int, default=512, help="side of the images in pixels")
    parser.add_argument("--model", choices=tuple(MODELS), default="small", help="sizes of the random model")
    parser.add_argument("--layers", type=int, help="another number of layers of its language model")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--brief", action="store_true", help="measure only the default and all savings together"
    )
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    prompts = default_prompt_set()
    with tempfile.TemporaryDirectory() as folder:
        works = [make_work(profile, options.side) for profile in PROFILES]
        answers = [text for work in works for text in (work.plan_text(), *_verdicts(work))]
        others = [table for table in ("engine", "policy") if table in options.tables]
        shape = MODELS[options.model]
        shape = shape._replace(layers=options.layers or shape.layers)
        checkpoint = build(Path(folder) / "model", prompts, shape, answers)
        plain = PlainLoop(checkpoint, prompts)
        rows: list[dict[str, Any]] = []
        sizes = weights_of(plain.model)
        print("weights, millions: " + ", ".join(f"{name} {size:.2f}" for name, size in sizes.items()))
        if "engine" in others and find_spec("peft"):
            build_adapter(checkpoint)

        def open_way(way: Way) -> Ours:
            return Ours(checkpoint, prompts, way)

        for profile in options.profiles if "exact" in options.tables else ():
            rows += profile_table(plain, open_way, profile, options)
        for table in others:
            rows += other_table(plain, open_way, table, options)
        if "ablation" in options.tables:
            rows += ablation_table(open_way, options)
    print(json.dumps(summary(plain.name, rows, options) | {"weights": sizes}))


def weights_of(model: Any) -> dict[str, float]:
    """Return the sizes of the model's parts in millions of weights."""
    parts = {"language layers": model.model.language_model.layers, "vision tower": model.model.visual}
    return {
        name: round(sum(one.numel() for one in part.parameters()) / 1e6, 2) for name, part in parts.items()
    }


def _verdicts(work: Work) -> list[str]:
    return [work.verdict_text(*key) for key in work.verdicts]


def summary(plain: str, rows: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """Return the content of the last line."""
    import platform

    import torch
    import transformers

    mixed = [row for row in rows if row["profile"] == "mixed" and row["way"] == ALL.name]
    return {
        "benchmark": "agents",
        "against": plain,
        "side": options.side,
        "model": options.model,
        "layers": options.layers or MODELS[options.model].layers,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.processor() or platform.machine(),
        "tables": {table: [row for row in rows if row["table"] == table] for table in TABLES},
        "target": TARGET,
        "reached": bool(mixed) and mixed[0].get("ratio", 0.0) >= TARGET,
    }


if __name__ == "__main__":
    main()
