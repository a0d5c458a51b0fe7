"""Embeds the graph that made a story in an image, so that dragging the image into ComfyUI opens the graph.

The graph is stored where ComfyUI's own savers put it, because its front end looks there: text chunks in a
PNG. In a WebP, EXIF camera fields: the prompt as Model, everything else from Make downwards, each with its
name before a colon. ComfyUI's front end does not read GIFs, so the pack's own script reads the graph from a
GIF comment (web/exports.js).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

MODEL, MAKE = 0x0110, 0x010F
PROMPT = "prompt"
GIF_MARK = "interleave-thinker graph "


def png_with(image: Image.Image, metadata: Mapping[str, str]) -> bytes:
    """Return the image as a PNG file with these texts embedded."""
    chunks = PngInfo()
    for name, text in metadata.items():
        chunks.add_text(name, text)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=4, pnginfo=chunks)
    return buffer.getvalue()


def exif_of(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return Pillow's options to embed these texts in a WebP. Empty if there are none."""
    exif = Image.Exif()
    place = MAKE
    for name, text in metadata.items():
        if name == PROMPT:
            exif[MODEL] = f"{name}:{text}"
        else:
            exif[place] = f"{name}:{text}"
            place -= 1
    return {"exif": exif.tobytes()} if metadata else {}


def gif_comment(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return Pillow's options to embed these texts in a GIF. Empty if there are none."""
    if not metadata:
        return {}
    return {"comment": (GIF_MARK + json.dumps(dict(metadata))).encode("ascii")}
