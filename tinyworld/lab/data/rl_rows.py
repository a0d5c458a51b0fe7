"""Rows for reinforcement learning of the tiny critic: generated images with exact scores.

Half of the images are correct and half are wrong, as in use. Wrong ones were generated from the plain prompt
or with clauses, so that refined prompts have something to add. Both recalls can be measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ....training.data.rows.rl import CriticRlRow, Evaluation, write_rl_rows
from ...runtime.scorer import TinyWorldScorer
from ...runtime.wording import edit_text, prompt_text
from ..world.judged_images import DrawnImage, balanced
from .critic_rows import ImageFolder

if TYPE_CHECKING:
    from ...runtime.pipeline import TinyWorldPipeline

RL_SEED = 700_000
RL_FILE = "critic_rl.jsonl"


def rl_row(drawn: DrawnImage, pages: ImageFolder, generator: str = "") -> CriticRlRow:
    """Build a row from an image and its exact scores."""
    scorer = TinyWorldScorer()
    wish = edit_text(drawn.edit)
    score = scorer.score(drawn.before, drawn.after, wish)
    return CriticRlRow(
        origin_prompt=wish,
        rewritten_prompt=prompt_text(drawn.edit, drawn.clauses),
        origin_image_path=pages.name(drawn.before) if drawn.before else None,
        edited_image_path=pages.name(drawn.after),
        evaluation=Evaluation(success=drawn.success, semantics=score.semantics, quality=score.quality),
        generator=generator or None,
        seed=drawn.seed,
        judge=scorer.identity,
    )


def make_rl(folder: Path, pipeline: TinyWorldPipeline, count: int, seed: int, generator: str = "") -> Path:
    """Write `count` rows with new images, half of them correct, and return the data file.

    Raises:
        SettingsError: If the generator makes too few correct or too few wrong images.
    """
    pages = ImageFolder(folder / "pages")
    rows = [rl_row(drawn, pages, generator) for drawn in balanced(pipeline, count, RL_SEED + seed)]
    path = folder / RL_FILE
    write_rl_rows(path, rows)
    return path
