"""Measures how reliably a critic answers the items of checklists, by kind of question.

An accuracy over all items hides that a critic may see colors and cannot count. So each kind has its own
balanced accuracy, which is 0.5 for guessing and for a critic that always gives the same answer. The result is
stored in the agent card, and a kind whose interval reaches 0.5 never rejects an image.

The items are about drawn shapes and texts, which test whether a critic can count, tell colors, places and
letters at all, without any data. Identity and anatomy need images of runs whose truth a person gave
(`answered_items`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from PIL import Image, ImageDraw, ImageFont

from ...backend.core.pictures import Picture
from ...backend.core.prompts.agent_card import KindReliability
from ...backend.core.prompts.trained_with import critic_card
from ...backend.core.types import CheckedItem, ChecklistItem
from ...backend.story.agents.critic import EVEN
from ..from_runs.run_folders import annotated_runs
from ..statistics import share
from ..trainer.model_card import reliability_table
from ..trainer.progress import TimeLeft

FEW = 20
"""Items of a kind, true and false ones each, below which the interval says little."""
Log = Callable[[str], None]


@dataclass(frozen=True)
class AskedItem:
    """An item whose truth is known, with its loaded images."""

    before: Picture | None
    after: Picture
    prompt: str
    item: ChecklistItem
    truth: bool


Answers = Callable[[Picture | None, Picture, str, Sequence[ChecklistItem]], tuple[CheckedItem, ...]]
"""Answers each item about an image, like `Critic.check`."""


def measure_reliability(
    check: Answers,
    asked: Sequence[AskedItem],
    recorded: Sequence[tuple[str, bool, bool]] = (),
    log: Log = print,
) -> dict[str, KindReliability]:
    """Ask a critic about items whose truth is known, and return its reliability by kind.

    The probability counts if there is one, also for kinds that the present card calls unreliable. An item
    without an answer counts as answered wrongly.

    Args:
        check: Answers items, like `Critic.check`.
        asked: The items.
        recorded: Answers that were recorded before (`answered_items`).
        log: Receives progress lines.

    Raises:
        ChatError: The critic failed.
    """
    said: dict[str, list[tuple[bool, bool]]] = {}
    for kind, truth, hit in recorded:
        said.setdefault(kind, []).append((truth, hit))
    progress = TimeLeft("items", log)
    for number, one in enumerate(asked, 1):
        answer = check(one.before, one.after, one.prompt, [one.item])[0]
        said.setdefault(one.item.kind, []).append((one.truth, answers(answer) == one.truth))
        progress(number, len(asked))
    return {kind: reliability_of(outcomes) for kind, outcomes in sorted(said.items())}


def answered_items(runs: Sequence[Path], critic: str, log: Log = print) -> list[tuple[str, bool, bool]]:
    """Return recorded answers to items that a person judged too: kind, truth, and whether they agree.

    Args:
        runs: Run folders, or folders of them.
        critic: Identity of the critic's model. Runs of other critics are left out.
        log: Receives a line about each of them.

    Raises:
        JournalError: A run is damaged.
        SettingsError: A folder does not contain a run.
    """
    found: dict[tuple[str, str], tuple[str, bool, bool]] = {}
    for run in annotated_runs(runs):
        judged = [one for one in run.images if one.feedback.items]
        if judged and run.critic_model != critic:
            log(f"{run.name} was judged by another critic and is left out")
            continue
        for one in judged:
            truths = {item.text: item.true for item in one.feedback.items or ()}
            for item in one.verdict.items:
                if item.text in truths:
                    truth = truths[item.text]
                    found[one.image, item.text] = (item.kind, truth, answers(item) == truth)
    return list(found.values())


def answers(item: CheckedItem) -> bool | None:
    """Return the critic's answer to an item, also one of a kind that its card calls unreliable."""
    return item.passed if item.probability is None else item.probability >= EVEN


def reliability_of(outcomes: Sequence[tuple[bool, bool]]) -> KindReliability:
    """Return the reliability of answers, given for each the truth and whether the answer was right.

    The interval of the balanced accuracy combines the Wilson intervals of both shares (R. G. Newcombe, 1998).
    """
    yes = share([hit for truth, hit in outcomes if truth])
    no = share([hit for truth, hit in outcomes if not truth])
    half = ((yes.rate - yes.low) ** 2 + (no.rate - no.low) ** 2) ** 0.5 / 2
    return KindReliability(
        items=len(outcomes),
        true=yes.n,
        yes_of_true=yes.rate,
        no_of_false=no.rate,
        low=max(0.0, (yes.rate + no.rate) / 2 - half),
    )


