"""A generator with put back in the loop: what the critic sees and what is recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.made_edits import SIDE, difference, far_from_change, textured, tinted, with_change
from support.small_agents import Verdicts

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, Trajectory
from interleave_thinker.backend.models.generators.wrappers import PUT_BACK, color_matched
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a box", images=(Picture(textured()),))
PLAN = Plan(
    steps=(Step(number=1, prompt="add a red box"), Step(number=2, prompt="make it night, with a red box"))
)


class TintingEditor:
    """Adds a box and tints the whole image."""

    identity = "tinting editor"

    def __init__(self) -> None:
        self.made: list[Picture] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        color = (230, 30, 60) if len(self.made) % 2 == 0 else (30, 200, 60)
        image = textured() if source is None else tinted(with_change(source.image, color))
        self.made.append(Picture(image))
        return self.made[-1]


def told(generator: Any, critic: Any = None, store: Any = None, request: Request = REQUEST) -> Trajectory:
    last = list(run(request, Collaborators(None, generator, critic), RunSettings(), store, PLAN))[-1]
    assert isinstance(last, Finished)
    return last.trajectory


def test_the_critic_sees_the_restored_image_and_the_journal_keeps_the_draft(tmp_path: Path) -> None:
    editor, critic = TintingEditor(), Verdicts(True, True)
    first, second = told(color_matched(editor, PUT_BACK), critic, Journal(tmp_path / "run")).results
    draft, night = editor.made
    assert first.image is not None and first.image != draft
    assert difference(first.image, textured())[far_from_change()].max() <= 1
    assert difference(draft, textured())[far_from_change()].min() >= 4
    assert critic.shown[0][1] == first.image
    assert second.image == night, "a step that asks for new light is left alone"
    records = [json.loads(path.read_text()) for path in (tmp_path / "run" / "attempts").iterdir()]
    assert sorted("draft" in record for record in records) == [False, True]
    assert (tmp_path / "run" / "pictures" / f"{draft.digest}.png").exists()
    assert load_trajectory(tmp_path / "run").results[0].image == first.image


def test_a_run_resumes_without_generating_again(tmp_path: Path) -> None:
    before = told(color_matched(TintingEditor(), PUT_BACK), Verdicts(True, True), Journal(tmp_path / "run"))
    editor = TintingEditor()
    again = told(color_matched(editor, PUT_BACK), Verdicts(), Journal(tmp_path / "run"))
    assert again == before and editor.made == []


def test_images_from_text_are_left_alone() -> None:
    editor = TintingEditor()
    generator = color_matched(editor, PUT_BACK)
    image = generator.draw("a red box", None, 1)
    assert image == editor.made[0] and generator.draft_of(image) is None
    assert image.size == (SIDE, SIDE)
