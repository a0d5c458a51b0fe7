"""Training rows of the tiny planner: requests with their canonical plans, and a prompt file without plans.

The prompt file has the planner's training distribution and is split by the same digest as its evaluation, so
a planner trained on the results can be measured with `benchmark tinyworld`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

from ....backend.core.answers.reading import write_plan
from ....backend.core.errors import SettingsError
from ....backend.core.files.atomic import write_bytes, write_text
from ....backend.core.prompts.prompt_set import fill
from ....tinyworld.drawing import draw
from ....training.rows.sft import SftRow
from ..world.requests import Split, TinyStory, random_story
from .critic_rows import PROMPT_SET, ImageFolder, row_of

BUCKETS = 50
"""Number of batches within which rows are sorted by length."""


def prompt_of(story: TinyStory) -> str:
    """Return the planner's question, with an `<image>` mark if the story starts from an image."""
    template = PROMPT_SET.planner_images if story.before else PROMPT_SET.planner_text
    return fill(template, text_input=story.text)


def in_buckets(rows: list[SftRow], batch: int, seed: int) -> list[SftRow]:
    """Sort rows into batches of similar length, in random order within windows of BUCKETS batches.

    This reduces padding (6,800 instead of 5,300 tokens/s).
    """
    rng, ordered = Random(f"buckets/{seed}"), []
    for start in range(0, len(rows), BUCKETS * batch):
        window = sorted(rows[start : start + BUCKETS * batch], key=_length)
        batches = [window[at : at + batch] for at in range(0, len(window), batch)]
        rng.shuffle(batches)
        ordered += [row for one in batches for row in one]
    return ordered


def _length(row: SftRow) -> int:
    return sum(len(message.content) for message in row.messages)


def make(folder: Path, count: int, seed: int) -> list[SftRow]:
    """Build `count` rows; input images are written below `folder / "pages"`."""
    rng = Random(f"planner/{seed}")
    pages = ImageFolder(folder / "pages")
    rows = []
    for _ in range(count):
        rows.append(_row(random_story(rng, "train"), pages))
    return rows


def _row(story: TinyStory, pages: ImageFolder) -> SftRow:
    return row_of(prompt_of(story), write_plan(story.plan), _images(story, pages))


def _images(story: TinyStory, pages: ImageFolder) -> list[str]:
    return [pages.name(draw(story.before))] if story.before is not None else []


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
        rows[name] = _prompt_row(name, story, f"{PAGES}/{name}.png" if before else None)
    lines = [json.dumps(row) + "\n" for row in rows.values()]
    write_text(out / FILE, "".join(lines), SettingsError, "Prompt file")
    return out / FILE


def _prompt_row(name: str, story: TinyStory, page: str | None) -> dict[str, object]:
    image = {"user_input_image": page} if page else {}
    return {
        "id": name,
        "user_input": story.text,
        **image,
        "category": "tiny world",
        "split": "train" if story.split == "train" else "held out",
        "language": "en",
    }
