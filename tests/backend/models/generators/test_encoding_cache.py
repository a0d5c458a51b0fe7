"""The encoding cache: the same images as without it, with less work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from support import tiny_pipelines

from interleave_thinker import Picture, open_generator
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.models.generators.encoding_cache import EncodingCacheSettings

SOURCES = [Picture(Image.effect_noise((64, 64), 80).convert("RGB")) for _ in range(2)]
DRAWS = [
    ("a house", None, 1), ("a sun", SOURCES[0], 2), ("a red sun", SOURCES[0], 3),
    ("a red sun", SOURCES[0], 4), ("a red sun", SOURCES[1], 4), ("a house", None, 1),
]  # fmt: skip


@pytest.mark.parametrize("build", [tiny_pipelines.flux2_klein, tiny_pipelines.stable_diffusion])
def test_the_cache_does_not_change_images(build: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = build(tmp_path / "pipeline")
    keeping, plain = (
        open_generator(
            f"diffusers:{folder}", steps=2, size="64x64", device="cpu", encoding_cache=encoding_cache
        )
        for encoding_cache in (EncodingCacheSettings(), EncodingCacheSettings(encodings_bytes=0))
    )
    with counting() as without:
        expected = [plain.draw(*arguments) for arguments in DRAWS]
    with counting() as counts:
        found = [keeping.draw(*arguments) for arguments in DRAWS]
    assert found == expected
    assert len(set(found)) == len(DRAWS) - 1
    assert (without.image_encodes, without.latents_kept, without.text_kept) == (4, 0, 0)
    assert (counts.image_encodes, counts.latents_kept) == (2, 2)
    assert (counts.text_encodes, counts.text_kept) == (without.text_encodes / 2, without.text_encodes / 2)
    assert counts.sampler_steps == without.sampler_steps > 0
