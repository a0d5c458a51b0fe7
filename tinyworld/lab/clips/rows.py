"""Training rows for a critic of clips: what its frames should show, what they show, and the verdict.

The reasoning begins with the first and the last frame, in the words of the shipped critic
(data/critic_rows.py), but without cells that stay right. Then follows each frame between them: "see FRAME
CELL THING yes|no" for every cell that has content before or after. What changes must be in a change then,
wherever it is ("change"). With "want CELL change" before it, a critic trained on 2,400 rows saw a change in
two of three jumps. Verdicts refer to the frames that are shown, so a row never teaches to reject a fault that
cannot be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from ....backend.answers.reading import write_verdict
from ....backend.pictures import Picture
from ....backend.prompts import fill
from ....backend.types import Verdict
from ....training.data.rows.sft import SftRow
from ...runtime.reading import UNREADABLE, ImageReading
from ...runtime.scene import BACKDROPS, CELLS, EMPTY, name_of
from ..data.critic_rows import ImageFolder, compare, row_of
from ..data.prompts import PROMPT_SET
from ..world.judged_images import DrawnImage
from ..world.scenes import changed_cells, random_edit, random_scene
from .in_between import ClipScript, frames_of, times, tracks_of
from .planted import TRAINED, ClipPrompt, Kind, plant

CLIP_PROMPT_SET = PROMPT_SET.model_copy(
    update={"critic_clip": "Clip: <image> Wanted: {original_instruction}. Drawn with: {rewritten_prompt}."}
)
CHANGE = "change"
COUNTS = (2, 3, 5, 3, 5)
"""Numbers of frames in training rows, each as frequent as it is listed."""
TOGETHER = 8
"""Rows of a batch. They show the same number of frames, so that their lengths are similar."""
KINDS: tuple[Kind | None, ...] = (None, None, None, None, "jump", "jump", "vanished", "wrong direction")
"""Faults in training rows, each as frequent as it is listed; `None` is a right clip."""
WITH_CLAUSE = 0.25
"""Probability of each clause in the prompt of a training row."""


@dataclass(frozen=True)
class JudgedClip:
    """A clip as a critic sees it.

    Attributes:
        script: What the clip shows.
        prompt: Prompt that it was made with.
        count: Number of frames that the critic sees.
    """

    script: ClipScript
    prompt: ClipPrompt
    count: int

    @property
    def expected(self) -> ClipScript:
        """The clip without a fault."""
        before = self.script.before
        return ClipScript(before, self.prompt.edit.apply(before))

    @property
    def wrong(self) -> Kind | None:
        """Kind of the fault that can be seen in the frames."""
        if self.script.after != self.expected.after:
            return "wrong direction"
        looks = [look for time in times(self.count)[1:-1] for look in self._looks(time)]
        if any(one.want == UNREADABLE != one.see for one in looks):
            return "jump"
        return "vanished" if any(one.want != one.see for one in looks) else None

    @property
    def success(self) -> bool:
        """Whether the frames show no fault."""
        return self.wrong is None

    def verdict(self) -> Verdict:
        """Return the correct verdict. The refined prompt has a clause against the fault."""
        kind, prompt = self.wrong, self.prompt
        if kind is not None:
            prompt = prompt.against(kind, self.script.before)
        return Verdict(success=kind is None, refined_prompt=prompt.text(), reasoning=self.compare())

    def compare(self) -> str:
        """Return the reasoning: first and last frame, each frame between them, and the conclusion."""
        script = self.script
        seen = ImageReading(script.after.backdrop, script.after.cells, (0.0,) * len(CELLS))
        ends = DrawnImage(None, script.before, self.prompt.edit, (), Picture.white((1, 1)), seen)
        page, *cells = compare(ends).split("; ")[:-1]
        scenes = (script.before, self.expected.after, script.after)
        listed = [cell for cell in range(len(CELLS)) if any(one.cells[cell] for one in scenes)]
        changed = {cell for scene in scenes[1:] for cell in changed_cells(script.before, scene)}
        parts = [page, *(part for cell, part in zip(listed, cells, strict=True) if cell in changed)]
        for number, time in enumerate(times(self.count)[1:-1], 2):
            for one in self._looks(time):
                place, name = (CELLS[one.cell], _thing) if one.cell >= 0 else ("page", _backdrop)
                parts.append(f"see {number} {place} {name(one.see)} {'yes' if one.want == one.see else 'no'}")
        return "; ".join([*parts, f"so {'yes' if self.success else 'no'}"])

    def _looks(self, time: float) -> Iterator[Look]:
        """Yield what a frame in the middle should show and shows: the backdrop, and cells with content.

        A cell that a moving thing leaves or reaches is in a change as long as the thing is not in it as a
        whole. A thing that another one passes in front of counts as visible.
        """
        before, after = self.expected.before, self.expected.after
        changes = before.backdrop != after.backdrop
        yield Look(-1, UNREADABLE if changes else before.backdrop, self.script.page(time))
        moved = {
            cell
            for one in tracks_of(before, after)
            if one.from_cell != one.to_cell
            for cell in (one.from_cell, one.to_cell)
        }
        shown, hidden, stranger = self.script.cells(time), self.script.hidden, self.script.stranger
        gone = hidden.track.from_cell if hidden and hidden.begin <= time <= hidden.end else None
        for cell in range(len(CELLS)):
            first, last, see = before.cells[cell], after.cells[cell], shown[cell]
            if (first, last) != (EMPTY, EMPTY):
                stays = first == last
                if stays:
                    see = EMPTY if cell == gone else first
                elif cell in moved and see == EMPTY:
                    see = UNREADABLE
                yield Look(cell, first if stays else UNREADABLE, see)
            elif stranger and cell == stranger.cell and see != EMPTY:
                yield Look(cell, EMPTY, see)


class Look(NamedTuple):
    """What a cell of a frame should show, and what it shows; of the backdrop if `cell` is -1."""

    cell: int
    want: int
    see: int


def _thing(content: int) -> str:
    return CHANGE if content == UNREADABLE else name_of(content)


def _backdrop(content: int) -> str:
    return CHANGE if content == UNREADABLE else BACKDROPS[content]


def random_clip(rng: Random, count: int, kinds: Sequence[Kind | None]) -> JudgedClip:
    """Return a random clip with one of these faults; `None` is a right clip."""
    while True:
        before = random_scene(rng)
        edit, kind = random_edit(rng, before), rng.choice(kinds)
        prompt = ClipPrompt(edit)
        for one in TRAINED:
            prompt = prompt.against(one, before) if rng.random() < WITH_CLAUSE else prompt
        script = ClipScript(before, edit.apply(before)) if kind is None else plant(kind, before, edit, rng)
        if script is not None:
            return JudgedClip(script, prompt, count)


def make_rows(folder: Path, rows: int, seed: int, counts: Sequence[int] = COUNTS) -> list[SftRow]:
    """Build rows for a critic that sees one of these numbers of frames, with the faults of TRAINED."""
    rng, pages = Random(f"clips/{seed}"), ImageFolder(folder / "frames")
    made = []
    for number in range(rows):
        count = counts[number // TOGETHER % len(counts)]
        made.append(row_about(random_clip(rng, count, [rng.choice(KINDS)]), pages))
    return made


def row_about(clip: JudgedClip, pages: ImageFolder) -> SftRow:
    """Build a row that teaches the verdict on a clip."""
    template = CLIP_PROMPT_SET.critic_clip
    assert template is not None
    question = fill(
        template.replace("<image>", "<image>" * clip.count),
        original_instruction=ClipPrompt(clip.prompt.edit).text(),
        rewritten_prompt=clip.prompt.text(),
    )
    frames: Sequence[Picture] = frames_of(clip.script, clip.count)
    return row_of(question, write_verdict(clip.verdict()), [pages.name(one) for one in frames])
