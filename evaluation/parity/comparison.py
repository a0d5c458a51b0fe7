"""Compares both sides item by item, and finds the first difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from .observed import Observed, Parts
from .work import ParityWork

LINE_BREAK = "\n"
MISSING = "nothing"
SHOWN = 160
CONTEXT = 40


@dataclass(frozen=True)
class Difference:
    """The first item that differs.

    Attributes:
        place: Class, work and item.
        theirs: The item in the published code.
        ours: The item here.
    """

    place: str
    theirs: str
    ours: str


@dataclass
class Comparison:
    """Result of comparing a class of the published code with this package.

    Attributes:
        name: The class.
        works: Names of the works.
        rows: What was compared: a cell per work. A cell is the number of equal items, or of different ones.
        line_breaks: Number of critic requests with a line break after the images that only the class adds.
        first: The first difference, if there is one.
    """

    name: str
    works: list[str]
    rows: dict[str, list[str]] = field(default_factory=dict)
    line_breaks: int = 0
    first: Difference | None = None


def compare(
    name: str, works: Sequence[ParityWork], theirs: Sequence[Observed], ours: Sequence[Observed]
) -> Comparison:
    """Compare the works that a class and this package did."""
    found = Comparison(name, [work.name for work in works])
    for work, official, own in zip(works, theirs, ours, strict=True):
        official = official.model_copy(update={"critic": _without_break(official.critic, own.critic, found)})
        for row, items_of in ROWS.items():
            pairs = list(zip_longest(items_of(official, work), items_of(own, work), fillvalue=MISSING))
            wrong = [number for number, (left, right) in enumerate(pairs) if left != right]
            cell = str(len(pairs)) if not wrong else f"{len(wrong)} of {len(pairs)} differ"
            found.rows.setdefault(row, []).append(cell)
            if wrong and found.first is None:
                place = f"{name}, work {work.name!r}, {row.lower()}, number {wrong[0] + 1}"
                found.first = Difference(place, *_around(*pairs[wrong[0]]))
    return found


def _without_break(theirs: Sequence[Parts], ours: Sequence[Parts], found: Comparison) -> list[Parts]:
    """Return critic requests without a line break that only they have after the images, and count them.

    The demo adds one and the UEval runner does not, so both of them cannot be followed.
    """
    shorter: list[Parts] = []
    for parts, own in zip_longest(theirs, ours[: len(theirs)], fillvalue=[]):
        kind, text = own[-1] if own else ("", "")
        if kind == "text" and parts[-1] == ("text", LINE_BREAK + text):
            found.line_breaks += 1
            parts = [*parts[:-1], ("text", text)]
        shorter.append(parts)
    return shorter


def _texts(asked: Sequence[Parts]) -> list[str]:
    """Return each conversation as one text with a mark at the place of every image."""
    marks = {"image": "<image>", "role": "[{}] ", "text": "{}"}
    return ["".join(marks[kind].format(value) for kind, value in parts) for parts in asked]


def _images(asked: Sequence[Parts]) -> list[str]:
    return [value for parts in asked for kind, value in parts if kind == "image"]


def _attempts(one: Observed, work: ParityWork) -> list[str]:
    """Return the number of attempts of each step."""
    steps = [work.step_of(draw.prompt) for draw in one.draws]
    return [str(steps.count(index)) for index in range(len(work.plan.steps))]


def _seeds(one: Observed, work: ParityWork) -> list[str]:
    """Return for each draw the number of the first one with the same seed. The seeds themselves differ."""
    seeds = [draw.seed for draw in one.draws]
    return [f"the seed of generator call {seeds.index(seed) + 1}" for seed in seeds]


ROWS: dict[str, Callable[[Observed, ParityWork], Sequence[str]]] = {
    "Requests to the planner": lambda one, work: _texts(one.planner),
    "Images to the planner": lambda one, work: _images(one.planner),
    "Requests to the critic": lambda one, work: _texts(one.critic),
    "Images to the critic": lambda one, work: _images(one.critic),
    "Prompts of the generator": lambda one, work: [draw.prompt for draw in one.draws],
    "Source images": lambda one, work: [draw.source or "none" for draw in one.draws],
    "Attempts of the steps": _attempts,
    "Attempts that share a seed": _seeds,
    "Texts": lambda one, work: one.texts,
    "Final images": lambda one, work: one.final,
}
"""What is compared, word for word and pixel for pixel."""


def _around(left: str, right: str) -> tuple[str, str]:
    """Return both texts from a little before their first difference, shortened."""
    same = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), -1)
    same = min(len(left), len(right)) if same < 0 else same
    start = max(0, same - CONTEXT)
    return _part(left, start), _part(right, start)


def _part(text: str, start: int) -> str:
    end = start + SHOWN
    return f"{'...' if start else ''}{text[start:end]}{'...' if len(text) > end else ''}"
