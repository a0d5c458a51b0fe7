"""The page at the end of a training: curves from the trainer's own log, and sampled answers before and after.

Decision: one HTML file with drawings of its own (SVG), nothing loaded from anywhere and no library needed, so
that it can be kept, mailed and read in ten years. Everything that came from a model or a data file is
escaped.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backend.errors import TrainingError
from ...backend.files.atomic import write_text
from ...backend.pictures import Picture
from .progress_line import number

REPORT_FILE = "report.html"
WIDTH, HEIGHT, LEFT, BOTTOM = 520, 220, 64, 26
COLOURS = ("#2f6fde", "#d9622b", "#2a9d5c", "#8e4ec6", "#c0392b", "#7f7f00")
THUMB = 144

STYLE = """
:root { color-scheme: light dark; --line: #8886; --quiet: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1160px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
svg text { font: 11px system-ui, sans-serif; fill: currentColor; } svg .grid { stroke: var(--line); stroke-width: 1; }
table { border-collapse: collapse; width: 100%; } td, th { border: 1px solid var(--line); padding: .4rem .6rem;
vertical-align: top; text-align: left; } pre { white-space: pre-wrap; margin: 0; font-size: 12px; overflow-wrap: anywhere; }
.stop { border-left: 4px solid #c0392b; padding: .3rem .8rem; } .quiet { color: var(--quiet); } img { max-width: 144px; }
"""

CHARTS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Loss", (("loss", "loss"),)),
    ("Token accuracy", (("accuracy", "mean_token_accuracy"),)),
    ("Reward", (("overall", "reward/overall"),)),
    (
        "Parts of the reward",
        (
            ("format", "reward/format"),
            ("accuracy", "reward/accuracy"),
            ("semantic", "reward/semantic"),
            ("quality", "reward/quality"),
        ),
    ),
    ("Better semantics where redrawn", (("semantic", "reward/semantic_redrawn"),)),
    ("Verdicts: share of True", (("said", "verdict/true"), ("truth", "verdict/truth"))),
    (
        "Right verdicts in rollouts",
        (("right images", "verdict/true_recall"), ("wrong images", "verdict/false_recall")),
    ),
    (
        "Length of answers (tokens)",
        (("mean", "completions/mean_length"), ("longest", "completions/max_length")),
    ),
    ("Spread of rewards in a group", (("spread", "reward/spread"),)),
    (
        "Share of dead groups, of failed redraws",
        (("dead", "reward/dead"), ("failed", "redraw/failed")),
    ),
    ("Share of images from the cache", (("served", "redraw/served"),)),
    (
        "Seconds of a step",
        (("answers", "seconds/rollout"), ("rewards", "seconds/reward"), ("update", "seconds/update")),
    ),
    ("Entropy", (("entropy", "entropy"),)),
    ("Distance to the first model (KL)", (("kl", "kl"),)),
    ("Learning rate", (("rate", "learning_rate"),)),
)

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Answered:
    """One question with the answers before and after training; `images` are shown small."""

    question: str
    images: tuple[Picture, ...]
    truth: str
    before: str
    after: str


def write_report(
    out: Path,
    title: str,
    history: Sequence[Mapping[str, Any]],
    held_out: Mapping[str, Points],
    answers: Sequence[Answered],
    notes: Sequence[str] = (),
    stopped: str | None = None,
) -> Path:
    """Write `out / "report.html"` from the trainer's log; `held_out` are named curves of a fixed set, (step,
    value)."""
    figures = [_chart(name, _series(history, keys)) for name, keys in CHARTS]
    if any(held_out.values()):
        figures.insert(0, _chart("On held-out rows", dict(held_out)))
    shown = "".join(figure for figure in figures if figure)
    stop = f'<p class="stop"><b>Stopped:</b> {html.escape(stopped)}</p>' if stopped else ""
    said = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
        f"<h1>{html.escape(title)}</h1>{stop}<ul>{said}</ul>"
        f'<div class="charts">{shown}</div>{_answers(answers)}</html>'
    )
    path = out / REPORT_FILE
    write_text(path, page, TrainingError, "The training's page", durable=False)
    return path


def _series(history: Sequence[Mapping[str, Any]], keys: Sequence[tuple[str, str]]) -> dict[str, Points]:
    """Curves by name; the last entry of a step counts, because a resumed run logs a step again."""
    curves: dict[str, dict[float, float]] = {name: {} for name, _ in keys}
    for entry in history:
        step = number(entry, "step")
        for name, key in keys:
            value = number(entry, key)
            if step is not None and value is not None:
                curves[name][step] = value
    return {name: sorted(curve.items()) for name, curve in curves.items()}


def _chart(title: str, curves: Mapping[str, Points]) -> str:
    """A figure of curves over steps; empty if there is nothing to draw."""
    points = [point for curve in curves.values() for point in curve]
    if not points:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    if low >= 0 and high <= 1 and high - low > 0.2:
        low, high = 0.0, 1.0
    if high - low < 1e-12:
        low, high = low - 0.5 * (abs(low) or 1), high + 0.5 * (abs(high) or 1)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    span = (last - first) or 1.0

    def place(x: float, y: float) -> str:
        across = LEFT + (x - first) / span * (WIDTH - LEFT - 10)
        down = 10 + (high - y) / (high - low) * (HEIGHT - BOTTOM - 10)
        return f"{across:.1f},{down:.1f}"

    parts = []
    for share in (0.0, 0.5, 1.0):
        value = low + (high - low) * share
        down = 10 + (1 - share) * (HEIGHT - BOTTOM - 10)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 10}" y1="{down:.1f}" y2="{down:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">{first:g}</text>')
    parts.append(f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end">step {last:g}</text>')
    legend = []
    for index, (name, curve) in enumerate(curves.items()):
        if not curve:
            continue
        colour = COLOURS[index % len(COLOURS)]
        line = " ".join(place(x, y) for x, y in curve)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{line}"/>')
        if len(curve) <= 24:
            parts += [
                f'<circle r="2.4" fill="{colour}" cx="{x}" cy="{y}"/>'
                for x, y in (place(*point).split(",") for point in curve)
            ]
        legend.append(
            f'<span style="color:{colour}">●</span> {html.escape(name)} '
            f'<span class="quiet">{curve[0][1]:.3g} → {curve[-1][1]:.3g}</span>'
        )
    label = html.escape(title)
    return (
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{label}">'
        f"{''.join(parts)}</svg><div>{' &nbsp; '.join(legend)}</div></figure>"
    )


def _answers(answers: Sequence[Answered]) -> str:
    if not answers:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(one.question)}<br>{''.join(map(_thumbnail, one.images))}"
        f'<br><span class="quiet">{html.escape(one.truth)}</span></td>'
        f"<td><pre>{html.escape(one.before)}</pre></td><td><pre>{html.escape(one.after)}</pre></td></tr>"
        for one in answers
    )
    return (
        f"<h2>Answers before and "
        f"after</h2><table><tr><th>Question</th><th>Before</th><th>After</th></tr>{rows}</table>"
    )


def _thumbnail(picture: Picture) -> str:
    small = picture.image.copy()
    small.thumbnail((THUMB, THUMB))
    return f'<img alt="" src="{Picture(small).data_url()}"> '
