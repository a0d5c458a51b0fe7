"""Tables of the comparison, from the measures of all seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from interleave_thinker.tinyworld.lab.ablation.findings import compare, mean_of
from interleave_thinker.training.statistics.bootstrap import Mean
from interleave_thinker.training.statistics.intervals import share

from . import verdicts
from .arms import ARMS, ArmFound, found_of

PAIRS = (
    ("turns", "rl"),
    ("entropy", "rl"),
    ("slower", "rl"),
    ("rl", "rejection"),
    ("rl", "sft"),
    ("turns", "sft"),
    ("turns", "rejection"),
)
PHASES = {"first": slice(None, 4), "last": slice(-4, None), "all": slice(None)}
"""Rollouts whose samples are described."""


def report(out: Path, seeds: Sequence[int], arms: Sequence[str]) -> str:
    """Return all tables as Markdown."""
    found = {arm: [found_of(out, seed, arm) for seed in seeds] for arm in arms}
    reinforced = [arm for arm in arms if ARMS[arm].turns is not None]
    parts = [
        _stories(found),
        _differences(found),
        _sampled(out, seeds, reinforced),
        _greedy(found),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _stories(found: dict[str, list[ArmFound]]) -> list[str]:
    lines = [
        "| | stories right | by seed | steps right | images per step | images per accepted step "
        "| verdicts right | right images accepted | wrong images rejected |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for arm, seeds in found.items():
        told = [one for seed in seeds for one in seed.told]
        steps = [right for one in told for right in one.steps]
        draws, accepted = sum(one.draws for one in told), sum(one.accepted for one in told)
        right = [[one.right for one in seed.told] for seed in seeds]
        cells = [
            ARMS[arm].title,
            _interval(mean_of(right)),
            " ".join(f"{sum(one) / len(one):.3f}" for one in right),
            f"{sum(steps) / len(steps):.3f}",
            f"{draws / len(steps):.2f}",
            f"{draws / accepted:.2f}",
            *_verdicts(seeds),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _verdicts(seeds: Sequence[ArmFound]) -> list[str]:
    pages = [seed.pages for seed in seeds if seed.pages is not None]
    judged = [one for seed in pages for one in zip(seed.right, seed.truth, strict=True)]
    if not judged:
        return ["-"] * 3
    parts = [judged, [one for one in judged if one[1]], [one for one in judged if not one[1]]]
    shares = [share([right for right, _ in part]) for part in parts]
    return [f"{one.rate:.3f} ({one.low:.3f} to {one.high:.3f})" for one in shares]


def _differences(found: dict[str, list[ArmFound]]) -> list[str]:
    lines = [
        "| compared | difference | by seed | p, stories (McNemar) | p, seeds (signs) |",
        "|---|---|---|---|---|",
    ]
    right = {arm: [[one.right for one in seed.told] for seed in seeds] for arm, seeds in found.items()}
    verdict = {
        arm: [seed.pages.right for seed in seeds if seed.pages is not None] for arm, seeds in found.items()
    }
    for what, outcomes in (("stories right", right), ("verdicts right", verdict)):
        for one, other in PAIRS:
            if one in found and other in found:
                result = compare(one, other, outcomes[one], outcomes[other])
                cells = [
                    f"{what}: {one} over {other}",
                    _interval(result.difference, "+"),
                    " ".join(f"{value:+.3f}" for value in result.of_each_seed),
                    f"{result.p_stories:.2g}",
                    f"{result.p_seeds:.2g}",
                ]
                lines.append(f"| {' | '.join(cells)} |")
    return lines


def _sampled(out: Path, seeds: Sequence[int], arms: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for arm in arms:
        folders = [out / f"seed_{seed}" / arm / "rollouts" for seed in seeds]
        for phase, part in PHASES.items():
            for truth in (True, False):
                measured = verdicts.sampled(folders, part, truth)
                if not lines:
                    lines = [f"| samples of | {' | '.join(measured)} |", "|---|" + "---|" * len(measured)]
                cells = [
                    f"{value:.2f}" if name != "groups" else f"{value:.0f}" for name, value in measured.items()
                ]
                what = f"{arm}, {phase} rollouts, {'right' if truth else 'wrong'} images"
                lines.append(f"| {what} | {' | '.join(cells)} |")
    lines += ["", "| entropy of a token | first rollouts | last rollouts |", "|---|---|---|"]
    for arm in arms:
        found = [[verdicts.entropy(out / f"seed_{seed}" / arm, PHASES[phase]) for seed in seeds]
                 for phase in ("first", "last")]  # fmt: skip
        lines.append(f"| {arm} | {' | '.join(f'{sum(one) / len(one):.3f}' for one in found)} |")
    return lines


def _greedy(found: dict[str, list[ArmFound]]) -> list[str]:
    lines: list[str] = []
    for arm, seeds in found.items():
        counted: Counter[str] = Counter()
        for before, after in zip(found["sft"], seeds, strict=True):
            if before.pages is not None and after.pages is not None:
                counted.update(verdicts.causes(after.pages) | verdicts.changes(before.pages, after.pages))
        if counted and not lines:
            lines = [f"| greedy answers of | {' | '.join(counted)} |", "|---|" + "---|" * len(counted)]
        if counted:
            lines.append(f"| {arm} | {' | '.join(map(str, counted.values()))} |")
    return lines


def _interval(found: Mean, sign: str = "") -> str:
    return f"{found.mean:{sign}.3f} ({found.low:{sign}.3f} to {found.high:{sign}.3f})"
