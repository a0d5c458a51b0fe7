"""Training rows for a critic of clips: what its frames should show, what they show, and the verdict.

The reasoning is that of the shipped critic (data/critic_rows.py) with one content for each frame after the
first: "was CELL THING want CELL FRAME FRAME see CELL FRAME FRAME yes|no". A part of a thing, or a mixture of
two, is "change". Verdicts refer to the frames that are shown, so a row never teaches to reject a fault that
cannot be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ....backend.answers.reading import write_verdict
from ....backend.pictures import Picture
from ....backend.prompts import fill
from ....backend.types import Verdict
from ....training.data.rows.sft import SftRow
from ...runtime.reading import UNREADABLE
from ...runtime.scene import BACKDROPS, CELLS, name_of
from ..data.critic_rows import ImageFolder, row_of
from ..data.prompts import PROMPT_SET
from ..world.scenes import random_edit, random_scene
from .in_between import ClipScript, frames_of, times
from .planted import TRAINED, ClipPrompt, Kind, plant

CLIP_PROMPT_SET = PROMPT_SET.model_copy(
    update={"critic_clip": "Clip: <image> Wanted: {original_instruction}. Drawn with: {rewritten_prompt}."}
)
CHANGE = "change"
RIGHT = 0.45
"""Share of right clips in training rows."""
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
    def wrong(self) -> list[Kind]:
        """Kinds of faults that can be seen in the frames, most important first."""
        want, see = (_contents(one, self.count) for one in (self.expected, self.script))
        if want == see:
            return []
        if want[-1] != see[-1]:
            return ["wrong direction"]
        jumped = all(one in (see[0], see[-1]) for one in see)
        return ["jump"] if jumped and see[0] != see[-1] else ["vanished"]

    @property
    def success(self) -> bool:
        """Whether the frames show no fault."""
        return not self.wrong

    def verdict(self) -> Verdict:
        """Return the correct verdict. The refined prompt has a clause against the fault."""
        prompt = self.prompt
        for kind in self.wrong:
            prompt = prompt.against(kind, self.script.before)
        return Verdict(success=self.success, refined_prompt=prompt.text(), reasoning=self.compare())

    def compare(self) -> str:
        """Return the reasoning: the backdrop, every cell that has content in a frame, and the conclusion."""
        want, see = (_contents(one, self.count) for one in (self.expected, self.script))
        parts = []
        for cell in range(-1, len(CELLS)):
            wanted, shown = ([frame[cell + 1] for frame in one] for one in (want, see))
            if cell >= 0 and not any((*wanted, *shown)):
                continue
            place, name = (CELLS[cell], _thing) if cell >= 0 else ("page", _backdrop)
            was, *later = map(name, wanted)
            seen = [name(one) for one in shown[1:]]
            match = "yes" if wanted == shown else "no"
            parts.append(
                f"was {place} {was} want {place} {' '.join(later)} see {place} {' '.join(seen)} {match}"
            )
        return "; ".join(parts) + f"; so {'yes' if want == see else 'no'}"


def _contents(script: ClipScript, count: int) -> list[tuple[int, ...]]:
    """Return for each frame the backdrop and the nine cells."""
    return [(script.page(time), *script.cells(time)) for time in times(count)]


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


def make_rows(folder: Path, rows: int, count: int, seed: int) -> list[SftRow]:
    """Build rows for a critic that sees `count` frames of each clip, with the faults of TRAINED."""
    rng, pages = Random(f"clips/{seed}"), ImageFolder(folder / "frames")
    made = []
    for _ in range(rows):
        kinds = (None,) if rng.random() < RIGHT else TRAINED
        made.append(row_about(random_clip(rng, count, kinds), pages))
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
