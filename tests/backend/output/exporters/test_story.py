"""`story.json`: content, image files, and documentation of all fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from pydantic import BaseModel
from support.stories import make_trajectory

from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.output.exporters.story import (
    StoryAttempt,
    StoryClip,
    StoryFile,
    StoryImage,
    StoryMember,
    StoryPart,
)

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "runs" / "automation.md"


def story_of(folder: Path, **options: object) -> StoryFile:
    path = export_by_name("story", make_trajectory(**options), folder)  # type: ignore[arg-type]
    return StoryFile.model_validate_json(path.read_text(encoding="utf-8"))


def test_every_step_has_its_state(tmp_path: Path) -> None:
    story = story_of(tmp_path)
    assert [step.state for step in story.steps] == [
        "accepted",
        "accepted",
        "not accepted",
        "not judged",
        "text",
    ]
    assert story.complete and story.summary.startswith("5 steps")
    first = story.steps[0]
    assert [attempt.outcome.value for attempt in first.attempts] == ["refused", "accepted"]
    assert first.image == first.attempts[1].image
    assert story.steps[-1].text and story.steps[-1].image is None


def test_a_run_that_was_stopped_is_not_complete(tmp_path: Path) -> None:
    story = story_of(tmp_path, steps=3, cut_short=True, request_images=2)
    assert not story.complete
    assert [step.state for step in story.steps] == ["accepted", "accepted", "stopped", "not reached"]
    assert len(story.request_images) == 2


def test_every_named_image_file_exists(tmp_path: Path) -> None:
    trajectory = make_trajectory()
    story = story_of(tmp_path)
    for step, result in zip(story.steps, trajectory.results, strict=True):
        for shown, attempt in zip(step.attempts, result.attempts, strict=True):
            assert (shown.image is None) is (attempt.image is None)
            if shown.image is None or attempt.image is None:
                continue
            with Image.open(tmp_path / shown.image.file) as image:
                assert image.size == (shown.image.width, shown.image.height)
                assert image.convert("RGB").tobytes() == attempt.image.image.tobytes()


@pytest.mark.parametrize("model", [StoryFile, StoryPart, StoryAttempt, StoryImage, StoryMember, StoryClip])
def test_the_document_has_every_field(model: type[BaseModel]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in model.model_fields:
        assert f"`{name}`" in text
