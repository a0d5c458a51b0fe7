"""Batches of a diffusers pipeline: their content, their size, and that they never count as single images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops
from support import tiny_pipelines

from interleave_thinker.backend.errors import GeneratorError, OutOfMemory
from interleave_thinker.backend.generators import open_generator
from interleave_thinker.backend.generators.pipelines.batches import BatchedPipeline
from interleave_thinker.backend.pictures import Picture


class Counted:
    """Replaces a pipeline: 64 x 64 pixels of a seed's gray.

    `room` is the number that fits into its memory.
    """

    identity = "counted/1"

    def __init__(self, room: int = 100) -> None:
        self.modules: list[Any] = []
        self.room = room
        self.calls: list[tuple[int, object]] = []

    def area(self, source: Picture | None) -> int:
        return 64 * 64

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        return self.draw_together([prompt], source, [seed])[0]

    def draw_together(
        self, prompts: Sequence[str], source: Picture | Sequence[Picture] | None, seeds: Sequence[int]
    ) -> list[Picture]:
        self.calls.append((len(prompts), source))
        if len(prompts) > self.room:
            raise OutOfMemory("CUDA out of memory.")
        return [Picture(Image.new("RGB", (64, 64), (seed, seed, seed))) for seed in seeds]


def sizes(pipeline: Counted) -> list[int]:
    return [size for size, _ in pipeline.calls]


def greys(pictures: Sequence[Picture]) -> list[int]:
    return [picture.image.getpixel((0, 0))[0] for picture in pictures]  # type: ignore[index]


def test_batch_is_halved_permanently_when_out_of_memory() -> None:
    pipeline = Counted(room=3)
    many = BatchedPipeline(pipeline, any_source=True)
    assert greys(many.draw_many(["x"] * 8, [None] * 8, range(8))) == list(range(8))
    assert sizes(pipeline) == [8, 4, 2, 2, 2, 2]
    pipeline.calls.clear()
    many.draw_many(["x"] * 4, [None] * 4, range(4))
    assert sizes(pipeline) == [2, 2], "it is not tried again"


def test_single_image_out_of_memory_is_an_error() -> None:
    with pytest.raises(OutOfMemory):
        BatchedPipeline(Counted(room=0), any_source=True).draw_many(["x", "y"], [None, None], [1, 2])


def test_a_call_has_one_source_if_lists_are_references() -> None:
    one, other = Picture.white((64, 64)), Picture(Image.new("RGB", (64, 64)))
    sources = [one, None, other, one, None]
    pipeline = Counted()
    drawn = BatchedPipeline(pipeline, any_source=False).draw_many(["x"] * 5, sources, [1, 2, 3, 4, 5])
    assert greys(drawn) == [1, 2, 3, 4, 5]
    assert pipeline.calls == [(2, one), (2, None), (1, other)]
    pipeline = Counted()
    BatchedPipeline(pipeline, any_source=True).draw_many(["x"] * 5, sources, [1, 2, 3, 4, 5])
    assert pipeline.calls == [(3, [one, other, one]), (2, None)]


def test_call_has_a_pixel_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave_thinker.backend.generators.pipelines import batches

    monkeypatch.setattr(batches, "MAX_PIXELS", 3 * 64 * 64)
    pipeline = Counted()
    BatchedPipeline(pipeline, any_source=True).draw_many(["x"] * 7, [None] * 7, range(7))
    assert sizes(pipeline) == [3, 3, 1]


@pytest.mark.parametrize("name", ["stable_diffusion", "flux2_klein", "flux_kontext"])
def test_real_pipelines_generate_the_same_images_in_a_batch(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("diffusers")
    from diffusers.pipelines.flux import pipeline_flux_kontext

    monkeypatch.setattr(pipeline_flux_kontext, "PREFERRED_KONTEXT_RESOLUTIONS", [(64, 64)])
    folder = getattr(tiny_pipelines, name)(tmp_path / name)
    alone: Any = open_generator(f"diffusers:{folder}", device="cpu", steps=2, size="64x64")
    many = alone.in_batches()
    assert many.identity != alone.identity and many.identity.startswith(alone.identity[:20])
    source = Picture(Image.linear_gradient("L").convert("RGB").resize((64, 64)))
    asked = [("a red house", source, 1), ("seven green ducks at night", source, 2), ("a red house", None, 3)]
    asked += [("a boat", None, 4)]
    calls: list[int] = []
    together = alone.draw_together
    monkeypatch.setattr(
        type(alone),
        "draw_together",
        lambda self, prompts, *rest: calls.append(len(prompts)) or together(prompts, *rest),
    )
    drawn = many.draw_many(*map(list, zip(*asked, strict=True)))
    assert calls == [2, 2], "two calls, not four"
    for (prompt, before, seed), picture in zip(asked, drawn, strict=True):
        single = alone.draw(prompt, before, seed)
        worst = max(high for _, high in ImageChops.difference(picture.image, single.image).getextrema())
        assert worst <= 2


def test_a_class_untested_in_batches_generates_one_by_one(tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    folder = tiny_pipelines.qwen_image21(tmp_path / "qwen")
    alone: Any = open_generator(f"diffusers:{folder}", device="cpu", steps=1, size="64x64")
    assert alone.in_batches() is alone


def test_too_few_images_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("diffusers")
    folder = tiny_pipelines.stable_diffusion(tmp_path / "sd")
    alone: Any = open_generator(f"diffusers:{folder}", device="cpu", steps=2, size="64x64")
    kind = type(alone._pair.draw)
    called = kind.__call__

    def one_less(self: Any, *arguments: Any, **named: Any) -> Any:
        found = called(self, *arguments, **named)
        found.images = found.images[:-1]
        return found

    one_less.__signature__ = __import__("inspect").signature(called)  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "__call__", one_less)
    with pytest.raises(GeneratorError, match="returned 1 images for 2 prompts"):
        alone.draw_together(["a", "b"], None, [1, 2])
