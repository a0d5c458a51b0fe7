"""Plots the ablation's table: one line per row, with intervals, a tick per seed, and the paper's figures.

It writes SVG without a plotting library, readable on light and dark backgrounds. The paper's figures are
scores of a different kind, out of 100, so they are text next to the row and not on its axis.
"""

from __future__ import annotations

import html

from ....training.statistics.bootstrap import Mean
from .findings import Findings

LEFT, WIDTH, LINE, TOP = 330, 900, 38, 46
COLORS = {1: "#8a8f98", 3: "#2f6fde", 5: "#d9622b"}
STYLE = (
    "text{font:13px "
    "system-ui,sans-serif;fill:#222}.quiet{fill:#666}@media(prefers-color-scheme:dark){text{fill:#ddd}.quiet{fill:#999}}"
)


def _across(value: float) -> float:
    return LEFT + value * (WIDTH - LEFT - 60)


def as_svg(found: Findings) -> str:
    """Return the plot as SVG. The horizontal axis is the share of fully correct stories, from 0 to 1."""
    height = TOP + LINE * len(found.rows) + 40
    parts = []
    for tenth in range(0, 11, 2):
        x = _across(tenth / 10)
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{height - 34}" stroke="#8884"/>')
        parts.append(
            f'<text class="quiet" x="{x:.0f}" y="{height - 16}" text-anchor="middle">{tenth / 10:.1f}</text>'
        )
    for number, row in enumerate(found.rows):
        middle = TOP + LINE * number + LINE / 2
        parts.append(
            f'<text x="{LEFT - 14}" y="{middle + 4:.0f}" text-anchor="end">{html.escape(row.title)}</text>'
        )
        if row.published is not None:
            parts.append(
                f'<text class="quiet" x="{WIDTH - 6}" y="{middle + 4:.0f}" text-anchor="end">'
                f"{row.published:g}</text>"
            )
        for share in row.of_each_seed:
            x = _across(share)
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 5:.0f}" y2="{middle + 5:.0f}" '
                f'stroke="{COLORS[3 if 3 in row.stories else 1]}88"/>'
            )
        for offset, (attempts, one) in enumerate(sorted(row.stories.items())):
            parts.append(_interval(one, middle + 8 * (offset - (len(row.stories) - 1) / 2), COLORS[attempts]))
    legend = "".join(
        f'<circle cx="{LEFT + 130 * index}" cy="20" r="4" fill="{color}"/>'
        f'<text x="{LEFT + 130 * index + 10}" y="24">{attempts} attempt{"s" if attempts > 1 else ""}</text>'
        for index, (attempts, color) in enumerate(COLORS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Share of fully correct stories"><style>{STYLE}</style>'
        f'<text x="16" y="24">Fully correct stories</text>{legend}'
        f'<text class="quiet" x="{WIDTH - 6}" y="24" text-anchor="end">95 % intervals, paper</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _interval(one: Mean, y: float, color: str) -> str:
    low, high, rate = _across(one.low), _across(one.high), _across(one.mean)
    return (
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}" stroke-width="2"/>'
        f'<circle cx="{rate:.1f}" cy="{y:.1f}" r="3.6" fill="{color}"/>'
    )
