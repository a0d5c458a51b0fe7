"""Pictures from files: read as everything else that shows them would."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from interleave_thinker.backend.errors import PictureError
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.training.data import with_images

ORIENTATION = 0x0112
MAKER = 0x010F
RESOLUTION = 0x011A


def photograph(turned: int) -> bytes:
    """A landscape, dark on the left, with the camera's note of how it was held."""
    pixels = np.zeros((32, 64, 3), dtype=np.uint8)
    pixels[:, 32:] = 255
    image, notes = Image.fromarray(pixels), Image.Exif()
    notes[ORIENTATION] = turned
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", exif=notes, quality=95)
    return buffer.getvalue()


def test_a_photograph_stands_as_it_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "portrait.jpg"
    path.write_bytes(photograph(6))
    assert Picture.from_bytes(photograph(1)).size == (64, 32)
    portrait = Picture.open(path)
    assert portrait.size == (32, 64)
    shades = np.asarray(portrait.image.convert("L"))
    assert shades[:28].mean() < 10 and shades[36:].mean() > 245, "its left side is its top now"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("turned", range(1, 9))
def test_every_way_to_hold_a_camera(kind: str, turned: int) -> None:
    pixels = np.zeros((16, 32, 3), dtype=np.uint8)
    pixels[:8, :16] = 255
    notes = Image.Exif()
    notes[ORIENTATION] = turned
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, exif=notes)
    library = ImageOps.exif_transpose(Image.open(io.BytesIO(buffer.getvalue())))
    assert Picture.from_bytes(buffer.getvalue()) == Picture(library)


def wrongly_noted() -> bytes:
    """A photograph with letters where a note should be a number, as some makers of cameras write."""
    notes = Image.Exif()
    notes[ORIENTATION], notes[MAKER] = 6, "maker" * 5
    buffer = io.BytesIO()
    Image.new("RGB", (64, 32)).save(buffer, "JPEG", exif=notes)
    letters, number = (tag.to_bytes(2, "big") + b"\0\2" for tag in (MAKER, RESOLUTION))
    assert letters in buffer.getvalue()
    return buffer.getvalue().replace(letters, number)


@given(st.binary(min_size=1, max_size=4), st.integers(0, 63))
def test_damaged_notes_do_not_hide_the_picture(damage: bytes, place: int) -> None:
    raw = bytearray(wrongly_noted())
    start = raw.find(b"MM\0*") + place
    end = min(start + len(damage), raw.find(b"\xff\xdb"))
    raw[start:end] = damage[: end - start]
    assert Picture.from_bytes(bytes(raw)).size in {(64, 32), (32, 64)}


def test_training_shows_the_same(tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason='needs: pip install "interleave-thinker[training]"')
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
