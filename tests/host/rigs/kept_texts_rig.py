"""Run by the host's own Python: draws with a Step Generator at tiny sizes, and counts what its CLIP encodes.

Prints a JSON object: for every family the digests of the images, and the encoded texts.
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
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.nodes import host
from interleave_thinker.nodes.sampling.comfy_generator import ComfyGenerator, LoadedModels
from interleave_thinker.nodes.sampling.settings import SamplingSettings

SOURCE = Picture(Image.effect_noise((64, 64), 80).convert("RGB"))
DRAWS = [("a house", None, 1), ("a sun", SOURCE, 2), ("a sun", SOURCE, 3), ("a house", None, 1)]
SMALL = SamplingSettings(steps=2, width=64, height=64, negative="grey")
FAMILIES = {"flux2 dev": SMALL, "sd15": SMALL.model_copy(update={"cfg": 4.0, "scheduler": "normal"})}
"""One family that ignores the negative prompt, and one that uses it."""


def drawn(family: str) -> dict[str, Any]:
    encode, texts = host.encode_text, []
    host.encode_text = lambda clip, text: texts.append(text) or encode(clip, text)
    generator = ComfyGenerator(LoadedModels(*make_family(family)), FAMILIES[family])
    images = [generator.draw(*arguments).digest for arguments in DRAWS]
    host.encode_text = encode
    return {"images": images, "texts": texts}


if __name__ == "__main__":
    asyncio.run(nodes.init_builtin_extra_nodes())
    print(f"RESULTS {json.dumps({family: drawn(family) for family in FAMILIES})}")
