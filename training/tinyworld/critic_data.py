"""Training rows for the tiny critic: what it sees, what it should have seen, the verdict, and the prompt to draw with next.

Decisions. The reasoning lists every cell that held, should hold or holds something as "was CELL THING want CELL THING see CELL
THING: yes|no": each thing follows its cell's name, so that one look names it; what was stands before what is wanted,
without which a critic wanted whatever it saw; and the verdict is a local read of yes and no. Rows about rendered pages with made-up mistakes teach seeing and comparing; rows
about the generator's real pages teach what its mistakes look like. The teacher of refined prompts is decent, not
perfect: it names one wrong cell at a time and never one that should be empty, which leaves reinforcement room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ...backend.answers import write_verdict
from ...backend.errors import SettingsError
from ...backend.pictures import Picture
from ...backend.prompts import fill
from ...backend.scorers.tinyworld import faults
from ...backend.tinyworld.drawing import draw
from ...backend.tinyworld.reading import UNREADABLE, Reading, read_pages
from ...backend.tinyworld.scene import (
    BACKDROPS,
    CELLS,
    COLORS,
    EMPTY,
    THINGS,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Replace,
    Scene,
    Start,
    color_and_thing,
    identity_of,
    name_of,
)
from ...backend.tinyworld.wording import Clause, clauses_of, prompt_text
from ...backend.types import Verdict
from ..data import SftMessage, SftRow
from .agents import PROMPT_SET
from .scenes import misdraw, random_clauses, random_edit, random_luck, random_scene, random_start

if TYPE_CHECKING:
    from ...backend.tinyworld.pipeline import TinyWorldPipeline

MAX_CLAUSES = 4
MISTAKES_SEED = 500_000
DESCRIBE = "Before: <image> After: <image> Describe."


@dataclass(frozen=True)
class Drawn:
    """A page that was drawn: from which page (None: none), for which edit and clauses, what it shows, and with which seed
    (None: rendered)."""

    before: Picture | None
    scene_before: Scene | None
    edit: Edit | Start
    clauses: tuple[Clause, ...]
    after: Picture
    seen: Reading
    seed: int | None = None

    @property
    def expected(self) -> Scene:
        return self.edit.apply(self.scene_before)  # pyright: ignore[reportArgumentType]

    @property
    def success(self) -> bool:
        return not faults(self.expected, self.seen)


def _seen(identity: int) -> str:
    return "smudge" if identity == UNREADABLE else name_of(identity)


def compare(drawn: Drawn) -> str:
    """The critic's reasoning: the backdrop, then every cell with something in it; then the sum of the answers."""
    before, expected, seen = drawn.scene_before, drawn.expected, drawn.seen
    was = BACKDROPS[before.backdrop] if before else "blank"
    want, see = BACKDROPS[expected.backdrop], BACKDROPS[seen.backdrop]
    parts = [f"was page {was} want page {want} see page {see} {'yes' if want == see else 'no'}"]
    for cell, place in enumerate(CELLS):
        held = before.cells[cell] if before else EMPTY
        wanted, shown = expected.cells[cell], seen.cells[cell]
        if (held, wanted, shown) != (EMPTY, EMPTY, EMPTY):
            things = f"was {place} {name_of(held)} want {place} {name_of(wanted)} see {place} {_seen(shown)}"
            parts.append(things + _match(wanted, shown))
    return "; ".join(parts) + f"; so {'yes' if drawn.success else 'no'}"


def _match(wanted: int, shown: int) -> str:
    """Whether a cell is right: of two things, colour and kind are compared one by one, which a small model can learn."""
    if EMPTY in (wanted, shown) or shown == UNREADABLE:
        return " yes" if wanted == shown else " no"
    pairs = zip(color_and_thing(wanted), color_and_thing(shown), strict=True)
    return ":" + ",".join(f" {want} {see} {'yes' if want == see else 'no'}" for want, see in pairs)


def refine(drawn: Drawn) -> list[Clause]:
    """The teacher's clauses for the next draw: those used, and one for the first wrong cell that should hold a thing."""
    wrong = faults(drawn.expected, drawn.seen)
    named = {clause.cell for clause in drawn.clauses}
    for cell in wrong:
        if cell is not None and cell not in named and drawn.expected.cells[cell] != EMPTY:
            return [*drawn.clauses, *clauses_of(drawn.expected, [cell])][-MAX_CLAUSES:]
    return list(drawn.clauses)


def verdict_of(drawn: Drawn) -> Verdict:
    """The right verdict with the teacher's refined prompt."""
    clauses = drawn.clauses if drawn.success else refine(drawn)
    return Verdict(
        success=drawn.success,
        refined_prompt=prompt_text(drawn.edit, clauses),
        reasoning=compare(drawn),
    )


