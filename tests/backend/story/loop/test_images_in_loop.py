"""Images of a step: earlier ones, masks and references of its own, and images that were put back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.journal_runs import told
from support.made_edits import difference, far_from_change, textured, tinted, with_change
from support.small_agents import Counting, Verdicts

from interleave_thinker import Picture, Plan, Request, Trajectory, export_by_name, load_trajectory
from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.files.image_places import with_step_images
from interleave_thinker.backend.core.types import MAX_STEP_IMAGES, RunSettings, Step, StepImage, StepSettings
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import PUT_BACK, TO_SOURCE, color_matched
from interleave_thinker.backend.output.exporters.record import export
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.archive import pack_run
from interleave_thinker.backend.story.journal.journal import Journal

PHOTO = Picture.white((16, 16))
HAT = Picture(Image.new("RGB", (16, 16), "red"))
ALL = RunSettings(source="all")


class Few(FakeGenerator):
    """A generator whose model accepts three images."""

    max_reference_images = 2


def plan(*settings: dict[str, Any]) -> Plan:
    steps = (
        Step(number=number, prompt=f"scene {number}", settings=StepSettings.model_validate(one))
        for number, one in enumerate(settings, 1)
    )
    return Plan(steps=tuple(steps))


def drawn(story: Plan, settings: RunSettings = ALL, generator: Any = None, **rest: Any) -> Trajectory:
    return told(story, generator, settings=settings, **rest)


def shown(trajectory: Trajectory) -> list[list[Picture | None]]:
    first = [result.attempts[0] for result in trajectory.results]
    return [[one.source, *one.beside] for one in first]


def test_the_newest_image_is_the_source_and_earlier_ones_follow() -> None:
    trajectory = drawn(plan({}, {}, {}, {}, {}))
    one, two, three, four, _ = (result.image for result in trajectory.results)
    assert shown(trajectory) == [[None], [one], [two, one], [three, one, two], [four, one, three, two]]


def test_request_images_count_as_earlier_ones_without_duplicates() -> None:
    trajectory = drawn(plan({}, {}), request=Request(text="both", images=(PHOTO, HAT, PHOTO)))
    first = trajectory.results[0].image
    assert shown(trajectory) == [[PHOTO, HAT], [first, PHOTO, HAT]]


@pytest.mark.parametrize(
    ("settings", "generator", "most"),
    [(ALL, Few(16), 3), (RunSettings(source="all", most_images=2), Few(16), 2), (ALL, FakeGenerator(16), 16)],
)
def test_earlier_images_are_limited(settings: RunSettings, generator: FakeGenerator, most: int) -> None:
    trajectory = drawn(plan(*[{}] * 20), settings, generator)
    images = [result.image for result in trajectory.results]
    assert max(len(one) for one in shown(trajectory)) == most
    assert shown(trajectory)[-1] == [images[-2], images[0], *images[-3:0:-1]][:most]
    assert trajectory.settings.most_images == most, "recorded, so that a reader comes to the same"


def test_one_step_can_use_all_images_and_its_reference_counts() -> None:
    reference = {"reference": StepImage(name="hat.png", picture=HAT)}
    story = plan({}, {}, {}, {"source": "all"} | reference, {})
    trajectory = drawn(story, RunSettings(), Few(16))
    one, _, three, four, _ = (result.image for result in trajectory.results)
    assert shown(trajectory)[2:] == [[trajectory.results[1].image], [three, one], [four]]


@pytest.mark.parametrize("story", [plan({}, {}), plan({}, {"source": "all"})])
def test_a_generator_of_one_image_raises_before_generating(story: Plan, tmp_path: Path) -> None:
    generator = Counting()
    settings = ALL if story.steps[1].settings.source is None else RunSettings()
    with pytest.raises(SettingsError, match="this generator's model accepts one image") as caught:
        drawn(story, settings, generator, store=Journal(tmp_path / "run"))
    assert (
        generator.drawn == [] and not (tmp_path / "run").exists() and "images:MODEL@URL" in caught.value.hint
    )


def test_more_images_than_the_model_takes_are_rejected() -> None:
    with pytest.raises(SettingsError, match="most_images is 4, but this generator's model accepts 3"):
        drawn(plan({}, {}), RunSettings(source="all", most_images=4), Few(16))
    assert RunSettings(source="all", most_images=MAX_STEP_IMAGES).most_images == 16


@pytest.mark.parametrize("matched", [False, True])
def test_earlier_images_change_the_image_and_its_cache_key(tmp_path: Path, matched: bool) -> None:
    def drawn_by(rule: str) -> Trajectory:
        generator: Any = color_matched(Few(16), TO_SOURCE) if matched else Few(16)
        return drawn(plan({}, {}, {}), RunSettings(source=rule), generator, store=Journal(tmp_path / "run"))  # type: ignore[arg-type]

    previous, every = drawn_by("previous"), drawn_by("all")
    same = [one.image == other.image for one, other in zip(previous.results, every.results, strict=True)]
    assert same == [True, True, False], "a step with one earlier image is unchanged"
    records = len(list((tmp_path / "run" / "attempts").iterdir()))
    assert records == 4 and drawn_by("all") == every
    assert len(list((tmp_path / "run" / "attempts").iterdir())) == records


def test_an_execution_record_lists_the_earlier_images(tmp_path: Path) -> None:
    whole = drawn(plan({}, {}, {}))
    record = json.loads(export(whole, tmp_path).read_text())
    assert ["beside_imgs" in one for one in record["steps"]] == [False, False, True]
    read = record_trajectory(read_record(tmp_path))
    assert shown(read) == shown(whole)


def drawn_of_step(given: Plan | None, folder: Path, generator: Any = None) -> Trajectory:
    return told(given, generator, store=Journal(folder))


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
    plain = drawn_of_step(plan({}, {}), tmp_path / "run")
    given = with_step_images(plan({}, own), images)
    first = drawn_of_step(given, tmp_path / "run")
    assert first.results[0] == plain.results[0] and first.results[1].image != plain.results[1].image
    assert records(tmp_path / "run") == 3 and drawn_of_step(given, tmp_path / "run") == first
    # Another image under the same name has another cache key.
    Image.new("RGB", (8, 8), "blue").save(images / "fox.png")
    second = drawn_of_step(with_step_images(plan({}, own), images), tmp_path / "run")
    assert records(tmp_path / "run") == 4 and second.results[1].image != first.results[1].image


def test_a_moved_run_keeps_its_step_images(images: Path, tmp_path: Path) -> None:
    given = with_step_images(plan({}, {"mask": "masks/left.png"}, {"reference": "fox.png"}), images)
    story = drawn_of_step(given, tmp_path / "run")
    for path in sorted(images.rglob("*.png")):
        path.unlink()
    assert load_trajectory(tmp_path / "run") == story
    assert load_trajectory(pack_run(tmp_path / "run", tmp_path / "story.zip")) == story
    (tmp_path / "run" / "trajectory.json").unlink()
    assert load_trajectory(tmp_path / "run") == story
    assert export_by_name("page", story, tmp_path / "page").exists()


def test_a_plan_in_the_run_folder_names_files_next_to_it(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    drawn_of_step(plan({}, {}), folder)
    written = json.loads((folder / "plan.json").read_text())
    assert "settings" not in written["steps"][1]
    written["steps"][1]["settings"] = {"mask": "left.png"}
    (folder / "plan.json").write_text(json.dumps(written))
    with pytest.raises(SettingsError, match=r"Step 2, mask: Image 'left.png' does not exist in 'run'\."):
        drawn_of_step(None, folder)
    (images / "masks" / "left.png").rename(folder / "left.png")
    story = drawn_of_step(None, folder)
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
def test_an_unsupported_generator_raises(images: Path, tmp_path: Path, settings: Any, reason: str) -> None:
    generator = Counting()
    with pytest.raises(SettingsError, match=reason):
        drawn_of_step(with_step_images(plan(*settings), images), tmp_path / "run", generator)
    assert generator.drawn == []


@pytest.mark.parametrize("settings", [({"mask": "fox.png"},), ({}, {"mask": "fox.png", "source": "text"})])
def test_a_mask_without_a_source_image_is_rejected(images: Path, tmp_path: Path, settings: Any) -> None:
    with pytest.raises(SettingsError, match="has a mask, but it generates from text"):
        drawn_of_step(with_step_images(plan(*settings), images), tmp_path / "run")


PUT_REQUEST = Request(text="a box", images=(Picture(textured()),))
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


def test_the_critic_sees_the_restored_image_and_the_journal_keeps_the_draft(tmp_path: Path) -> None:
    editor, critic = TintingEditor(), Verdicts(True, True)
    first, second = told(
        PLAN, color_matched(editor, PUT_BACK), critic, Journal(tmp_path / "run"), PUT_REQUEST
    ).results
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
