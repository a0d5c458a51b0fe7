"""The digest of an image: the same in every version, over pixels and size, independent of the file."""

from __future__ import annotations

import hashlib

from PIL import Image

from interleave_thinker.backend.core.pictures import Picture

BYTES = bytes(range(36))


def picture(width: int, height: int) -> Picture:
    return Picture(Image.frombytes("RGB", (width, height), BYTES))


def test_the_digest_is_pinned() -> None:
    # Journals name their images by the digest: another one would make all saved runs unreadable.
    assert picture(3, 4).digest == "84ce0e62b03cd34011b47c0b329e69261c2200df"
    assert picture(3, 4).digest == hashlib.blake2b(b"3x4:" + BYTES, digest_size=20).hexdigest()


def test_equal_bytes_of_other_sizes_are_different_images() -> None:
    sizes = [(3, 4), (4, 3), (12, 1), (1, 12), (2, 6), (6, 2)]
    assert len({picture(*size).digest for size in sizes}) == len(sizes)
    assert len({picture(*size) for size in sizes}) == len(sizes)


def test_the_digest_is_that_of_the_pixels_read_back() -> None:
    for size in ((3, 4), (4, 3)):
        assert Picture.from_bytes(picture(*size).png()).digest == picture(*size).digest
