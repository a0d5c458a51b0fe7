"""Pictures from files: read as everything else that shows them would."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from interleave_thinker.backend.errors import PictureError
from interleave_thinker.backend.pictures import Picture

ORIENTATION = 0x0112


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


def test_training_shows_the_same(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason='needs: pip install "interleave-thinker[training]"')
    path = tmp_path / "portrait.jpg"
    path.write_bytes(photograph(6))
    rows = datasets.Dataset.from_list([{"image": str(path)}]).cast_column("image", datasets.Image())
    assert Picture(rows[0]["image"].convert("RGB")) == Picture.open(path)


@pytest.mark.parametrize("cut", [0, 2, 30, 400])
def test_half_a_file_is_an_error(cut: int) -> None:
    with pytest.raises(PictureError, match="not a readable image"):
        Picture.from_bytes(photograph(6)[:cut])
