"""Images from files look as in every other program."""

from __future__ import annotations

import base64
import io
import struct
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from support.color_profiles import wide_rgb

from interleave_thinker.backend.core.errors import PictureError
from interleave_thinker.backend.core.files.image_decoding import reading_image
from interleave_thinker.backend.core.pictures import Picture, size_of
from interleave_thinker.training.rows.sft import with_images

ORIENTATION = 0x0112
MAKER = 0x010F
RESOLUTION = 0x011A


def photograph(turned: int) -> bytes:
    """Return a landscape image, dark on the left, with an EXIF orientation."""
    pixels = np.zeros((32, 64, 3), dtype=np.uint8)
    pixels[:, 32:] = 255
    image, notes = Image.fromarray(pixels), Image.Exif()
    notes[ORIENTATION] = turned
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", exif=notes, quality=95)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turned", range(1, 9))
def test_every_camera_orientation(kind: str, turned: int) -> None:
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[:8, :16] = 255
    notes = Image.Exif()
    notes[ORIENTATION] = turned
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, exif=notes)
    library = ImageOps.exif_transpose(Image.open(io.BytesIO(buffer.getvalue())))
    assert Picture.from_bytes(buffer.getvalue()) == Picture(library)


def wrongly_noted() -> bytes:
    """Return a photograph with letters where EXIF requires a number, as some cameras write."""
    notes = Image.Exif()
    notes[ORIENTATION], notes[MAKER] = 6, "maker" * 5
    buffer = io.BytesIO()
    Image.new("RGB", (64, 32)).save(buffer, "JPEG", exif=notes)
    letters, number = (tag.to_bytes(2, "big") + b"\0\2" for tag in (MAKER, RESOLUTION))
    assert letters in buffer.getvalue()
    return buffer.getvalue().replace(letters, number)


@given(st.binary(min_size=1, max_size=4), st.integers(0, 63))
def test_damaged_exif_is_ignored(damage: bytes, place: int) -> None:
    raw = bytearray(wrongly_noted())
    start = raw.find(b"MM\0*") + place
    end = min(start + len(damage), raw.find(b"\xff\xdb"))
    raw[start:end] = damage[: end - start]
    assert Picture.from_bytes(bytes(raw)).size in {(64, 32), (32, 64)}


