"""A worker applies the settings of a request as if the model had been opened with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from support import tiny_pipelines

from interleave_thinker import Picture, open_generator
from interleave_thinker.service.pool import Drawer, GeneratedImage, ImageRequest, Refused
from interleave_thinker.service.settings import ModelSettings

SOURCE = Picture(Image.linear_gradient("L").convert("RGB").resize((64, 64)))


def drawer(spec: str, **options: str | int | float | bool) -> Drawer:
    return Drawer.open(ModelSettings(name="model", generator=spec, options=options), "cpu", "model#0", 0)


def request(**given: object) -> ImageRequest:
    return ImageRequest(**{"model": "model", "prompt": "a red house", "seed": 5, **given})  # type: ignore[arg-type]


def image(outcome: object) -> Picture:
    assert isinstance(outcome, GeneratedImage), outcome
    return Picture.from_bytes(outcome.image)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pipeline")
    tiny_pipelines.stable_diffusion(folder)
    return f"diffusers:{folder}"


def test_size_steps_guidance_and_negative_are_the_requests(pipeline: str) -> None:
    worker = drawer(pipeline, steps=2, size="64x64")
    assert worker.info.takes == ("guidance", "negative", "size", "steps")
    changed = request(size=(32, 32), steps=3, guidance=2.5, negative="rain")
    (outcome,) = worker.draw([changed])
    opened = open_generator(pipeline, device="cpu", steps=3, size="32x32", guidance=2.5, negative="rain")
    assert image(outcome) == opened.draw("a red house", None, 5)
    (plain,) = worker.draw([request()])
    assert image(plain) == open_generator(pipeline, device="cpu", steps=2, size="64x64").draw(
        "a red house", None, 5
    )


def test_a_mask_model_gets_the_mask_of_each_request(tmp_path: Path) -> None:
    tiny_pipelines.flux_fill(tmp_path)
    mask = Image.new("RGB", (64, 64))
    mask.paste("white", (0, 0, 64, 32))
    mask.save(tmp_path / "half.png")
    spec, options = f"diffusers:{tmp_path}", {"steps": 1, "size": "64x64"}
    worker = drawer(spec, **options)
    (outcome,) = worker.draw([request(sources=(SOURCE,), mask=Picture(mask))])
    opened = open_generator(spec, device="cpu", mask=str(tmp_path / "half.png"), **options)
    assert image(outcome) == opened.draw("a red house", SOURCE, 5)
    (without,) = worker.draw([request(sources=(SOURCE,))])
    assert isinstance(without, Refused) and "mask" in without.hint


def test_unsupported_settings_are_listed_or_rejected() -> None:
    worker = drawer("fake:32")
    (outcome,) = worker.draw([request(steps=9, guidance=1.0)])
    assert isinstance(outcome, GeneratedImage) and outcome.ignored == ("guidance", "steps")
    (refused,) = worker.draw([request(sources=(SOURCE,) * 17)])
    assert isinstance(refused, Refused) and "16 image(s)" in refused.message
    assert image(worker.draw([request()])[0]) == open_generator("fake:32").draw("a red house", None, 5)


def test_settings_that_change_an_image_change_its_key() -> None:
    base = request()
    others = [
        request(**one)
        for one in (
            {"prompt": "b"},
            {"seed": 6},
            {"negative": "b"},
            {"sources": (SOURCE,)},
            {"mask": SOURCE},
            {"size": (5, 6)},
            {"steps": 1},
            {"guidance": 1.0},
            {"format": "webp"},
            {"model": "other"},
        )
    ]
    assert len({base.key, *(one.key for one in others)}) == len(others) + 1
    assert request(client="someone").key == base.key
