"""Trajectories of the tiny world's generator under a noisy teacher, and the critic's rows made from them.

A language model that writes refined prompts has good and bad habits, and supervised training copies the most
frequent one. The teacher imitates that: half of the time it repeats the prompt, sometimes it states what
matters, sometimes it asks for another edit. Reinforcement learning can weigh these by their results. It also
overlooks faults: it calls a quarter of the failed images correct, which a filter by scores detects and
unfiltered data contain.

Rows are made by the rules for all runs (docs/reference/file-formats.md). A trajectory is kept if a later
attempt scores at least as high as the first, truncated at its best attempt and split into steps; verdicts are
balanced. An image that the teacher wrongly accepts ends its trajectory, as it would end a run. Its score
reveals the mistake, and the rules drop it. Unfiltered rows are all attempts as they were made, including such
mistakes and refined prompts that made things worse, with correct images as frequent as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ....backend.core.answers.reading import write_verdict
from ....backend.core.errors import SettingsError
from ....backend.core.pictures import Picture
from ....backend.core.prompts.prompt_set import fill
from ....backend.core.types import Verdict
from ....tinyworld.oracle import MAX_CLAUSES, DrawnImage, changed_cells, compare
from ....tinyworld.scene import EMPTY, Edit, Scene, StartScene
from ....tinyworld.scorer import ImageReading, faults, read_images, score_of
from ....tinyworld.wording import Clause, clauses_of, edit_text, prompt_text
from ....training.rows.sft import SftRow
from ..world.judged_images import ask, mistaken
from .critic_rows import PROMPT_SET, ImageFolder, row_of

if TYPE_CHECKING:
    from ....tinyworld.pipeline import TinyWorldPipeline

MAX_ATTEMPTS = 3
REMEDIES = {
    "repeated": 0.50,
    "one fault": 0.15,
    "what is right": 0.10,
    "all that matters": 0.10,
    "another edit": 0.15,
}
"""Share of each kind of refined prompt. An assumption of the experiment, not measured on a language model."""
OVERLOOKED = 0.25
"""Share of failed images that it calls correct."""


def refined_prompt(rng: Random, drawn: DrawnImage, prompt: str) -> str:
    """Return the teacher's refined prompt for a failed image generated from `prompt`."""
    remedy = rng.choices(list(REMEDIES), list(REMEDIES.values()))[0]
    wrong = faults(drawn.expected, drawn.seen)
    match remedy:
        case "one fault":
            holding = (cell for cell in wrong if cell is None or drawn.expected.cells[cell] != EMPTY)
            return prompt_text(drawn.edit, _stated(drawn, [next(holding, wrong[0])]))
        case "what is right":
            right = [cell for cell in drawn.expected.occupied if cell not in wrong]
            return prompt_text(drawn.edit, _stated(drawn, [rng.choice(right)] if right else []))
        case "all that matters":
            changed = changed_cells(drawn.scene_before, drawn.expected)
            cells = sorted({*changed, *drawn.expected.occupied}, key=lambda cell: (cell not in changed, cell))
            return prompt_text(drawn.edit, _stated(drawn, cells[:MAX_CLAUSES]))
        case "another edit":
            other = mistaken(rng, drawn)
            return prompt_text(other.edit) if other else prompt
        case _:
            return prompt


def _stated(drawn: DrawnImage, cells: Sequence[int | None]) -> list[Clause]:
    places = [cell for cell in cells if cell is not None]
    return clauses_of(drawn.expected, places, backdrop=None in cells)


@dataclass(frozen=True)
class TaughtAttempt:
    """One attempt of a trajectory.

    Attributes:
        drawn: The image with its instruction.
        prompt: Prompt of the attempt.
        refined: The teacher's next prompt.
        overlooked: Whether the teacher accepted a failed image.
    """

    drawn: DrawnImage
    prompt: str
    refined: str
    overlooked: bool = False

    @property
    def verdict(self) -> bool:
        """The teacher's verdict, correct or not."""
        return self.drawn.success or self.overlooked

    @property
    def overall(self) -> float:
        """Overall score of the image."""
        return score_of(self.drawn.expected, self.drawn.seen).overall


@dataclass
class _Slot:
    page: tuple[Picture, Scene] | None
    edit: Edit | StartScene
    prompt: str
    attempts: list[TaughtAttempt] = field(default_factory=list)


