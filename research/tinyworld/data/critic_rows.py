"""Training rows of the tiny critic: what it sees, what it should see, the verdict, and the next prompt.

The images are generated, so the rows teach the generator's mistakes. The answers are the oracle's
(tinyworld/oracle.py). Rows for reinforcement learning have exact scores; half of their images are correct.
Wrong ones were generated from the plain prompt or with clauses, so that refined prompts have something to
add.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....backend.core.answers.reading import write_verdict
from ....backend.core.errors import TrainingError
from ....backend.core.files.atomic import writing
from ....backend.core.pictures import Picture
from ....backend.core.prompts.prompt_set import PromptSet, fill
from ....tinyworld.oracle import DrawnImage, verdict_of
from ....tinyworld.scorer import TinyWorldScorer
from ....tinyworld.wording import edit_text, prompt_text
from ....training.rows.rl import CriticRlRow, Evaluation, write_rl_rows
from ....training.rows.sft import SftMessage, SftRow
from ..world.judged_images import balanced

if TYPE_CHECKING:
    from ....tinyworld.pipeline import TinyWorldPipeline

PROMPT_SET = PromptSet(
    planner_text="Plan: {text_input}",
    planner_images="Page: <image> Plan: {text_input}",
    critic="Before: <image> After: <image> Wanted: {original_instruction}. Drawn with: {rewritten_prompt}.",
)


MISTAKES_SEED = 500_000


class ImageFolder:
    """A folder of PNG files; each image is written once, and rows refer to it by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def name(self, page: Picture) -> str:
        """Return the name of an image, writing it first if needed."""
        path = self.folder / f"{page.digest}.png"
        if not path.exists():
            # A partly written file would look complete when the job is continued.
            with writing(path, TrainingError, "Page", durable=False) as temporary:
                page.image.save(temporary, "PNG", compress_level=1)
        return f"{self.folder.name}/{path.name}"


def judge_row(drawn: DrawnImage, pages: ImageFolder) -> SftRow:
    """Build a row that teaches one verdict."""
    question = fill(
        PROMPT_SET.critic,
        original_instruction=prompt_text(drawn.edit),
        rewritten_prompt=prompt_text(drawn.edit, drawn.clauses),
    )
    before = drawn.before or Picture.white(drawn.after.size)
    return row_of(question, write_verdict(verdict_of(drawn)), [pages.name(before), pages.name(drawn.after)])


def row_of(question: str, answer: str, images: list[str]) -> SftRow:
    """Build a row with one question and its answer."""
    turns = [SftMessage(role="user", content=question), SftMessage(role="assistant", content=answer)]
    return SftRow(messages=turns, images=images)


def make_mistakes(
    folder: Path,
    pipeline: TinyWorldPipeline,
    count: int,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[SftRow]:
    """Build `count` rows with the generator's own mistakes and equally many correct images."""
    pages = ImageFolder(folder / "pages")
    drawn_images = balanced(pipeline, count, MISTAKES_SEED + seed, progress)
    return [judge_row(drawn, pages) for drawn in drawn_images]


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
