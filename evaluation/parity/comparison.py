"""Compares both sides item by item, and finds the first difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from .cases import ParityCase
from .observed import Observed, Parts

LINE_BREAK = "\n"
MISSING = "nothing"
SHOWN = 160
CONTEXT = 40


@dataclass(frozen=True)
class Difference:
    """The first item that differs.

    Attributes:
        place: Class, case and item.
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
        cases: Names of the cases.
        rows: What was compared: a cell per case. A cell is the number of equal items, or of different ones.
        line_breaks: Number of critic requests with a line break after the images that only the class adds.
        first: The first difference, if there is one.
    """

    name: str
    cases: list[str]
    rows: dict[str, list[str]] = field(default_factory=dict)
    line_breaks: int = 0
    first: Difference | None = None


def compare(
    name: str, cases: Sequence[ParityCase], theirs: Sequence[Observed], ours: Sequence[Observed]
) -> Comparison:
    """Compare what a class and this package did in each case."""
    found = Comparison(name, [case.name for case in cases])
    for case, official, own in zip(cases, theirs, ours, strict=True):
        official = official.model_copy(update={"critic": _without_break(official.critic, own.critic, found)})
        for row, items_of in ROWS.items():
            pairs = list(zip_longest(items_of(official, case), items_of(own, case), fillvalue=MISSING))
            wrong = [number for number, (left, right) in enumerate(pairs) if left != right]
            cell = str(len(pairs)) if not wrong else f"{len(wrong)} of {len(pairs)} differ"
            found.rows.setdefault(row, []).append(cell)
            if wrong and found.first is None:
                place = f"{name}, case {case.name!r}, {row.lower()}, number {wrong[0] + 1}"
                found.first = Difference(place, *_around(*pairs[wrong[0]]))
    return found


def _without_break(theirs: Sequence[Parts], ours: Sequence[Parts], found: Comparison) -> list[Parts]:
    """Return critic requests without a line break that only they have after the images, and count them.

    The demo adds one and the UEval runner does not, so no request can equal both.
    """
    shorter: list[Parts] = []
    for parts, own in zip_longest(theirs, ours[: len(theirs)], fillvalue=[]):
        kind, text = own[-1] if own else ("", "")
        if kind == "text" and parts[-1:] == [("text", LINE_BREAK + text)]:
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


def _attempts(one: Observed, case: ParityCase) -> list[str]:
    """Return the number of attempts of each step."""
    steps = [case.step_of(draw.prompt) for draw in one.draws]
    return [str(steps.count(index)) for index in range(len(case.plan.steps))]


def _seeds(one: Observed, case: ParityCase) -> list[str]:
    """Return for each draw the number of the first one with the same seed. The seeds themselves differ."""
    seeds = [draw.seed for draw in one.draws]
    return [f"the seed of generator call {seeds.index(seed) + 1}" for seed in seeds]


ROWS: dict[str, Callable[[Observed, ParityCase], Sequence[str]]] = {
    "Requests to the planner": lambda one, case: _texts(one.planner),
    "Images to the planner": lambda one, case: _images(one.planner),
    "Requests to the critic": lambda one, case: _texts(one.critic),
    "Images to the critic": lambda one, case: _images(one.critic),
    "Prompts of the generator": lambda one, case: [draw.prompt for draw in one.draws],
    "Source images": lambda one, case: [draw.source or "none" for draw in one.draws],
    "Attempts of the steps": _attempts,
    "Attempts that share a seed": _seeds,
    "Texts": lambda one, case: one.texts,
    "Final images": lambda one, case: one.final,
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