def test_training_shows_the_same(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason='needs: pip install ".[training]"')
    (tmp_path / "portrait.jpg").write_bytes(photograph(6))
    (tmp_path / "noted.jpg").write_bytes(wrongly_noted())
    Image.new("RGBA", (32, 32), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    names = ["portrait.jpg", "noted.jpg", "clear.png"]
    rows = with_images([{"images": [str(tmp_path / name)]} for name in names])
    assert [Picture(row["images"][0]) for row in rows] == [Picture.open(tmp_path / name) for name in names]
    assert Picture.open(tmp_path / "clear.png") == Picture.white((32, 32))


@pytest.mark.parametrize("cut", [0, 2, 30, 400])
def test_half_a_file_is_an_error(cut: int) -> None:
    with pytest.raises(PictureError, match="not a readable image"):
        Picture.from_bytes(photograph(6)[:cut])


def grey_png(values: list[int], bits: int = 16, see_through: int | None = None) -> bytes:
    """Return a PNG of one row of gray values, written by hand."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + b"".join(value.to_bytes(bits // 8, "big") for value in values)
    head = struct.pack(">IIBBBBB", len(values), 1, bits, 0, 0, 0, 0)
    trns = b"" if see_through is None else chunk(b"tRNS", struct.pack(">H", see_through))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + trns
        + chunk(b"IDAT", zlib.compress(row))
        + chunk(b"IEND", b"")
    )


def reds(picture: Picture) -> list[int]:
    return list(picture.image.getchannel("R").tobytes())


def test_16_bit_gray_keeps_its_shades() -> None:
    values = [0, 255, 256, 257, 0x1234, 0x7FFF, 0x8000, 0xFEFF, 0xFFFF]
    picture = Picture.from_bytes(grey_png(values))
    assert reds(picture) == [value >> 8 for value in values] == [0, 0, 1, 1, 0x12, 0x7F, 0x80, 0xFE, 0xFF]
    assert len({picture.image.getchannel(name).tobytes() for name in "RGB"}) == 1
    assert not picture.is_white


def test_transparent_16_bit_gray_becomes_white() -> None:
    assert reds(Picture.from_bytes(grey_png([0, 4369, 65535], see_through=4369))) == [0, 255, 255]


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I"])
def test_16_bit_gray_in_memory(mode: str) -> None:
    wide = Image.new(mode, (2, 2), 0x8000)
    assert reds(Picture(wide)) == [0x80] * 4


@pytest.mark.parametrize(("mode", "value"), [("F", 0.5), ("I", 65536), ("I", -1)])
def test_gray_without_a_defined_white_is_an_error(mode: str, value: float) -> None:
    image = Image.new(mode, (2, 2), value)
    with pytest.raises(PictureError, match="8 or 16 bits"):
        Picture(image)
    buffer = io.BytesIO()
    image.save(buffer, "TIFF")
    with pytest.raises(PictureError, match=r"page\.tiff"):
        Picture.from_bytes(buffer.getvalue(), "page.tiff")


def test_white_images() -> None:
    assert Picture.white((3, 2)).is_white
    page = Image.new("RGB", (3, 2), (255, 255, 255))
    page.putpixel((1, 1), (255, 255, 254))
    assert not Picture(page).is_white
    assert Picture.from_bytes(grey_png([65535, 65535])).is_white


def test_digests_of_ordinary_images_are_stable() -> None:
    """Journals and caches find their images by digest."""
    gray, color = Image.new("L", (3, 2), 7), Image.new("RGB", (3, 2), (1, 2, 3))
    clear, palette = Image.new("RGBA", (3, 2), (9, 9, 9, 0)), Image.new("P", (3, 2), 1)
    palette.putpalette([0, 0, 0, 1, 2, 3])
    assert [Picture(image).digest[:12] for image in (gray, color, clear, palette)] == [
        "7576327782db",
        "292f05b3cca3",
        "6dd38c7ec4ac",
        "292f05b3cca3",
    ]
    assert Picture(color) != Picture(color.resize((2, 3))), "the size is part of it"


def jpeg(size: tuple[int, int], **options: object) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(buffer, "JPEG", **options)  # type: ignore[arg-type]
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("most", "size"), [(5120, (80, 64)), (5119, (40, 32)), (320, (20, 16)), (80, (10, 8))]
)
def test_large_photograph_is_scaled_while_decoding(most: int, size: tuple[int, int]) -> None:
    picture = Picture.from_bytes(jpeg((80, 64)), most=most)
    assert picture.size == size
    whole = Picture.from_bytes(jpeg((80, 64))).image.resize(size, Image.Resampling.BOX)
    difference = np.asarray(picture.image, dtype=int) - np.asarray(whole, dtype=int)
    assert abs(difference).mean() < 3


def test_a_large_photograph_is_rotated_upright() -> None:
    assert Picture.from_bytes(photograph(6), most=600).size == (16, 32)


def announced(width: int, height: int, **options: object) -> bytes:
    """Return a JPEG whose header declares this size."""
    data = bytearray(jpeg((8, 8), **options))
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


@pytest.mark.parametrize(
    ("sides", "size"), [((12000, 9000), (6000, 4500)), ((16320, 12240), (8160, 6120)), ((8000, 6000),) * 2]
)
@pytest.mark.filterwarnings("error")
def test_phone_photographs_are_read(tmp_path: Path, sides: tuple[int, int], size: tuple[int, int]) -> None:
    (tmp_path / "photograph.jpg").write_bytes(announced(*sides))
    assert size_of(tmp_path / "photograph.jpg") == size


def test_images_of_gigabytes_are_rejected() -> None:
    png = io.BytesIO()
    Image.new("1", (8000, 7000)).save(png, "PNG")
    one_scan = announced(12000, 9000)
    # A scan's header: its length, its channels and their tables, and three bytes that only other kinds use.
    three, one = b"\xff\xda\0\x0c\3\1\0\2\x11\3\x11", b"\xff\xda\0\x08\1\1\0"
    assert three in one_scan
    for data in (
        announced(65000, 65000),
        announced(12000, 9000, progressive=True),
        one_scan.replace(three, one),
        png.getvalue(),
    ):
        with pytest.raises(PictureError, match="maximum is 50000000"):
            Picture.from_bytes(data)
    answer = base64.b64encode(announced(12000, 9000)).decode()
    with pytest.raises(PictureError, match="maximum is 50000000"):
        Picture.from_base64(answer)


def test_a_heic_file_without_its_library_raises_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    for brand in (b"heic", b"mif1\0\0\0\0mif1heic"):
        with pytest.raises(PictureError, match="HEIC") as refused:
            Picture.from_bytes(b"\0\0\0\x18ftyp" + brand + b"\0" * 40, "Image 'photo.heic'")
        assert "pip install pillow-heif" in refused.value.hint


def test_a_heic_file_without_an_image_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        """Behaves like pillow-heif with a file whose list of images is damaged."""

        @property
        def size(self) -> tuple[int, int]:
            return [(1, 1)][1]

    monkeypatch.setitem(sys.modules, "pillow_heif", SimpleNamespace(open_heif=lambda stream: Empty()))
    with pytest.raises(PictureError, match="is not a readable image"):
        Picture.from_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 40, "Image 'photo.heic'")


def test_a_heic_photograph_is_read() -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs: pip install pillow-heif")
    image = Image.new("RGB", (64, 32), (180, 60, 61))
    notes = Image.Exif()
    notes[ORIENTATION] = 6
    buffer = io.BytesIO()
    written = heif.from_pillow(image)
    written.save(buffer, quality=95, exif=notes.tobytes(), icc_profile=wide_rgb())
    picture = Picture.from_bytes(buffer.getvalue())
    assert picture.size == (32, 64), "upright"
    with reading_image(io.BytesIO(buffer.getvalue()), "photograph") as opened:
        assert opened.format == "HEIF", "by which copies of the file are named"
    pixel = picture.image.getpixel((9, 9))
    assert isinstance(pixel, tuple)
    assert all(abs(one - other) <= 6 for one, other in zip(pixel, (208, 57, 59), strict=True))
    with pytest.raises(PictureError, match="at most 1000 are read"):
        Picture.from_bytes(buffer.getvalue(), most=1000)
