"""Rows of the tiny critic's reinforcement learning: the generator's own pages, judged exactly.

Decision: half of the pages are right and half are wrong under their own wish, which is what a running critic
meets; a wrong one was drawn with the plain prompt or with clauses, so that refined prompts have something to
add. Half of the rows are what the critic answers with certainty and half what redrawing can mend, and both
recalls can be watched.
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
    """A page with its exact scores as a row."""
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
    """Write `count` rows of new pages, half of them right, below `folder`; returns the data file. Raises
    SettingsError for a generator that is so good or so bad that one half cannot be found."""
    pages = ImageFolder(folder / "pages")
    rows = [rl_row(drawn, pages, generator) for drawn in balanced(pipeline, count, RL_SEED + seed)]
    path = folder / RL_FILE
    write_rl_rows(path, rows)
    return path
