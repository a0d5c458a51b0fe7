"""Serves a style-transfer network in ONNX as a generator: it paints a photograph in one of its styles.

The network has the inputs `image`, (1, 3, height, width) with values 0 to 1, and `style_weights`, (styles,).
Its output is such an image. The prompt names the style ("Paint it in the style of mosaic").
"""

import base64
import hashlib
import io
import re
import sys
from pathlib import Path
from threading import Lock
from typing import Annotated

import numpy as np
import uvicorn
from fastapi import Body, FastAPI
from PIL import Image

MAX_SIDE = 1024  # pixels; a larger photograph is scaled down, since memory and time grow with its area


def style_app(session, styles: dict[str, int], network: str) -> FastAPI:
    """Return the service for a session of onnxruntime and the index of each style in `style_weights`."""
    app, one_at_a_time = FastAPI(), Lock()

    @app.get("/health")
    def health() -> dict:
        # Images are cached under this text, so it names everything except the request that changes an image.
        return {"identity": f"style-server/1 {network} {MAX_SIDE} {sorted(styles.items())}"}

    @app.post("/edit")
    def edit(prompt: Annotated[str, Body()], image: Annotated[str | None, Body()] = None) -> dict:
        named = set(re.findall(r"style of (\w+)", prompt.lower())) & styles.keys()
        if len(named) != 1:
            known = ", ".join(styles)
            return {"success": False, "error": f'write "in the style of" and one of these names: {known}'}
        if not image:
            return {"success": False, "error": "this generator only edits images: add --image PHOTOGRAPH"}
        photograph = Image.open(io.BytesIO(base64.b64decode(image))).convert("RGB")
        photograph.thumbnail((MAX_SIDE, MAX_SIDE))
        with one_at_a_time:
            painted = paint(session, np.asarray(photograph, np.float32) / 255, styles[named.pop()])
        file = io.BytesIO()
        Image.fromarray((painted.clip(0, 1) * 255).round().astype(np.uint8)).save(file, "PNG")
        png = base64.b64encode(file.getvalue()).decode()
        return {"success": True, "edited_image": png, "ignored": ["seed"]}

    return app


def paint(session, pixels: np.ndarray, style: int) -> np.ndarray:
    """Return `pixels`, (height, width, 3), in a style. The network needs sides that are multiples of 4."""
    height, width, _ = pixels.shape
    padded = np.pad(pixels, ((0, -height % 4), (0, -width % 4), (0, 0)), mode="edge")
    weights = np.eye(session.get_inputs()[1].shape[0], dtype=np.float32)[style]
    inputs = {"image": padded.transpose(2, 0, 1)[None], "style_weights": weights}
    return session.run(None, inputs)[0][0].transpose(1, 2, 0)[:height, :width]


if __name__ == "__main__":
    import onnxruntime

    path, styles = sys.argv[1], {name: int(index) for name, index in (s.split("=") for s in sys.argv[2:])}
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    uvicorn.run(style_app(onnxruntime.InferenceSession(path), styles, digest), port=8012)
