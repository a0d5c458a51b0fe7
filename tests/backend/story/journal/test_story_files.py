"""Story files that are found again: saved runs and execution records, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.core.errors import JournalError, SettingsError
from interleave_thinker.backend.core.types import Request, StopReason, Trajectory
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.output.exporters import REGISTRY, export_by_name
from interleave_thinker.backend.story.execution_record.reader import read_record
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.nodes.story import saved_runs as trajectory_choices

RUN = make_trajectory(3)


@pytest.mark.parametrize(
    "story", [RUN, make_trajectory(2, request_images=2, cut_short=True), make_trajectory(0)]
)
def test_saved_and_loaded_is_the_same(tmp_path: Path, story: Trajectory) -> None:
    assert load_trajectory(save_trajectory(story, tmp_path / "saved")) == story


@pytest.mark.parametrize("name", REGISTRY)
def test_a_loaded_story_has_the_same_export_as_the_saved_one(tmp_path: Path, name: str) -> None:
    story = make_trajectory(1, size=48)
    before = export_by_name(name, story, tmp_path / "before").read_bytes()
    loaded = load_trajectory(save_trajectory(story, tmp_path / "saved"))
    assert export_by_name(name, loaded, tmp_path / "after").read_bytes() == before


def test_saving_overwrites_nothing_and_leaves_no_partial_story(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_trajectory(RUN, tmp_path / "one")
    with pytest.raises(JournalError, match="exists already"):
        save_trajectory(make_trajectory(1), tmp_path / "one")
    assert load_trajectory(tmp_path / "one") == RUN
    monkeypatch.setattr(Journal, "finish", lambda *_: (_ for _ in ()).throw(JournalError("disk full")))
    with pytest.raises(JournalError, match="disk full"):
        save_trajectory(RUN, tmp_path / "two")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_run_resumed_from_a_saved_one_generates_nothing_twice(tmp_path: Path) -> None:
    generator, plan = FakeGenerator(), RUN.plan
    *_, done = run(Request(text="r"), Collaborators(None, generator), plan=plan)
    folder = save_trajectory(done.trajectory, tmp_path / "run")
    events = run(Request(text="r"), Collaborators(None, generator), journal=Journal(folder), plan=plan)
    reused = [event.reused for event in events if isinstance(event, AttemptDrawn)]
    assert reused == [True] * 3


def test_records_of_every_form_are_stories(tmp_path: Path) -> None:
    export_by_name("record", RUN, tmp_path)
    story = record_trajectory(read_record(tmp_path))
    assert story.request.text == RUN.request.text and story.plan == RUN.plan
    for found, meant in zip(story.results, RUN.results, strict=True):
        assert [one.image for one in found.attempts] == [one.image for one in meant.attempts]
        assert [one.prompt for one in found.attempts] == [one.prompt for one in meant.attempts]
        assert found.image == meant.image and found.stop_reason == meant.stop_reason
    image = next((tmp_path / "images").iterdir()).relative_to(tmp_path).as_posix()
    last = {
        "2": {"prompt": "b", "refine_prompt": "b2", "target_img": image},
        "1": {"prompt": "a", "target_img": "gone.png"},
    }
    (tmp_path / "execution_record.json").write_text(json.dumps(last))
    story = record_trajectory(read_record(tmp_path))
    assert [result.stop_reason for result in story.results] == [StopReason.error, StopReason.unjudged]
    assert story.results[1].attempts[0].prompt == "b2" and story.results[1].step.prompt == "b"
    told = [
        {"step": 1, "text": "Once", "image": image},
        {"step": 2, "text": "The end", "image": None},
        {"step": 3, "image": image},
    ]
    (tmp_path / "execution_record.json").write_text(json.dumps(told))
    story = record_trajectory(read_record(tmp_path))
    assert [result.step.auxiliary_text for result in story.results] == ["Once", "The end", "(no text)"]
    assert story.results[0].image and story.results[1].stop_reason is StopReason.text_only
    for name in ("page", "pdf", "comic", "gif", "markdown", "sheet", "record"):
        assert export_by_name(name, story, tmp_path / "out").stat().st_size > 100


@pytest.mark.parametrize(
    "record",
    [[{"step": 200, "text": "x"}] * 101, {"steps": [{"step": n, "prompt": "p"} for n in range(1, 150)]}],
)
def test_records_without_a_run_give_a_one_line_error(tmp_path: Path, record: Any) -> None:
    (tmp_path / "execution_record.json").write_text(json.dumps(record))
    try:
        story = record_trajectory(read_record(tmp_path))
    except JournalError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(story, Trajectory) and len(story.plan.steps) == 1


def test_stories_are_found_only_by_name(tmp_path: Path) -> None:
    output, read = tmp_path / "output", tmp_path / "input"
    save_trajectory(RUN, output / "interleave-thinker" / "boat")
    export_by_name("record", RUN, read / "published")
    save_trajectory(RUN, tmp_path / "secret")
    (output / "link").symlink_to(tmp_path / "secret")
    (output / ".hidden").mkdir()
    shutil.copytree(tmp_path / "secret", output / ".hidden" / "run")
    roots = {"output": output, "input": read}
    assert sorted(trajectory_choices.trajectory_names(roots)) == [
        "input/published",
        "output/interleave-thinker/boat",
    ]
    assert trajectory_choices.load_choice("output/interleave-thinker/boat", roots) == RUN
    for name in ("output/link", "output/../secret", "output/.hidden/run", "/etc", "", "output"):
        with pytest.raises(SettingsError, match="was not found"):
            trajectory_choices.load_choice(name, roots)
    assert trajectory_choices.trajectory_names({"output": tmp_path / "none"}) == [trajectory_choices.NOTHING]
    boat = trajectory_choices.find_choice("output/interleave-thinker/boat", roots)
    before = trajectory_choices.stamp(boat)
    assert before == trajectory_choices.stamp(boat)
    (boat / "plan.json").write_text((boat / "plan.json").read_text() + " ")
    assert trajectory_choices.stamp(boat) != before