def _description(drawn: Drawn) -> str:
    """Both pages cell by cell, in the form of the reasoning."""
    before = drawn.scene_before
    was = BACKDROPS[before.backdrop] if before else "blank"
    parts = [f"was page {was} see page {BACKDROPS[drawn.seen.backdrop]}"]
    for cell, now in enumerate(drawn.seen.cells):
        held = before.cells[cell] if before else EMPTY
        if held != EMPTY or now != EMPTY:
            parts.append(f"was {CELLS[cell]} {name_of(held)} see {CELLS[cell]} {_seen(now)}")
    return "; ".join(parts)


class PageFolder:
    """Pages written once each as PNG files; rows refer to them by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def name(self, page: Picture) -> str:
        path = self.folder / f"{page.digest}.png"
        if not path.exists():
            page.image.save(path, compress_level=1)
        return f"{self.folder.name}/{path.name}"


def judge_row(drawn: Drawn, pages: PageFolder) -> SftRow:
    """A row that teaches one verdict."""
    question = fill(
        PROMPT_SET.critic,
        original_instruction=prompt_text(drawn.edit),
        rewritten_prompt=prompt_text(drawn.edit, drawn.clauses),
    )
    before = drawn.before or Picture.white(drawn.after.size)
    return row_of(question, write_verdict(verdict_of(drawn)), [pages.name(before), pages.name(drawn.after)])


def describe_row(drawn: Drawn, pages: PageFolder) -> SftRow:
    """A row that teaches to see both pages."""
    images = [pages.name(drawn.before or Picture.white(drawn.after.size)), pages.name(drawn.after)]
    return row_of(DESCRIBE, _description(drawn), images)


def row_of(question: str, answer: str, images: list[str]) -> SftRow:
    """A row of one question and its answer."""
    turns = [SftMessage(role="user", content=question), SftMessage(role="assistant", content=answer)]
    return SftRow(messages=turns, images=images)


def rendered(rng: Random, mistakes: float = 0.55) -> Drawn:
    """A rendered page; about this share has a mistake."""
    before = None if rng.random() < 0.2 else random_scene(rng)
    edit = random_start(rng) if before is None else random_edit(rng, before)
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    clauses = random_clauses(rng, before, after) if rng.random() < 0.4 else []
    scene = after
    if rng.random() < mistakes:
        while scene == after:
            scene = misdraw(before, edit, [], random_luck(rng))
    page = draw(scene)
    seen = Reading(scene.backdrop, scene.cells, (0.0,) * 9)
    return Drawn(draw(before) if before else None, before, edit, tuple(clauses), page, seen)


def real(pipeline: TinyWorldPipeline, seed: int, batch: int = 64) -> Iterator[Drawn]:
    """Pages of the generator without end, in chains: what it drew is mostly what it edits next."""
    rng = Random(f"critic pages/{seed}")
    pages: list[tuple[Picture, Scene] | None] = [None] * batch
    count = 0
    while True:
        asked = [ask(rng, page) for page in pages]
        seeds = [seed * 10**8 + count + slot for slot in range(batch)]
        images = pipeline(
            [prompt_text(edit, clauses) for _, edit, clauses in asked],
            [page[0].image if page else None for page, _, _ in asked],
            seeds,
        )
        count += batch
        drawn = [Picture(image) for image in images]
        answers = zip(asked, drawn, read_pages(drawn), strict=True)
        for slot, ((page, edit, clauses), after, seen) in enumerate(answers):
            before, scene = page or (None, None)
            yield Drawn(before, scene, edit, tuple(clauses), after, seen, seeds[slot])
            scene_after = seen.scene
            keep = scene_after is not None and len(scene_after.occupied) <= 6 and rng.random() < 0.75
            pages[slot] = (after, scene_after) if keep and scene_after else None


def ask(
    rng: Random, page: tuple[Picture, Scene] | None
) -> tuple[tuple[Picture, Scene] | None, Edit | Start, list[Clause]]:
    """A page to draw on (None: none), a wish that applies to it, and sometimes clauses about what should come of it."""
    if page is None and rng.random() < 0.5:
        scene = random_scene(rng)
        page = draw(scene), scene
    if page is None:
        before, edit = None, random_start(rng)
    else:
        before = page[1]
        edit = random_edit(rng, before)
    after = edit.apply(before)  # pyright: ignore[reportArgumentType]
    return page, edit, random_clauses(rng, before, after) if rng.random() < 0.35 else []


def mistaken(rng: Random, drawn: Drawn) -> Drawn | None:
    """The same real page under another wish, which it does not fulfil; None if no such wish was found."""
    for _ in range(20):
        edit = _other_wish(rng, drawn.edit)
        after = edit.apply(drawn.scene_before)  # pyright: ignore[reportArgumentType]
        changes = drawn.scene_before is None or after != drawn.scene_before
        if after != drawn.expected and changes and len(set(_things(after))) == len(_things(after)):
            return Drawn(drawn.before, drawn.scene_before, edit, (), drawn.after, drawn.seen)
    return None


def _things(scene: Scene) -> list[str]:
    return [color_and_thing(content)[1] for content in scene.cells if content != EMPTY]


def _other(rng: Random, choices: Sequence[str], right: str) -> str:
    return rng.choice([choice for choice in choices if choice != right])


def _other_content(rng: Random, identity: int) -> int:
    color, thing = color_and_thing(identity)
    if rng.random() < 0.6:
        return identity_of(_other(rng, COLORS, color), thing)
    return identity_of(color, _other(rng, THINGS, thing))


def _other_wish(rng: Random, edit: Edit | Start) -> Edit | Start:
    match edit:
        case Start(scene):
            if rng.random() < 0.25 or not scene.occupied:
                return Start(scene.with_backdrop(rng.randrange(len(BACKDROPS))), edit.told)
            cell = rng.choice(scene.occupied)
            if rng.random() < 0.4 and scene.free:
                goal = rng.choice(scene.free)
                moved = scene.put(cell, EMPTY).put(goal, scene.cells[cell])
                return Start(moved, tuple(goal if told == cell else told for told in edit.order))
            return Start(scene.put(cell, _other_content(rng, scene.cells[cell])), edit.told)
        case Add(identity, cell):
            if rng.random() < 0.35:
                return Add(identity, rng.randrange(9))
            return Add(_other_content(rng, identity), cell)
        case Recolor(thing, color):
            return Recolor(thing, _other(rng, COLORS, color))
        case Move(thing, _):
            return Move(thing, rng.randrange(9))
        case Replace(thing, identity):
            return Replace(thing, _other_content(rng, identity))
        case ChangeBackdrop(_):
            return ChangeBackdrop(rng.randrange(len(BACKDROPS)))
        case _:
            return edit


def balanced(pipeline: TinyWorldPipeline, count: int, seed: int) -> list[Drawn]:
    """`count` real pages under their own wish, half of them right ones, in the order in which they were drawn.

    Raises SettingsError for a generator that is so good or so bad that one half cannot be found.
    """
    wanted = {True: count - count // 2, False: count // 2}
    chosen: list[Drawn] = []
    for drawn in islice(real(pipeline, seed), 256 + 40 * count):
        if wanted[drawn.success]:
            wanted[drawn.success] -= 1
            chosen.append(drawn)
        if not any(wanted.values()):
            return chosen
    lacking = "right" if wanted[True] else "wrong"
    raise SettingsError(
        f"The generator drew {256 + 40 * count} pages and too few {lacking} ones among them.",
        "Train it longer." if wanted[True] else "It needs no critic.",
    )


def make_rendered(folder: Path, describe: int, judge: int, seed: int) -> list[SftRow]:
    """A curriculum: `describe` rows first, then `judge` rows with a tenth of describing mixed in."""
    rng = Random(f"critic/{seed}")
    pages = PageFolder(folder / "pages")
    rows = [describe_row(rendered(rng), pages) for _ in range(describe)]
    for _ in range(judge):
        row = describe_row if rng.random() < 0.1 else judge_row
        rows.append(row(rendered(rng), pages))
    return rows


def make_real(folder: Path, pipeline: TinyWorldPipeline, count: int, seed: int) -> list[SftRow]:
    """`count` rows about real pages, half of them successes: mistakes of the generator, and pages under another wish."""
    rng = Random(f"critic real/{seed}")
    pages = PageFolder(folder / "pages")
    rows: list[SftRow] = []
    passed = refused = 0
    for drawn in real(pipeline, seed):
        if len(rows) >= count:
            return rows
        other = mistaken(rng, drawn) if drawn.success and passed > refused else None
        drawn = other or drawn
        if drawn.success and passed > refused + 8:
            continue
        passed, refused = passed + drawn.success, refused + (not drawn.success)
        row = describe_row if rng.random() < 0.05 else judge_row
        rows.append(row(drawn, pages))
    return rows


def make_mistakes(folder: Path, pipeline: TinyWorldPipeline, count: int, seed: int) -> list[SftRow]:
    """`count` rows about the generator's own mistakes and as many right pages: smudges and all."""
    pages = PageFolder(folder / "pages")
    return [judge_row(drawn, pages) for drawn in balanced(pipeline, count, MISTAKES_SEED + seed)]