def store_reliability(folder: Path, found: dict[str, KindReliability]) -> None:
    """Write the measured kinds into the agent card of a checkpoint; kinds that were not measured stay.

    Raises:
        SettingsError: The folder does not exist, is a planner's, or its card is damaged or cannot be written.
    """
    card = critic_card(folder)
    card.model_copy(update={"reliability": {**card.reliability, **found}}).save(folder)


def as_lines(found: dict[str, KindReliability]) -> list[str]:
    """Return the lines of a Markdown table, and a warning for kinds with few items."""
    lines = reliability_table(found)
    few = [kind for kind, one in found.items() if min(one.true, one.items - one.true) < FEW]
    if few:
        lines += ["", f"WARNING: fewer than {FEW} true or false items of {', '.join(few)}."]
    return lines


SIDE, CELL = 384, 128
COLORS = {"red": "#d02020", "blue": "#2040d0", "green": "#209030", "yellow": "#e8c020", "purple": "#8030a0"}
SHAPES = ("circle", "square", "triangle")
PLACES = {"on the left": (0, 1), "on the right": (2, 1), "at the top": (1, 0), "at the bottom": (1, 2)}
NUMBERS = ("two", "three", "four", "five", "six")
WORDS = ("HARBOR", "BAKERY", "GARDEN", "WINTER", "MUSEUM", "TICKET", "ORANGE", "BRIDGE")
PROMPT = "a flat illustration on a light background"


def made_items(count: int, seed: int = 0) -> list[AskedItem]:
    """Return `count` items of each of the kinds count, color, place and text, half of them true."""
    makers: tuple[Callable[[Random, bool], AskedItem], ...] = (_count, _color, _place, _text)
    return [
        make(Random(f"{make.__name__}/{seed}/{number}"), number % 2 == 0)
        for number in range(count)
        for make in makers
    ]


def _page() -> Image.Image:
    return Image.new("RGB", (SIDE, SIDE), "#f4f1ea")


def _draw(page: Image.Image, shape: str, color: str, cell: tuple[int, int], size: int = 84) -> None:
    left, top = (CELL * at + (CELL - size) // 2 for at in cell)
    box = (left, top, left + size, top + size)
    draw = ImageDraw.Draw(page)
    match shape:
        case "circle":
            draw.ellipse(box, fill=COLORS[color])
        case "square":
            draw.rectangle(box, fill=COLORS[color])
        case _:
            draw.polygon([(left, box[3]), (box[2], box[3]), (left + size // 2, top)], fill=COLORS[color])


def _asked(page: Image.Image, kind: str, text: str, truth: bool) -> AskedItem:
    item = ChecklistItem.model_validate({"text": text, "kind": kind})
    return AskedItem(None, Picture(page), PROMPT, item, truth)


def _other(rng: Random, right: str, choices: tuple[str, ...]) -> str:
    return rng.choice([one for one in choices if one != right])


def _count(rng: Random, truth: bool) -> AskedItem:
    page, shape, color = _page(), rng.choice(SHAPES), rng.choice(tuple(COLORS))
    number = rng.randrange(len(NUMBERS))
    for cell in rng.sample(range(9), number + 2):
        _draw(page, shape, color, (cell % 3, cell // 3))
    near = [one for one in (number - 1, number + 1) if 0 <= one < len(NUMBERS)]
    said = number if truth else rng.choice(near)
    return _asked(page, "count", f"there are exactly {NUMBERS[said]} {shape}s", truth)


def _color(rng: Random, truth: bool) -> AskedItem:
    page = _page()
    shapes, colors = rng.sample(SHAPES, 2), rng.sample(tuple(COLORS), 2)
    for shape, color, cell in zip(shapes, colors, rng.sample(range(9), 2), strict=True):
        _draw(page, shape, color, (cell % 3, cell // 3))
    return _asked(page, "color", f"the {shapes[0]} is {colors[0] if truth else colors[1]}", truth)


def _place(rng: Random, truth: bool) -> AskedItem:
    page, shape, place = _page(), rng.choice(SHAPES), rng.choice(tuple(PLACES))
    _draw(page, shape, rng.choice(tuple(COLORS)), PLACES[place])
    said = place if truth else _other(rng, place, tuple(PLACES))
    return _asked(page, "place", f"the {shape} is {said}", truth)


def _text(rng: Random, truth: bool) -> AskedItem:
    page, word = _page(), rng.choice(WORDS)
    shown = word
    while not truth and shown == word:
        letters = list(word)
        at = rng.randrange(len(letters))
        letters[at] = rng.choice("ABDEGKLMNPRSTUVW")
        shown = "".join(letters)
    font = ImageFont.load_default(64)
    ImageDraw.Draw(page).text((SIDE // 2, SIDE // 2), shown, fill="#202020", font=font, anchor="mm")
    return _asked(page, "text", f'the text "{word}" is readable', truth)
