"""Images with shapes and texts of known content, and true and false items about them.

They test whether a critic can count, tell colors, places and letters at all, without any data. Identity and
anatomy need photographs or drawings whose truth a person gave (`read_labeled` of reliability.py).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from PIL import Image, ImageDraw, ImageFont

from ...backend.pictures import Picture
from ...backend.types import ChecklistItem
from .reliability import AskedItem

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
