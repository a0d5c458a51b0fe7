"""`source: all`: the earlier images that a step gets, their cache key, and unsupported generators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.small_agents import Counting

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import (
    MAX_STEP_IMAGES,
    Plan,
    Request,
    RunSettings,
    Step,
    StepImage,
    StepSettings,
    Trajectory,
)
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.models.generators.wrappers import TO_SOURCE, color_matched
from interleave_thinker.backend.output.exporters.record import export
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import Finished
from interleave_thinker.backend.story.loop.external import run_from_plan
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory

TEXT = Request(text="a story")
PHOTO = Picture.white((16, 16))
HAT = Picture(Image.new("RGB", (16, 16), "red"))
ALL = RunSettings(source="all")


class Few(FakeGenerator):
    """A generator whose model accepts three images."""

    max_reference_images = 2


def plan(*settings: dict[str, Any]) -> Plan:
    steps = (
        Step(number=number, prompt=f"scene {number}", settings=StepSettings(**one))
        for number, one in enumerate(settings, 1)
    )
    return Plan(steps=tuple(steps))


def drawn(story: Plan, settings: RunSettings = ALL, generator: Any = None, **rest: Any) -> Trajectory:
    request, store = rest.get("request", TEXT), rest.get("store")
    events = run(
        request,
        Collaborators(None, generator or FakeGenerator(16), rest.get("critic")),
        settings,
        store,
        story,
    )
    last = list(events)[-1]
    assert isinstance(last, Finished)
    return last.trajectory


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
def test_the_number_of_earlier_images_is_limited_by_model_and_run(
    settings: RunSettings, generator: FakeGenerator, most: int
) -> None:
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
    def told(rule: str) -> Trajectory:
        generator: Any = color_matched(Few(16), TO_SOURCE) if matched else Few(16)
        return drawn(plan({}, {}, {}), RunSettings(source=rule), generator, store=Journal(tmp_path / "run"))  # type: ignore[arg-type]

    previous, every = told("previous"), told("all")
    same = [one.image == other.image for one, other in zip(previous.results, every.results, strict=True)]
    assert same == [True, True, False], "a step with one earlier image is unchanged"
    records = len(list((tmp_path / "run" / "attempts").iterdir()))
    assert records == 4 and told("all") == every
    assert len(list((tmp_path / "run" / "attempts").iterdir())) == records


def test_a_run_is_read_from_its_records_and_its_copy_generates_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    whole = drawn(plan({}, {}, {}, {}), generator=Few(16), store=Journal(folder))
    (folder / "trajectory.json").unlink()
    assert load_trajectory(folder) == whole, "also without the generator"
    copied = save_trajectory(whole, tmp_path / "copy")
    assert load_trajectory(copied) == whole
    counting = Few(16)
    counting.draw = None  # type: ignore[assignment, method-assign]
    assert drawn(whole.plan, generator=counting, store=Journal(copied)) == whole


def test_an_execution_record_lists_the_earlier_images(tmp_path: Path) -> None:
    whole = drawn(plan({}, {}, {}))
    record = json.loads(export(whole, tmp_path).read_text())
    assert ["beside_imgs" in one for one in record["steps"]] == [False, False, True]
    read = record_trajectory(read_record(tmp_path))
    assert shown(read) == shown(whole)


def test_runs_without_earlier_images_are_written_as_before() -> None:
    written = drawn(plan({}, {}), RunSettings()).model_dump(mode="json")
    assert "most_images" not in written["settings"]
    assert all("beside" not in attempt for result in written["results"] for attempt in result["attempts"])


def test_nodes_of_a_graph_cannot_hand_over_several() -> None:
    with pytest.raises(SettingsError, match="all earlier images\), but these nodes pass on one"):
        run_from_plan(TEXT, plan({}, {"source": "all"}), 2, PHOTO, 0)
