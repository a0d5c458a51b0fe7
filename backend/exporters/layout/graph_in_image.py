"""The graph that a story was made with, inside the image that shows it, so that dragging the image into
ComfyUI opens the graph.

Decision: where ComfyUI's own savers put it, for that is where its front end looks: text chunks of a PNG, and
in a WebP the camera fields of EXIF, the prompt as Model, everything else from Make downwards, each with its
name before a colon. A GIF has a comment; the front end reads none, so the pack's own script opens it
(web/exports.js).
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
    """The image as a PNG with these texts in it."""
    chunks = PngInfo()
    for name, text in metadata.items():
        chunks.add_text(name, text)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=4, pnginfo=chunks)
    return buffer.getvalue()


def exif_of(metadata: Mapping[str, str]) -> dict[str, Any]:
    """What Pillow is given to put these texts into a WebP; nothing for none."""
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
    """What Pillow is given to put these texts into a GIF; nothing for none."""
    if not metadata:
        return {}
    return {"comment": (GIF_MARK + json.dumps(dict(metadata))).encode("ascii")}
