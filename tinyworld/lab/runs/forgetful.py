"""A generator that forgets: a thing's color or place drifts two steps after a prompt last named it.

Image models keep what a prompt names and change what it does not, and every edit of an edit changes more. The
tiny world's generator does not do that. This wrapper adds it, before the wrapped generator edits:

- A thing that neither this prompt nor the one before names drifts: it gets another color or another place. A
  hash of story, thing and source decides whether (`chance`) and how, so another seed does not help.
- An edit or a clause that names the thing prevents both. What a prompt says about the cast prevents only what
  it states: a color, or a place.
- What a prompt says about the cast is also followed. A thing gets the color or place that it states, unless
  the edit names the thing, and a thing that is not on the page appears in a free cell.

The text about the cast (backend/cast.py) follows the tiny world's prompt after a full stop. It has sentences
like "Fish: red." and "The fish is at the top left.".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from ....backend.generators import Generator
from ....backend.pictures import Picture
from ...runtime.drawing import draw
from ...runtime.reading import read_image
from ...runtime.scene import (
    CELLS,
    COLORS,
    EMPTY,
    THINGS,
    Scene,
    StartScene,
    color_and_thing,
    identity_of,
    thing_of,
)
from ...runtime.sprites import CELL
from ...runtime.wording import Clause, edit_text, read_prompt

CHANCE = 0.5
"""Probability that a forgotten thing drifts."""
_TRAIT = re.compile(rf"({'|'.join(THINGS)}): ([^.]*)\.", re.IGNORECASE)
_CELL = "|".join(sorted(CELLS, key=len, reverse=True))
_FACT = re.compile(rf"the ({'|'.join(THINGS)}) is (?:({'|'.join(COLORS)})|at the ({_CELL}))\.", re.IGNORECASE)


@dataclass
class Stated:
    """What a prompt states about a thing: its color, its cell, or neither."""

    color: str | None = None
    cell: int | None = None


def cast_in(text: str) -> dict[str, Stated]:
    """Return what a text about the cast states, by thing. Facts replace traits."""
    found: dict[str, Stated] = {}
    for thing, traits in _TRAIT.findall(text):
        stated = found.setdefault(thing.lower(), Stated())
        stated.color = next((one for one in COLORS if one in traits.split(", ")), None)
    for thing, color, cell in _FACT.findall(text):
        stated = found.setdefault(thing.lower(), Stated())
        stated.color = color.lower() or stated.color
        stated.cell = CELLS.index(cell.lower()) if cell else stated.cell
    return found


def parts_of(prompt: str) -> tuple[str, str]:
    """Return the prompt in the words of the tiny world, and the text about the cast after it."""
    words, _, cast = prompt.partition(". ")
    return words, cast


class ForgetfulGenerator:
    """Wraps the generator of one story."""

    def __init__(self, inner: Generator, story: str, chance: float = CHANCE) -> None:
        self.inner, self._story, self._chance = inner, story, chance
        self._kept: dict[str, dict[str, Stated]] = {}
        """For each generated image, the things whose color or place its prompt named."""

    @property
    def identity(self) -> str:
        """Identity of the wrapped generator and the chance."""
        return f"{self.inner.identity} forgets {self._chance}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Let things of the source drift, and generate an image from it."""
        words, text = parts_of(prompt)
        cast, read = cast_in(text), read_prompt(words)
        if read is None:
            return self.inner.draw(words, source, seed)
        edit, clauses = read
        named = {thing for thing in THINGS if thing in edit_text(edit).split()}
        named |= {thing for one in clauses if one.cell is not None and (thing := thing_of(one.content))}
        kept = cast | {thing: Stated(color=COLORS[0], cell=0) for thing in named}
        scene = None if source is None else read_image(source).scene
        shown = source
        if source is not None and scene is not None and not isinstance(edit, StartScene):
            rng = Random(f"{self._story}/{source.digest}/{words}")
            drifted = self._drifted(scene, (kept, self._kept.get(source.digest)))
            drifted = followed(
                drifted, {thing: one for thing, one in cast.items() if thing not in named}, rng
            )
            drifted = kept_free(drifted, scene, edit.apply(scene), clauses)
            shown = repainted(source, scene, drifted)
        image = self.inner.draw(words, shown, seed)
        self._kept.setdefault(image.digest, kept)
        return image

    def _drifted(self, scene: Scene, kept: tuple[dict[str, Stated], dict[str, Stated] | None]) -> Scene:
        """Return the scene with those colors and places changed that neither of two prompts named.

        Args:
            scene: The scene.
            kept: What this prompt and the one before named. The second is `None` if the image is not from
                this generator: nothing drifts then.
        """
        this, before = kept
        for cell in scene.occupied if before is not None else ():
            color, thing = color_and_thing(scene.cells[cell])
            rng = Random(f"{self._story}/{thing}/{scene}")
            if rng.random() >= self._chance:
                continue
            stated = [one[thing] for one in (this, before or {}) if thing in one]
            if rng.random() < 0.5:
                if all(one.color is None for one in stated):
                    other = rng.choice([one for one in COLORS if one != color])
                    scene = scene.put(cell, identity_of(other, thing))
            elif all(one.cell is None for one in stated) and scene.free:
                scene = moved(scene, cell, rng.choice(scene.free))
        return scene


def followed(scene: Scene, cast: dict[str, Stated], rng: Random) -> Scene:
    """Return the scene with every thing as the text about the cast states it."""
    for thing, stated in cast.items():
        cells = scene.find(thing)
        if not cells:
            if scene.free:
                color = stated.color or rng.choice(COLORS)
                scene = scene.put(rng.choice(scene.free), identity_of(color, thing))
            continue
        if stated.color is not None:
            scene = scene.put(cells[0], identity_of(stated.color, thing))
        if stated.cell is not None and stated.cell in scene.free:
            scene = moved(scene, cells[0], stated.cell)
    return scene


def kept_free(scene: Scene, before: Scene, after: Scene, clauses: list[Clause]) -> Scene:
    """Return the scene without the changes in cells that the edit fills or a clause names."""
    filled = {cell for cell in range(9) if before.cells[cell] == EMPTY and after.cells[cell] != EMPTY}
    for cell in filled | {one.cell for one in clauses if one.cell is not None}:
        if scene.cells[cell] != before.cells[cell]:
            scene = scene.put(cell, before.cells[cell])
    return scene


def moved(scene: Scene, cell: int, to: int) -> Scene:
    """Return the scene with the thing of a cell in another one."""
    return scene.put(to, scene.cells[cell]).put(cell, EMPTY)


def repainted(page: Picture, before: Scene, after: Scene) -> Picture:
    """Return the page with the cells that differ painted as in the second scene."""
    changed = [cell for cell in range(9) if before.cells[cell] != after.cells[cell]]
    if not changed:
        return page
    image, painted = page.image.copy(), draw(after).image
    for cell in changed:
        left, top = CELL * (cell % 3), CELL * (cell // 3)
        box = (left, top, left + CELL, top + CELL)
        image.paste(painted.crop(box), box)
    return Picture(image)
