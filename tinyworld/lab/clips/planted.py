"""Faults that clips are made with, at stated rates, and the clauses of a prompt that prevent them.

Half of the faults follow from the scenes and the prompt, as those of real models do: they occur with every
seed until a clause prevents them. The others are chance, and go away with another seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from ....backend.errors import GeneratorError
from ....backend.types.clip import ClipPair, Footage
from ...runtime.reading import read_image
from ...runtime.scene import (
    BACKDROPS,
    COLORS,
    EMPTY,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Remove,
    Replace,
    Scene,
    StartScene,
    color_and_thing,
    identity_of,
)
from ...runtime.wording import Clause, clauses_of, prompt_text, read_prompt
from ..world.scenes import absent_thing, changed_cells
from .in_between import ClipScript, Hidden, Stranger, frames_of, tracks_of

Kind = Literal["jump", "vanished", "wrong direction", "stranger"]
TRAINED: tuple[Kind, ...] = ("jump", "vanished", "wrong direction")
HELD_OUT: Kind = "stranger"
"""A thing of neither scene appears. No training row contains it."""
EVERY_SEED = BY_CHANCE = 0.2
"""Probability of a fault that occurs with every seed, and of one by chance if there is none."""
DESPITE_CLAUSE = 0.02
"""Probability that a clause does not prevent its fault."""
SLOWLY, KEEP = "the change must be slow", "all things must stay"
EARLIEST, LATEST = 0.1, 0.9
"""Times between which a jump happens."""
SHORTEST, LONGEST = 0.15, 0.6
"""Duration of a vanished thing or a stranger, as a share of the clip."""
FPS = 8.0


@dataclass(frozen=True)
class ClipPrompt:
    """A prompt of a clip: the edit of its step, and clauses.

    Attributes:
        edit: The edit.
        clauses: Clauses about the end of the clip. Any of them prevents a wrong direction.
        slowly: Whether a clause prevents a jump.
        keep: Whether a clause prevents that things vanish or come.
    """

    edit: Edit
    clauses: tuple[Clause, ...] = ()
    slowly: bool = False
    keep: bool = False

    def text(self) -> str:
        """Return the prompt as text."""
        extra = [SLOWLY] * self.slowly + [KEEP] * self.keep
        return "; ".join([prompt_text(self.edit, self.clauses), *extra])

    def prevents(self, kind: Kind) -> bool:
        """Return whether a clause prevents a kind of fault."""
        by_clause: dict[Kind, bool] = {"jump": self.slowly, "wrong direction": bool(self.clauses)}
        return by_clause.get(kind, self.keep)

    def against(self, kind: Kind, before: Scene) -> ClipPrompt:
        """Return the prompt with the clause that prevents a kind of fault."""
        if kind == "jump":
            return replace(self, slowly=True)
        if kind != "wrong direction":
            return replace(self, keep=True)
        if self.clauses:
            return self
        after = self.edit.apply(before)
        changed = changed_cells(before, after)
        cell = next((one for one in changed if after.cells[one] != EMPTY), next(iter(changed), None))
        stated = clauses_of(after, [] if cell is None else [cell], backdrop=cell is None)
        return replace(self, clauses=tuple(stated))


def read_clip_prompt(text: str) -> ClipPrompt | None:
    """Parse the prompt of a clip; `None` if it does not follow the grammar."""
    parts = [part.strip() for part in text.strip().rstrip(".").lower().split(";")]
    found = read_prompt("; ".join(part for part in parts if part not in (SLOWLY, KEEP)))
    if found is None or isinstance(found[0], StartScene):
        return None
    return ClipPrompt(found[0], tuple(found[1]), SLOWLY in parts, KEEP in parts)


def plant(kind: Kind, before: Scene, edit: Edit, rng: Random) -> ClipScript | None:
    """Return a clip of an edit with a fault; `None` if the scenes have no place for it."""
    plain = ClipScript(before, edit.apply(before))
    if kind == "jump":
        return replace(plain, cut=rng.uniform(EARLIEST, LATEST))
    if kind == "wrong direction":
        other = wrong_direction(before, edit, rng)
        return ClipScript(before, other) if other not in (None, plain.after) else None
    length, middle = rng.uniform(SHORTEST, LONGEST), rng.uniform(0.3, 0.7)
    begin, end = max(0.03, middle - length / 2), min(0.97, middle + length / 2)
    if kind == "vanished":
        tracks = [one for one in tracks_of(before, plain.after) if not one.changes]
        return replace(plain, hidden=Hidden(rng.choice(tracks), begin, end)) if tracks else None
    free = [cell for cell in before.free if plain.after.cells[cell] == EMPTY]
    thing = absent_thing(rng, plain.after)
    if not free or before.find(thing):
        return None
    return replace(
        plain, stranger=Stranger(identity_of(rng.choice(COLORS), thing), rng.choice(free), begin, end)
    )


def wrong_direction(before: Scene, edit: Edit, rng: Random) -> Scene | None:
    """Return where a clip leads that does another thing than its edit; `None` if that is impossible."""
    free = [cell for cell in before.free if not isinstance(edit, Add | Move) or cell != edit.cell]
    cell = rng.choice(free) if free else None
    match edit:
        case Add(identity, _):
            return None if cell is None else Add(identity, cell).apply(before)
        case Move(thing, _) | Remove(thing):
            return None if cell is None else Move(thing, cell).apply(before)
        case Recolor(thing, color):
            colors = {color, *(color_and_thing(before.cells[one])[0] for one in before.find(thing))}
            return Recolor(thing, rng.choice([one for one in COLORS if one not in colors])).apply(before)
        case Replace(thing, identity):
            color, kind = color_and_thing(identity)
            other = identity_of(rng.choice([one for one in COLORS if one != color]), kind)
            return Replace(thing, other).apply(before)
        case ChangeBackdrop(backdrop):
            others = [one for one in range(len(BACKDROPS)) if one not in (backdrop, before.backdrop)]
            return before.with_backdrop(rng.choice(others))


def script_of(before: Scene, prompt: ClipPrompt, seed: int, kinds: tuple[Kind, ...] = TRAINED) -> ClipScript:
    """Return the clip that the tiny world makes of a prompt with a seed, with or without a fault."""
    always, chance = Random(f"clip/{before}/{prompt.edit}"), Random(f"clip/{before}/{prompt}/{seed}")
    for rng, share in ((always, EVERY_SEED), (chance, BY_CHANCE)):
        happens, kind = rng.random(), rng.choice(kinds)
        prevented = prompt.prevents(kind) and chance.random() >= DESPITE_CLAUSE
        if happens < share and not prevented:
            made = plant(kind, before, prompt.edit, rng)
            if made is not None:
                return made
    return ClipScript(before, prompt.edit.apply(before))


class TinyClips:
    """Makes clips between images of the tiny world, with faults of these kinds (a `ClipMaker`)."""

    def __init__(self, kinds: tuple[Kind, ...] = TRAINED) -> None:
        self.kinds = kinds
        self.identity = f"tinyworld clips/1 {','.join(kinds)} {EVERY_SEED} {BY_CHANCE}"

    def make(self, pair: ClipPair, seed: int) -> Footage:
        """Return the frames of a clip. The prompt is that of a step, and may have clauses.

        Raises:
            GeneratorError: The first image or the prompt is not of the tiny world.
        """
        before, prompt = read_image(pair.first).scene, read_clip_prompt(pair.prompt)
        if before is None or prompt is None:
            raise GeneratorError(
                f"The tiny world cannot make a clip of {pair.prompt!r}.",
                "Its prompts are described in docs/explanation/tiny-world.md.",
            )
        return Footage(frames_of(script_of(before, prompt, seed, self.kinds)), FPS)
