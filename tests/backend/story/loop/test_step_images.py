"""Masks and reference images of single steps: read from one folder, cached, and stored with the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.small_agents import Counting

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.files.image_places import with_step_images
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, StepSettings, Trajectory
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.story.journal.archive import pack_run
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

REQUEST = Request(text="a story")


def plan(*settings: dict[str, Any]) -> Plan:
    steps = (
        Step(number=number, prompt=f"scene {number}", settings=StepSettings.model_validate(one))
        for number, one in enumerate(settings, 1)
    )
    return Plan(steps=tuple(steps))


def drawn(given: Plan | None, folder: Path, generator: Any = None) -> Trajectory:
    generator = generator or FakeGenerator(16)
    *_, last = run(REQUEST, Collaborators(None, generator), RunSettings(), Journal(folder), given)
    assert isinstance(last, Finished)
    return last.trajectory


def records(folder: Path) -> int:
    return len(list((folder / "attempts").iterdir()))


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "input"
    (folder / "masks").mkdir(parents=True)
    mask = Image.new("L", (8, 8), 0)
    mask.paste(255, (0, 0, 4, 8))
    mask.save(folder / "masks" / "left.png")
    Image.new("RGB", (8, 8), "red").save(folder / "fox.png")
    Image.new("RGB", (8, 8), "black").save(folder / "black.png")
    painted = Image.new("RGBA", (8, 8), (9, 9, 9, 255))
    painted.paste((9, 9, 9, 0), (4, 0, 8, 8))
    painted.save(folder / "painted.png")
    (folder / "no image.png").write_text("words")
    return folder


def test_masks_and_references_are_used_and_cached(images: Path, tmp_path: Path) -> None:
    own = {"mask": "masks/left.png", "reference": "fox.png"}
    plain = drawn(plan({}, {}), tmp_path / "run")
    given = with_step_images(plan({}, own), images)
    first = drawn(given, tmp_path / "run")
    assert first.results[0] == plain.results[0] and first.results[1].image != plain.results[1].image
    assert records(tmp_path / "run") == 3 and drawn(given, tmp_path / "run") == first
    # Another image under the same name has another cache key.
    Image.new("RGB", (8, 8), "blue").save(images / "fox.png")
    second = drawn(with_step_images(plan({}, own), images), tmp_path / "run")
    assert records(tmp_path / "run") == 4 and second.results[1].image != first.results[1].image


def test_a_moved_run_keeps_its_step_images(images: Path, tmp_path: Path) -> None:
    given = with_step_images(plan({}, {"mask": "masks/left.png"}, {"reference": "fox.png"}), images)
    story = drawn(given, tmp_path / "run")
    for path in sorted(images.rglob("*.png")):
        path.unlink()
    assert load_trajectory(tmp_path / "run") == story
    assert load_trajectory(pack_run(tmp_path / "run", tmp_path / "story.zip")) == story
    copy = save_trajectory(story, tmp_path / "copy")
    before = records(copy)
    assert drawn(None, copy).results == story.results and records(copy) == before == 3
    (tmp_path / "run" / "trajectory.json").unlink()
    assert load_trajectory(tmp_path / "run") == story
    assert export_by_name("page", story, tmp_path / "page").exists()


def test_a_plan_in_the_run_folder_names_files_next_to_it(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    drawn(plan({}, {}), folder)
    written = json.loads((folder / "plan.json").read_text())
    assert "settings" not in written["steps"][1]
    written["steps"][1]["settings"] = {"mask": "left.png"}
    (folder / "plan.json").write_text(json.dumps(written))
    with pytest.raises(SettingsError, match=r"Step 2, mask: Image 'left.png' does not exist in 'run'\."):
        drawn(None, folder)
    (images / "masks" / "left.png").rename(folder / "left.png")
    story = drawn(None, folder)
    mask = story.plan.steps[1].settings.mask
    assert mask is not None and mask.picture is not None and mask.picture.size == (8, 8)
    (folder / "left.png").unlink()
    assert load_trajectory(folder) == story


@pytest.mark.parametrize(("name", "white"), [("masks/left.png", (0, 0)), ("painted.png [input]", (7, 7))])
def test_a_mask_covers_white_or_transparent_pixels(images: Path, name: str, white: tuple[int, int]) -> None:
    mask = with_step_images(plan({}, {"mask": name}), images).steps[1].settings.mask
    assert mask is not None and mask.picture is not None
    found = [mask.picture.image.getpixel(place) for place in (white, (7 - white[0], 7 - white[1]))]
    assert found == [(255, 255, 255), (0, 0, 0)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"mask": "none.png"}, r"Step 2, mask: Image 'none.png' does not exist in 'input'\."),
        ({"reference": "../input/../secret.png"}, "Step 2, reference: Image"),
        ({"reference": "/etc/hostname"}, "Step 2, reference: Image"),
        ({"mask": "black.png"}, "Step 2, mask: 'black.png' is completely black"),
        ({"mask": "no image.png"}, "Step 2, mask: Image .* is not a readable image"),
        ({"reference": "link.png"}, "Step 2, reference: The image 'link.png' is behind a link"),
    ],
)
def test_an_unreadable_image_gives_one_line_with_the_step(images: Path, settings: Any, reason: str) -> None:
    (images.parent / "secret.png").write_bytes((images / "fox.png").read_bytes())
    (images / "link.png").symlink_to(images.parent / "secret.png")
    with pytest.raises(SettingsError, match=reason) as refused:
        with_step_images(plan({}, settings), images)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (({}, {"mask": "fox.png"}), "Step 2 sets its own mask, but this generator does not support mask"),
        (({"reference": "fox.png"},), "Step 1 sets its own reference"),
    ],
)
def test_an_unsupported_generator_raises_before_the_first_step(
    images: Path, tmp_path: Path, settings: Any, reason: str
) -> None:
    generator = Counting()
    with pytest.raises(SettingsError, match=reason):
        drawn(with_step_images(plan(*settings), images), tmp_path / "run", generator)
    assert generator.drawn == []


@pytest.mark.parametrize("settings", [({"mask": "fox.png"},), ({}, {"mask": "fox.png", "source": "text"})])
def test_a_mask_without_a_source_image_is_rejected(images: Path, tmp_path: Path, settings: Any) -> None:
    with pytest.raises(SettingsError, match="has a mask, but it generates from text"):
        drawn(with_step_images(plan(*settings), images), tmp_path / "run")


def test_names_of_unread_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"Step 2, reference: the image 'fox.png' was not loaded"):
        drawn(plan({}, {"reference": "fox.png"}), tmp_path / "run")
