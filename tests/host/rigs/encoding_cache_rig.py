"""Run by the host's own Python: counts the Step Generator's cached encodings at tiny sizes.

Prints a JSON object: for every family the digests of the images with and without the cache, and both counts.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import host_modules  # noqa: F401 - the host and the pack; first

# isort: split

from PIL import Image
from shim.tiny_families import make_family

import nodes
from interleave_thinker.backend.core.machine.counters import counting
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.generators.encoding_cache import EncodingCacheSettings
from interleave_thinker.nodes.sampling.comfy_generator import ComfyGenerator, LoadedModels
from interleave_thinker.nodes.sampling.settings import SamplingSettings

SOURCES = [Picture(Image.effect_noise((64, 64), 80).convert("RGB")) for _ in range(2)]
DRAWS = [
    ("a house", None, 1), ("a sun", SOURCES[0], 2), ("a red sun", SOURCES[0], 3),
    ("a red sun", SOURCES[0], 4), ("a red sun", SOURCES[1], 4), ("a house", None, 1),
]  # fmt: skip
"""A step from text, three attempts of an edit, another source, and the first again."""


def drawn(family: str, settings: SamplingSettings, encoding_cache: EncodingCacheSettings) -> dict[str, Any]:
    generator = ComfyGenerator(LoadedModels(*make_family(family)), settings, encoding_cache=encoding_cache)
    with counting() as counts:
        images = [generator.draw(*arguments).digest for arguments in DRAWS]
    return {"images": images, "counts": counts.as_dict()}


SMALL = SamplingSettings(steps=2, width=64, height=64, negative="grey")
FAMILIES = {"flux2 dev": SMALL, "sd15": SMALL.model_copy(update={"cfg": 4.0, "scheduler": "normal"})}
"""One family with its source as a reference; one that starts from its latent and uses the negative."""

if __name__ == "__main__":
    asyncio.run(nodes.init_builtin_extra_nodes())
    results = {
        family: {
            "cached": drawn(family, settings, EncodingCacheSettings()),
            "plain": drawn(family, settings, EncodingCacheSettings(encodings_bytes=0)),
        }
        for family, settings in FAMILIES.items()
    }
    print(f"RESULTS {json.dumps(results)}")
