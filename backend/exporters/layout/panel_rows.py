"""Splits the panels of a comic into pages and rows."""

from __future__ import annotations

import itertools
import math

from ...report.audience import Panel

MAX_ROW = 3
MAX_WAYS = 64


def page_groups(panels: list[Panel], most: int) -> list[list[Panel]]:
    """Split panels into pages with about the same number of images.

    Texts without an image stay on the page of the image before them.
    """
    counted = [panel for panel in panels if panel.picture] or panels
    if not counted:
        return []
    pages = math.ceil(len(counted) / most)
    ends = [round(len(counted) * page / pages) for page in range(1, pages)]
    firsts = [0, *(panels.index(counted[end]) for end in ends), len(panels)]
    return [panels[first:last] for first, last in itertools.pairwise(firsts)]


def shot_groups(panels: list[Panel], most: int) -> list[list[Panel]]:
    """Return the full pages of a storyboard, with number and name of each step above its text."""
    shots = []
    for panel in panels:
        heading = f"{panel.number}. {panel.name}".strip()
        shots.append(panel.model_copy(update={"text": "\n".join(filter(None, (heading, panel.text)))}))
    return [shots[first : first + most] for first in range(0, len(shots), most)]


def even_rows(group: list[Panel], columns: int) -> list[int]:
    """Return the sizes of rows that are filled from left to right. A text without an image fills a row."""
    sizes: list[int] = []
    for alone, panels in itertools.groupby(group, key=lambda panel: panel.picture is None):
        full, rest = divmod(len(list(panels)), 1 if alone else columns)
        sizes += [*([1 if alone else columns] * full), *([rest] if rest else [])]
    return sizes


def row_breaks(group: list[Panel]) -> list[list[int]]:
    """Return ways to break panels into rows.

    A text without an image gets a row of its own. The others are in rows of up to three panels, whose lengths
    differ by at most one.
    """
    ways: list[list[int]] = [[]]
    for alone, panels in itertools.groupby(group, key=lambda panel: panel.picture is None):
        number = len(list(panels))
        if alone:
            ways = [[*way, *[1] * number] for way in ways]
            continue
        splits = []
        for rows in range(math.ceil(number / MAX_ROW), number + 1):
            less, more = divmod(number, rows)
            sizes = [less + 1] * more + [less] * (rows - more)
            splits += [sizes] if sizes == sizes[::-1] else [sizes, sizes[::-1]]
        ways = [[*way, *split] for way in ways for split in splits][:MAX_WAYS]
    return ways
