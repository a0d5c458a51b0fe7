"""Measures put back on made edits, on edits of the whole image, and on a chain of edits.

    OMP_NUM_THREADS=1 python -m benchmarks.put_back --side 1024 --edits 200 --seed 1

- untouched: share of the pixels outside of the change (12 pixels away) that are within 1/255 of BEFORE.
- kept: share of the changed pixels that are within 8 of the change without nuisance; ceiling: the same for
  an exact inverse of the nuisance, which nobody knows outside of this benchmark.
- seam: mean difference from the change without nuisance, in a ring of 12 pixels around it, 0..255.

Scikit-image is needed for its photographs. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import torch

from interleave_thinker.backend.drift.filters import dilated, eroded
from interleave_thinker.backend.drift.put_back import Restored, restored

from .edits import EDITS, NUISANCES, PAIRS, WHOLE, Nuisance, edited, nuisance, to_image, whole_image_edit
from .images import Pixels, sources

MARGIN = 12


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--whole", type=int, default=40)
    parser.add_argument("--chain", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder for images to look at")
    given = parser.parse_args()
    torch.set_num_threads(1)
    random = numpy.random.default_rng(given.seed)
    images = sources(random, given.side)
    results = {
        "edits": _measured_edits(given, random, images),
        "whole": _measured_whole(given, random, images),
        "chain": _measured_chain(given, random, images),
    }
    print(json.dumps(results))


def put_back(before: Pixels, after: Pixels) -> tuple[Restored, Pixels, float]:
    """Return the result, its pixels, and the CPU seconds."""
    first, second = (torch.from_numpy(one).permute(2, 0, 1).float().contiguous() for one in (before, after))
    started = time.process_time()
    found = restored(first, second)
    seconds = time.process_time() - started
    return found, found.image.permute(1, 2, 0).numpy().round().astype(float), seconds


def _measured_edits(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    kinds = [(one,) for one in NUISANCES] + list(PAIRS)
    rows = []
    for number in range(given.edits):
        before, other = next(images), next(images)
        kind, names = EDITS[number % len(EDITS)], kinds[(number // len(EDITS)) % len(kinds)]
        clean, mask = edited(before, kind, random, other)
        chain = [nuisance(one, random) for one in names]
        after = _applied(clean, chain)
        found, result, seconds = put_back(before, after)
        row = {"kind": kind, "nuisance": "+".join(names), "refused": found.refused, "seconds": seconds}
        row |= _compared(before, clean, result, mask)
        row["ceiling"] = _kept(clean, _undone(after, chain), mask)
        row["plain"] = _kept(clean, after, mask)
        rows.append(row)
        if given.out and (number < 30 or row["untouched"] < 0.9 or row["kept"] < row["ceiling"] - 0.3):
            strip = numpy.concatenate((before, after, result, 127 + 4 * (result - before)), 1)
            given.out.mkdir(parents=True, exist_ok=True)
            to_image(strip).save(given.out / f"{number:03}-{kind}-{'-'.join(names)}.png")
    _print_table(rows, "nuisance")
    _print_table(rows, "kind")
    return _means(rows)


def _applied(pixels: Pixels, chain: list[Nuisance]) -> Pixels:
    for one in chain:
        pixels = one.apply(pixels).round().clip(0, 255)
    return pixels


def _undone(pixels: Pixels, chain: list[Nuisance]) -> Pixels:
    for one in reversed(chain):
        pixels = one.undo(pixels)
    return pixels.round().clip(0, 255)


def _grown(mask: Pixels, radius: int) -> Pixels:
    return numpy.asarray(dilated(torch.from_numpy(mask.astype("float32"))[None], radius)[0]) > 0


def _compared(before: Pixels, clean: Pixels, result: Pixels, mask: Pixels) -> dict[str, float]:
    outside = ~_grown(mask, MARGIN)
    ring = _grown(mask, MARGIN) & ~mask
    close = (numpy.abs(result - before) <= 1).all(2)
    return {
        "untouched": float(close[outside].mean()) if outside.any() else 1.0,
        "kept": _kept(clean, result, mask),
        "seam": float(numpy.abs(result - clean)[ring].mean()) if ring.any() else 0.0,
    }


def _kept(clean: Pixels, result: Pixels, mask: Pixels) -> float:
    inner = numpy.asarray(eroded(torch.from_numpy(mask.astype("float32"))[None], 1)[0]) > 0
    where = inner if inner.any() else mask
    return float((numpy.abs(result - clean) <= 8).all(2)[where].mean())


def _measured_whole(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    undone, seen = [], []
    for number in range(given.whole):
        before, other = next(images), next(images)
        kind = WHOLE[number % len(WHOLE)]
        after = whole_image_edit(before, kind, random, other).round().clip(0, 255)
        found, result, _ = put_back(before, after)
        toward = numpy.abs(result - after).mean() / max(1e-6, numpy.abs(before - after).mean())
        seen.append((kind, found.refused))
        if not found.refused and toward > 0.1:
            undone.append(kind)
            if given.out:
                strip = numpy.concatenate((before, after, result), 1)
                to_image(strip).save(given.out / f"whole-{number:03}-{kind}.png")
    print(f"whole image: {len(undone)} of {given.whole} undone {undone}")
    return {"count": given.whole, "undone": undone}


def _measured_chain(
    given: argparse.Namespace, random: numpy.random.Generator, images: Iterator[Pixels]
) -> dict[str, Any]:
    results = {}
    for name in ("scene", "photograph"):
        start = next(images)
        truth, plain, held = start, start, start
        touched = numpy.zeros(start.shape[:2], bool)
        refused = 0
        for number in range(given.chain):
            other = start[::-1].copy()
            seed = int(random.integers(2**31))
            # The same change in the truth and in both chains.
            truth, mask = edited(truth, EDITS[number % 4], numpy.random.default_rng(seed), other)
            kinds = random.choice(["shift", "relight", "gamma", "blur", "jpeg", "move"], 2, replace=False)
            chain = [
                nuisance(str(one), numpy.random.default_rng(seed + place)) for place, one in enumerate(kinds)
            ]
            plain = _applied(
                edited(plain, EDITS[number % 4], numpy.random.default_rng(seed), other)[0], chain
            )
            after = _applied(edited(held, EDITS[number % 4], numpy.random.default_rng(seed), other)[0], chain)
            found, held, _ = put_back(held, after)
            refused += bool(found.refused)
            touched |= _grown(mask, MARGIN)
        outside = ~touched
        figures = {
            "without": float(numpy.abs(plain - truth).mean()),
            "with": float(numpy.abs(held - truth).mean()),
            "outside without": float(numpy.abs(plain - truth)[outside].mean()) if outside.any() else None,
            "outside with": float(numpy.abs(held - truth)[outside].mean()) if outside.any() else None,
            "refused": refused,
        }
        results[name] = figures
        print(f"chain of {given.chain}, {name}: {figures}")
        if given.out:
            to_image(numpy.concatenate((start, truth, plain, held), 1)).save(given.out / f"chain-{name}.png")
    return results


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("untouched", "kept", "ceiling", "plain", "seam", "seconds")
    found = {name: round(float(numpy.mean([row[name] for row in rows])), 4) for name in names}
    return {"count": len(rows), "refused": sum(bool(row["refused"]) for row in rows), **found}


def _print_table(rows: list[dict[str, Any]], by: str) -> None:
    groups = list(dict.fromkeys(row[by] for row in rows))
    for group in [*groups, None]:
        chosen = [row for row in rows if group is None or row[by] == group]
        print(f"{group or 'all':16}", " ".join(f"{name} {value}" for name, value in _means(chosen).items()))
    for reason in sorted({str(row["refused"]) for row in rows if row["refused"]}):
        print(
            "  refused:",
            reason,
            [f"{row['kind']}/{row['nuisance']}" for row in rows if row["refused"] == reason],
        )


if __name__ == "__main__":
    main()
