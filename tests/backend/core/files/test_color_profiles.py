"""Color profiles: images have the colors that their author saw, in any color space."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.color_profiles import gray, printer_cmyk, srgb_like, wide_rgb

from interleave_thinker.backend.core.files.image_decoding import decoded_mask, reading_image
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.story.journal.run_files import PICTURES, RunFiles

ORIENTATION = 0x0112


def file(mode: str, color: object, profile: bytes, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.new(mode, (4, 2), color).save(buffer, kind, icc_profile=profile, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def shown(data: bytes) -> tuple[int, ...]:
    pixel = Picture.from_bytes(data).image.getpixel((1, 1))
    assert isinstance(pixel, tuple)
    return pixel


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_a_wide_space_becomes_srgb(mode: str, kind: str) -> None:
    color = (180, 60, 61, 255)[: len(mode)]
    assert shown(file(mode, color, wide_rgb(), kind, **({"lossless": True} if kind == "WEBP" else {}))) == (
        208,
        57,
        59,
    )


def test_a_palette_and_a_photograph_too() -> None:
    palette = Image.new("P", (4, 2), 1)
    palette.putpalette([0, 0, 0, 180, 60, 61])
    buffer = io.BytesIO()
    palette.save(buffer, "PNG", icc_profile=wide_rgb())
    assert shown(buffer.getvalue()) == (208, 57, 59)
    photograph = shown(file("RGB", (180, 60, 61), wide_rgb(), "JPEG", quality=100, subsampling=0))
    assert all(abs(one - other) <= 2 for one, other in zip(photograph, (208, 57, 59), strict=True))


def test_transparency_stays() -> None:
    red, *_ = shown(file("RGBA", (180, 60, 61, 128), wide_rgb()))
    assert red == 231, "half of 208, half of white"
    assert shown(file("LA", (100, 0), gray())) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["L", "LA"])
def test_gray_has_profiles_too(mode: str) -> None:
    assert shown(file(mode, 100 if mode == "L" else (100, 255), gray())) == (119, 119, 119)


def test_cmyk_is_converted_by_its_profile() -> None:
    cyan = (255, 0, 0, 0)
    assert shown(file("CMYK", cyan, printer_cmyk(), "TIFF")) == (0, 147, 217)
    assert shown(file("CMYK", (0, 0, 0, 0), printer_cmyk(), "JPEG")) == (255, 255, 255)
    assert shown(file("CMYK", cyan, b"", "TIFF")) == (0, 255, 255), "without a profile as Pillow has it"


@pytest.mark.parametrize(
    "profile",
    [b"no profile", wide_rgb()[:300], wide_rgb()[:-20], printer_cmyk(), gray(), b"\0" * 4096],
    ids=["text", "cut", "cut later", "of ink", "of gray", "nothing"],
)
def test_unusable_profile_changes_nothing(profile: bytes) -> None:
    assert shown(file("RGB", (180, 60, 61), profile)) == (180, 60, 61)


@given(st.integers(0, 507), st.binary(min_size=1, max_size=8))
def test_damaged_profile_is_ignored(place: int, damage: bytes) -> None:
    profile = bytearray(wide_rgb())
    profile[place : place + len(damage)] = damage
    assert len(shown(file("RGB", (180, 60, 61), bytes(profile)))) == 3


def test_an_srgb_profile_changes_no_pixel() -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = Image.linear_gradient("L").convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG", icc_profile=profile)
    assert Picture.from_bytes(buffer.getvalue()) == Picture(image)
    assert shown(file("RGB", (20, 60, 61), srgb_like())) != (20, 60, 61), "near to it is not the same"


def test_a_gray_mask_is_read_by_its_displayed_values() -> None:
    with reading_image(io.BytesIO(file("L", 100, gray())), "mask") as image:
        assert decoded_mask(image, "mask").getpixel((0, 0)) == (119, 119, 119)


def test_written_files_have_no_profile() -> None:
    """The pixels of the new file are sRGB and would otherwise be converted twice."""
    picture = Picture.from_bytes(file("RGB", (180, 60, 61), wide_rgb()))
    assert Picture.from_bytes(picture.png()) == picture
    with Image.open(io.BytesIO(picture.png())) as written:
        assert "icc_profile" not in written.info


def test_runs_of_earlier_versions_still_load(tmp_path: object) -> None:
    """Earlier versions wrote the original pixels, with the profile of the source file."""
    picture = Picture(Image.new("RGB", (4, 2), (180, 60, 61)))
    files = RunFiles(str(tmp_path))
    files.write(file("RGB", (180, 60, 61), wide_rgb()), PICTURES, f"{picture.digest}.png")
    assert files.read_picture(picture.digest) == picture
