"""Generated images for a critic to judge, with their expected content.

They come in chains as in stories: a generated image is usually the source of the next edit, so its faults are
also part of the image before. An image can be paired with a different instruction, which it does not
fulfill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from ....backend.core.errors import SettingsError
from ....backend.core.pictures import Picture
from ....tinyworld.drawing import draw
from ....tinyworld.oracle import DrawnImage
from ....tinyworld.scene import (
    BACKDROPS,
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
    StartScene,
    color_and_thing,
    identity_of,
)
from ....tinyworld.scorer import read_images
from ....tinyworld.wording import Clause, prompt_text
from .scenes import random_clauses, random_edit, random_scene, random_start

if TYPE_CHECKING:
    from ....tinyworld.pipeline import TinyWorldPipeline


def real(pipeline: TinyWorldPipeline, seed: int, batch: int = 64) -> Iterator[DrawnImage]:
    """Yield generated images forever, in chains: a generated image is usually the next source."""
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
        answers = zip(asked, drawn, read_images(drawn), strict=True)
        for slot, ((page, edit, clauses), after, seen) in enumerate(answers):
            before, scene = page or (None, None)
            yield DrawnImage(before, scene, edit, tuple(clauses), after, seen, seeds[slot])
            scene_after = seen.scene
            keep = scene_after is not None and len(scene_after.occupied) <= 6 and rng.random() < 0.75
            pages[slot] = (after, scene_after) if keep and scene_after else None


def ask(
    rng: Random, page: tuple[Picture, Scene] | None
) -> tuple[tuple[Picture, Scene] | None, Edit | StartScene, list[Clause]]:
    """Return a source image (`None`: none), an applicable edit, and sometimes clauses about the result."""
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


def mistaken(rng: Random, drawn: DrawnImage) -> DrawnImage | None:
    """Pair a generated image with another instruction that it does not fulfill; `None` if none was found."""
    for _ in range(20):
        edit = _other_constraint(rng, drawn.edit)
        after = edit.apply(drawn.scene_before)  # pyright: ignore[reportArgumentType]
        changes = drawn.scene_before is None or after != drawn.scene_before
        if after != drawn.expected and changes and len(set(_things(after))) == len(_things(after)):
            return DrawnImage(drawn.before, drawn.scene_before, edit, (), drawn.after, drawn.seen)
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


def _other_constraint(rng: Random, edit: Edit | StartScene) -> Edit | StartScene:
    match edit:
        case StartScene(scene):
            if rng.random() < 0.25 or not scene.occupied:
                return StartScene(scene.with_backdrop(rng.randrange(len(BACKDROPS))), edit.named)
            cell = rng.choice(scene.occupied)
            if rng.random() < 0.4 and scene.free:
                goal = rng.choice(scene.free)
                moved = scene.put(cell, EMPTY).put(goal, scene.cells[cell])
                return StartScene(moved, tuple(goal if place == cell else place for place in edit.order))
            return StartScene(scene.put(cell, _other_content(rng, scene.cells[cell])), edit.named)
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


def balanced(
    pipeline: TinyWorldPipeline, count: int, seed: int, progress: Callable[[int, int], None] | None = None
) -> list[DrawnImage]:
    """Return `count` generated images with their own instruction, half of them correct, in order.

    `progress` is called with the number of images found and wanted.

    Raises:
        SettingsError: If the generator makes too few correct or too few wrong images.
    """
    wanted = {True: count - count // 2, False: count // 2}
    chosen: list[DrawnImage] = []
    for drawn in islice(real(pipeline, seed), 256 + 40 * count):
        if wanted[drawn.success]:
            wanted[drawn.success] -= 1
            chosen.append(drawn)
            if progress is not None:
                progress(len(chosen), count)
        if not any(wanted.values()):
            return chosen
    lacking = "correct" if wanted[True] else "wrong"
    raise SettingsError(
        f"Too few of {256 + 40 * count} generated images are {lacking}.",
        "Train the generator longer." if wanted[True] else "This generator does not need a critic.",
    )
