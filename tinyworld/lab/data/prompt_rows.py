"""Writes a prompt file of the tiny world: requests in plain English, some with an input image.

The texts have the planner's training distribution and are split by the same digest as its evaluation, so a
planner trained on the results can be measured with `evaluate tinyworld`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

from ....backend.errors import SettingsError
from ....backend.files.atomic import write_bytes, write_text
from ...runtime.drawing import draw
from ..world.requests import Split, TinyStory, random_story

FILE = "prompts.jsonl"
PAGES = "pages"


def make_prompts(out: Path, count: int, seed: int, split: Split = "train") -> Path:
    """Write `out`/prompts.jsonl with `count` distinct requests and their input images, and return its path.

    A larger `count` starts with the same requests.

    Raises:
        SettingsError: If a file cannot be written.
    """
    rng = Random(f"prompts {seed}")
    rows: dict[str, dict[str, object]] = {}
    while len(rows) < count:
        story = random_story(rng, split)
        before = draw(story.before) if story.before else None
        digest = hashlib.blake2b(f"{story.text}\0{before.digest if before else ''}".encode(), digest_size=6)
        name = f"tw-{digest.hexdigest()}"
        if name in rows:
            continue
        if before:
            write_bytes(out / PAGES / f"{name}.png", before.png(), SettingsError, "Page")
        rows[name] = _row(name, story, f"{PAGES}/{name}.png" if before else None)
    lines = [json.dumps(row) + "\n" for row in rows.values()]
    write_text(out / FILE, "".join(lines), SettingsError, "Prompt file")
    return out / FILE


def _row(name: str, story: TinyStory, page: str | None) -> dict[str, object]:
    image = {"user_input_image": page} if page else {}
    return {
        "id": name,
        "user_input": story.text,
        **image,
        "category": "tiny world",
        "split": "train" if story.split == "train" else "held out",
        "language": "en",
    }
