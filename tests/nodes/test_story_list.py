"""The list of all stories in the side bar: order, search, disk space, and what may be deleted."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.stories import make_trajectory

from interleave_thinker import JournalError, Request, SettingsError, load_trajectory
from interleave_thinker.backend.output.live import browser_requests
from interleave_thinker.backend.output.live.browser_requests import AskAgain, delete_run, list_stories
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.run_files import RUN


def saved(parent: Path, name: str, text: str, age: float = 0.0) -> Path:
    story = make_trajectory(2, text_step=False).model_copy(update={"request": Request(text=text)})
    folder = save_trajectory(story, parent / name)
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return folder


def test_stories_are_listed_newest_first_with_their_last_image(tmp_path: Path) -> None:
    old, new = saved(tmp_path, "a", "A red boat", 60), saved(tmp_path, "b", "A blue boat")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("not a run")
    (tmp_path / "link").symlink_to(old)
    found = list_stories(tmp_path)
    assert [line.run for line in found.stories] == ["b", "a"] and found.count == 2
    files = [path for folder in (old, new) for path in folder.rglob("*") if path.is_file()]
    assert found.bytes == sum(path.stat().st_size for path in files)
    line = found.stories[0]
    image = load_trajectory(new).results[-1].image
    assert image and line.picture == image.digest
    assert (line.title, line.steps, line.incomplete_steps, line.problem) == ("A blue boat", 2, 0, "")


def test_words_are_searched_in_any_order_and_case(tmp_path: Path) -> None:
    saved(tmp_path, "a", "A red boat at sea")
    saved(tmp_path, "b", "A blue boat")
    assert [line.run for line in list_stories(tmp_path, "BOAT red").stories] == ["a"]
    assert list_stories(tmp_path, "boat").count == 2
    assert list_stories(tmp_path, "train").stories == []
    assert list_stories(tmp_path / "missing").count == 0


def test_the_list_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_requests, "PAGE", 2)
    for number in range(5):
        saved(tmp_path, f"run-{number}", "a boat", age=number)
    pages = [list_stories(tmp_path, start=start) for start in (0, 2, 4)]
    assert [line.run for page in pages for line in page.stories] == [f"run-{number}" for number in range(5)]
    assert {page.count for page in pages} == {5}


def test_an_unfinished_and_a_damaged_run_are_listed(tmp_path: Path) -> None:
    open_run = saved(tmp_path, "open", "a boat")
    (open_run / "trajectory.json").unlink()
    next((open_run / "attempts").iterdir()).unlink()
    damaged = saved(tmp_path, "damaged", "a boat")
    (damaged / "plan.json").write_text("{")
    (damaged / "trajectory.json").unlink()
    for name, settings in (("source", {"source": 2}), ("anchor", {"source": "anchor"})):
        plan = json.loads((open_run / "plan.json").read_bytes())
        plan["steps"][0]["settings"] = settings
        refused = saved(tmp_path, name, "a boat")
        (refused / "plan.json").write_text(json.dumps(plan))
        (refused / "trajectory.json").unlink()
    lines = {line.run: line for line in list_stories(tmp_path).stories}
    assert lines["open"].incomplete_steps > 0
    assert "edits the image of step 2" in lines["source"].problem
    assert "the request has none" in lines["anchor"].problem
    assert "plan.json" in lines["damaged"].problem


def test_a_story_is_copied_to_be_told_again(tmp_path: Path) -> None:
    folder = saved(tmp_path, "a", "A red boat")
    first = AskAgain(run="a").answer(tmp_path)
    second = AskAgain(run=first.run).answer(tmp_path)
    assert [one.request.text for one in (first, second)] == ["A red boat (2)", "A red boat (3)"]
    copied = tmp_path / second.run
    assert Journal(copied).request() == second.request
    for part in ("attempts", "verdicts", "pictures"):
        assert sorted(os.listdir(copied / part)) == sorted(os.listdir(folder / part))
    with pytest.raises(SettingsError, match="was not found"):
        AskAgain(run="..").answer(tmp_path)


def test_a_run_is_deleted_with_all_its_files(tmp_path: Path) -> None:
    folder, other = saved(tmp_path, "a", "a boat"), saved(tmp_path, "b", "a boat")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.png").write_bytes(b"image")
    (folder / "pictures" / "link").symlink_to(outside, target_is_directory=True)
    delete_run(folder)
    assert not folder.exists() and (outside / "mine.png").exists(), "links are not followed"
    assert load_trajectory(other)


def test_only_runs_that_nobody_uses_are_deleted(tmp_path: Path) -> None:
    folder = saved(tmp_path, "a", "a boat")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "mine.png").write_bytes(b"image")
    (tmp_path / "link").symlink_to(folder)
    for place in (tmp_path / "photos", tmp_path / "link", tmp_path / "missing"):
        with pytest.raises(JournalError, match="does not contain a run"):
            delete_run(place)
    story = load_trajectory(folder)
    running = Journal(folder)
    running.begin(story.request, story.settings, story.identities)
    with pytest.raises(JournalError, match="Another run is using"):
        delete_run(folder)
    running.end()
    assert load_trajectory(folder) and (tmp_path / "photos" / "mine.png").exists()
    delete_run(folder)
    assert not folder.exists()


def test_a_partly_deleted_run_is_deleted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(tmp_path, "a", "a boat")

    def failing(path: Path) -> None:
        raise PermissionError(13, "in use", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(browser_requests.shutil, "rmtree", failing)
        with pytest.raises(JournalError, match="cannot be deleted"):
            delete_run(folder)
    assert (folder / RUN).exists()
    assert [line.run for line in list_stories(tmp_path).stories] == ["a"]
    delete_run(folder)
    assert not folder.exists()
