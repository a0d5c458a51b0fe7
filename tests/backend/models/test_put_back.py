"""Put back: pixels that an edit did not need to change return, and other edits are left alone."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy
import pytest
import torch
from PIL import Image, ImageFilter
from support.made_edits import CHANGED, difference, far_from_change, moved, textured, tinted, with_change

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.put_back import pictures
from interleave_thinker.backend.models.put_back.alignment import fit_light, moved_back, register
from interleave_thinker.backend.models.put_back.filters import luma
from interleave_thinker.backend.models.put_back.pictures import asks_for_whole_image, put_back
from interleave_thinker.backend.models.put_back.put_back import refusal

Change = Callable[[Image.Image], Image.Image]


def planes(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(numpy.array(image)).permute(2, 0, 1).float()


def jpeg(image: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    return Image.open(buffer).convert("RGB")


def gamma(image: Image.Image) -> Image.Image:
    return image.point([round(255 * (level / 255) ** 0.88) for level in range(256)] * 3)


def relit(image: Image.Image) -> Image.Image:
    gain = numpy.linspace(0.9, 1.1, image.width)[None, :, None]
    return Image.fromarray((numpy.asarray(image) * gain).round().clip(0, 255).astype("uint8"))


NUISANCES: dict[str, Change] = {
    "gamma": gamma,
    "light": relit,
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(0.7)),
    "jpeg": jpeg,
    "tint and move": lambda image: moved(tinted(image), -1, 2),
}


@pytest.mark.parametrize("name", NUISANCES)
def test_everything_but_the_change_has_its_pixels_again(name: str) -> None:
    before = textured()
    clean = with_change(before)
    after = NUISANCES[name](clean)
    found = put_back(Picture(before), Picture(after))
    assert not found.refused
    far = far_from_change()
    close = difference(found.image, before)[far] <= 1
    assert close.mean() >= 0.99
    left, top, right, bottom = CHANGED
    inside = difference(found.image, clean)[top + 4 : bottom - 3, left + 4 : right - 3]
    assert (inside <= 8).mean() >= 0.97, "the change is there, without the tint"
    share = (right - left) * (bottom - top) / (before.width * before.height)
    assert share <= found.changed <= 3 * share
    assert (difference(after, before)[far] <= 1).mean() < 0.9, "the nuisance was everywhere"
    assert put_back(Picture(before), Picture(after)).image == found.image, "the same pixels again"


def test_ten_edits_do_not_add_up() -> None:
    image, start = textured(), textured()
    drifting = start
    for number in range(10):
        color = (220, 40, 60) if number % 2 else (30, 90, 200)
        image = put_back(Picture(image), Picture(tinted(with_change(image, color), (3, -2, 1)))).image.image
        drifting = tinted(with_change(drifting, color), (3, -2, 1))
    far = far_from_change()
    assert difference(image, start)[far].max() <= 1
    assert difference(drifting, start)[far].mean() > 25


def night(image: Image.Image) -> Image.Image:
    pixels = numpy.asarray(image) * numpy.array([0.35, 0.4, 0.6])
    return Image.fromarray(pixels.astype("uint8"))


@pytest.mark.parametrize(
    "change",
    [
        lambda image: textured(7),
        night,
        lambda image: image.point([255 - level for level in range(256)] * 3),
        lambda image: image.filter(ImageFilter.ModeFilter(9)).quantize(8).convert("RGB"),
    ],
    ids=["another scene", "night", "negative", "another style"],
)
def test_an_edit_of_the_whole_image_is_left_alone(change: Change) -> None:
    before = textured()
    after = Picture(change(before))
    found = put_back(Picture(before), after)
    assert found.refused and found.image is after


@pytest.mark.parametrize(("factor", "kept"), [(0.65, False), (0.75, True), (1.35, True), (1.5, False)])
def test_a_change_of_the_whole_images_saturation_is_an_edit(factor: float, kept: bool) -> None:
    """Everything else agrees, since the prediction is the edit itself."""
    before = planes(textured())
    gray = luma(before)
    after = gray + factor * (before - gray)
    mask, known = torch.zeros_like(gray), torch.ones_like(gray)
    mask[:, 40:60, 40:60] = 1
    said = refusal(before, after, after, mask, known, float(mask.mean()))
    assert said == ("" if kept else "the saturation of the whole image changed")


def test_images_that_cannot_be_compared_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Picture(textured())
    other = Picture(textured(side=256))
    assert "different sizes" in put_back(before, other).refused
    small = Picture(textured(side=48))
    assert "smaller" in put_back(small, small).refused
    assert "nothing changed" in put_back(before, before).refused
    with monkeypatch.context() as patched:
        patched.setattr(pictures, "MOST_PIXELS", 1000)
        assert "more than 1,000 pixels" in put_back(before, before).refused
    white = Picture.white((128, 96))
    assert put_back(white, Picture(Image.new("RGB", (128, 96), "black"))).refused


def test_a_move_and_a_zoom_are_found_to_a_fraction_of_a_pixel() -> None:
    before = textured()
    shifted = register(luma(planes(before)), luma(planes(moved(before, 3, -2))))
    assert shifted.moved is not None and shifted.agrees
    assert torch.allclose(shifted.moved, torch.tensor([[1.0, 0, 3], [0, 1, -2]]), atol=0.1)
    factor = 1.01
    size = before.size
    zoomed = before.transform(
        size, Image.Transform.AFFINE, (1 / factor, 0, 0, 0, 1 / factor, 0), Image.Resampling.BICUBIC
    )
    found = register(luma(planes(before)), luma(planes(zoomed)))
    assert found.moved is not None
    assert float(found.moved[0, 0]) == pytest.approx(factor, abs=0.002)
    back, inside = moved_back(planes(zoomed), found.moved)
    assert inside.mean() > 0.95
    assert (back - planes(before)).abs().mean() < 2


def test_a_change_of_light_is_found_beside_a_change_of_content() -> None:
    before = textured()
    after = relit(gamma(with_change(before)))
    light = fit_light(planes(before), planes(after), torch.ones(1, before.height, before.width))
    far = torch.from_numpy(far_from_change())
    left = (light.applied(planes(before)) - planes(after)).abs().amax(0)[far]
    assert left.median() < 1.5 and light.agreeing > 0.85


@pytest.mark.parametrize(
    ("prompt", "whole"),
    [
        ("Make it night and light the lamp.", True),
        ("It starts to snow. Add a sledge.", True),
        ("put a red cup on the table", False),
        ("In the style of a woodcut. Make the boat red.", False),
        ("a red boat beside the pier, foggy background, watercolor style", False),
    ],
)
def test_a_prompt_that_changes_the_whole_image_is_known(prompt: str, whole: bool) -> None:
    assert asks_for_whole_image(prompt) == whole
