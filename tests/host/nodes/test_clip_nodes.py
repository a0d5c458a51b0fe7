"""Clip List and Add Clips in the real host: one execution per clip, only missing clips, frames or videos."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.clips import story

from interleave_thinker.backend.core.types import Trajectory
from interleave_thinker.backend.story.clips import clips_of
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.nodes.inputs.run_folder import run_folder

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer, HostError

SIDE = 64


@pytest.fixture
def run(host: ComfyServer) -> Iterator[Path]:
    """A run of the host with three images."""
    told = story("red", None, "blue", "green", side=SIDE)
    folder = run_folder(host.base / "output", told.request, told.settings.seed)
    save_trajectory(told, folder)
    yield folder
    shutil.rmtree(folder)


def moving(host: ComfyServer, run: Path, videos: bool = False, **listed: Any) -> Graph:
    """A graph in which a clip is its two images."""
    name = f"output/{run.relative_to(host.base / 'output').as_posix()}"
    inputs = {"family": "LTX", "seconds": 1.0, "only_missing": True, "megapixels": 0.0} | listed
    graph = {
        "load": node("InterleaveLoadTrajectory", story=name),
        "list": node("InterleaveClipList", trajectory="@load", **inputs),
        "frames": node("ImageBatch", image1=["list", 1], image2=["list", 2]),
        "add": node("InterleaveAddClips", trajectory="@list", fps=["list", 7], frames="@frames"),
        "report": node("PreviewAny", source=["add", 1]),
        "length": node("PreviewAny", source=["list", 6]),
        "width": node("PreviewAny", source=["list", 4]),
    }
    if videos:
        graph["video"] = node("CreateVideo", images="@frames", fps=4.0)
        graph["add"] = node("InterleaveAddClips", trajectory="@list", fps=16.0, videos="@video")
    return graph


def movies(run: Path) -> set[str]:
    return {path.name for path in (run / "clips").glob("*.mp4")}


def test_clips_are_listed_added_and_stored_with_the_run(host: ComfyServer, run: Path) -> None:
    outputs = host.run(moving(host, run))
    assert outputs["length"]["text"] == ["25"], "one second of LTX"
    assert outputs["width"]["text"] == ["640", "640"], "for each of two clips"
    report = outputs["report"]["text"][0]
    assert report.splitlines() == [f"Step {step}: 0.1 s, 2 frames, {SIDE}x{SIDE}" for step in (3, 4)]
    found = load_trajectory(run)
    assert sorted(clips_of(found)) == [3, 4] and {clip.fps for clip in found.clips} == {24.0}
    film = moving(host, run) | {
        "film": node(
            "InterleaveExport",
            trajectory="@add",
            format="video (MP4)",
            filename_prefix="film",
            seconds=2.0,
            attempts=False,
        )
    }
    assert Path(host.run(film)["film"]["text"][0]).suffix == ".mp4"


def changed(run: Path) -> Trajectory:
    """Give the last step another image."""
    told = story("red", None, "blue", "gold", side=SIDE)
    shutil.move(run / "clips", run.with_name("kept"))
    shutil.rmtree(run)
    save_trajectory(told, run)
    shutil.move(run.with_name("kept"), run / "clips")
    return told


def test_only_clips_of_changed_images_are_made_again(host: ComfyServer, run: Path) -> None:
    host.run(moving(host, run))
    before = movies(run)
    changed(run)
    outputs = host.run(moving(host, run, seconds=2.0))
    assert outputs["length"]["text"] == ["49"]
    assert outputs["width"]["text"] == ["640"], "one clip is listed"
    assert len(outputs["report"]["text"][0].splitlines()) == 2
    assert len(movies(run)) == 3 and before < movies(run)


def test_the_video_nodes_do_not_run_if_nothing_is_missing(host: ComfyServer, run: Path) -> None:
    graph = {key: one for key, one in moving(host, run).items() if key not in ("length", "width")}
    host.run(graph)
    # The frames could not be made: two clips would have one value of fps too few.
    graph["frames"] = node("ImageFromBatch", image=["list", 1], batch_index=0, length=1)
    graph["add"] = node("InterleaveAddClips", trajectory="@list", fps=16.0, frames="@frames")
    before = movies(run)
    assert "Step 4" in host.run(graph)["report"]["text"][0]
    assert movies(run) == before
    graph["list"]["inputs"]["only_missing"] = False
    assert "Step 4: 0.1 s, 1 frames" in host.run(graph)["report"]["text"][0]


def test_videos_are_taken_with_their_own_rate(host: ComfyServer, run: Path) -> None:
    host.run(moving(host, run, videos=True))
    assert {clip.fps for clip in load_trajectory(run).clips} == {4.0}


def test_another_number_of_clips_is_an_error(host: ComfyServer, run: Path) -> None:
    graph = moving(host, run)
    graph["frames"] = node("EmptyImage", width=64, height=64, batch_size=2, color=0)
    with pytest.raises(HostError, match="1 clips for a story that lacks 2 of its 2 clips"):
        host.run(graph)
    graph = moving(host, run)
    del graph["add"]["inputs"]["frames"]
    with pytest.raises(HostError, match="neither frames nor videos"):
        host.run(graph)
    host.run(moving(host, run))