def trajectories(pipeline: TinyWorldPipeline, seed: int, batch: int = 64) -> Iterator[list[TaughtAttempt]]:
    """Yield trajectories forever; images are edited further by later ones.

    Each step is attempted until the teacher accepts it or MAX_ATTEMPTS is reached.
    """
    rng = Random(f"trajectories/{seed}")
    slots = [_new(rng, None) for _ in range(batch)]
    count = 0
    while True:
        seeds = [seed * 10**8 + count + number for number in range(batch)]
        sources = [slot.page[0].image if slot.page else None for slot in slots]
        images = pipeline([slot.prompt for slot in slots], sources, seeds)
        count += batch
        pages = [Picture(image) for image in images]
        for number, (slot, after, seen) in enumerate(zip(slots, pages, read_images(pages), strict=True)):
            before, scene = slot.page or (None, None)
            drawn = DrawnImage(before, scene, slot.edit, (), after, seen, seeds[number])
            overlooked = not drawn.success and rng.random() < OVERLOOKED
            taught = TaughtAttempt(drawn, slot.prompt, slot.prompt, overlooked)
            if not taught.verdict:
                refined = refined_prompt(rng, drawn, slot.prompt)
                taught = replace(taught, refined=refined)
            slot.attempts.append(taught)
            if not taught.verdict and len(slot.attempts) < MAX_ATTEMPTS:
                slot.prompt = taught.refined
                continue
            yield slot.attempts
            shown = seen.scene
            keep = shown is not None and len(shown.occupied) <= 6 and rng.random() < 0.75
            slots[number] = _new(rng, (after, shown) if keep and shown else None)


def _new(rng: Random, page: tuple[Picture, Scene] | None) -> _Slot:
    page, edit, clauses = ask(rng, page)
    return _Slot(page, edit, prompt_text(edit, clauses))


def filtered(attempts: Sequence[TaughtAttempt]) -> list[TaughtAttempt]:
    """Return what the published rules keep of a trajectory.

    Nothing is kept if no later attempt scores at least as high as the first. Otherwise all attempts before
    the best are kept, and the best one only if it is correct, because its refined prompt led to nothing
    better.
    """
    if len(attempts) > 1 and max(one.overall for one in attempts[1:]) < attempts[0].overall:
        return []
    best = max(range(len(attempts)), key=lambda number: attempts[number].overall)
    return [*attempts[:best], *([attempts[best]] if attempts[best].drawn.success else [])]


def row(taught: TaughtAttempt, pages: ImageFolder) -> SftRow:
    """Build a row that teaches the verdict of an attempt."""
    drawn = taught.drawn
    question = fill(
        PROMPT_SET.critic, original_instruction=edit_text(drawn.edit), rewritten_prompt=taught.prompt
    )
    answer = Verdict(success=taught.verdict, refined_prompt=taught.refined, reasoning=_reasoning(taught))
    before = drawn.before or Picture.white(drawn.after.size)
    return row_of(question, write_verdict(answer), [pages.name(before), pages.name(drawn.after)])


def _reasoning(taught: TaughtAttempt) -> str:
    """Return the teacher's reasoning.

    If it overlooks a fault, it believes that it sees the expected content.
    """
    drawn, expected = taught.drawn, taught.drawn.expected
    if taught.overlooked:
        drawn = replace(drawn, seen=ImageReading(expected.backdrop, expected.cells, (0.0,) * 9))
    return compare(drawn)


def make_unfiltered(folder: Path, pipeline: TinyWorldPipeline, count: int, seed: int) -> list[SftRow]:
    """Build `count` rows from all attempts in order, with the teacher's own verdicts."""
    pages = ImageFolder(folder / "pages")
    every = (taught for attempts in trajectories(pipeline, seed) for taught in attempts)
    return [row(taught, pages) for taught in islice(every, count)]


def make_filtered(folder: Path, pipeline: TinyWorldPipeline, count: int, seed: int) -> list[SftRow]:
    """Build `count` rows from attempts that the rules keep, half of them correct images, in order.

    Raises:
        SettingsError: If too few images are correct, or too few are wrong.
    """
    pages = ImageFolder(folder / "pages")
    wanted = {True: count - count // 2, False: count // 2}
    rows: list[SftRow] = []
    for attempts in islice(trajectories(pipeline, seed), 256 + 40 * count):
        for taught in filtered(attempts):
            if wanted[taught.drawn.success]:
                wanted[taught.drawn.success] -= 1
                rows.append(row(taught, pages))
        if not any(wanted.values()):
            return rows
    lacking = "correct" if wanted[True] else "wrong"
    raise SettingsError(
        f"Too few {lacking} images in {256 + 40 * count} trajectories. Request fewer rows, or use another "
        "generator."
    )
