"""Stories in files in the real host: saved, loaded, exported, rated, moved; nothing outside the folders."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.clips import story as story_of_colors
from support.stories import make_trajectory

from interleave_thinker import Trajectory, export_by_name, load_trajectory
from interleave_thinker.backend.output.exporters.animation import frames_of, render
from interleave_thinker.backend.output.exporters.video import FPS, SIDE, seconds_of
from interleave_thinker.backend.output.feedback_log import read_feedback
from interleave_thinker.backend.story.clips import clips_of
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.nodes.inputs.run_folder import run_folder
from interleave_thinker.training.rows.sft import read_rows

from ..graphs.stories import EXPORT, Graph, changed, node, of_file, shown
from ..server.comfy_server import ComfyServer
from ..server.runs import answers_at_once, failure, on_a_wire, ran_in, refusal, text_of, wait_until

EXPORTS = {
    "page (HTML)": ".html", "PDF": ".pdf", "picture book (PDF)": ".pdf", "EPUB e-book": ".epub",
    "comic (CBZ)": ".cbz", "GIF": ".gif", "WebP": ".webp", "video (MP4)": ".mp4",
    "contact sheet (PNG)": ".png", "Markdown": ".md", "execution record (JSON)": ".json",
    "story to share (ZIP)": ".zip", "comic (PDF)": ".pdf", "comic pages (PNG)": ".png",
}  # fmt: skip
VIDEO = """import av, json, sys
with av.open(sys.argv[1]) as container:
    codec = container.streams.video[0].codec_context
    count = sum(1 for frame in container.decode(video=0))
    print(json.dumps([codec.name, codec.width, codec.height, count]))"""
"""Reads a video with the PyAV of the host."""
OTHER_HOST = Path(__file__).parents[2] / "data" / "story_from_another_host.zip"
"""Written by Save Story in ComfyUI 0.14.1."""


def name_of(host: ComfyServer, folder: Path) -> str:
    return f"output/{folder.relative_to(host.base / 'output').as_posix()}"


@pytest.fixture(scope="module")
def run(host: ComfyServer) -> Iterator[Trajectory]:
    """A run of the host, as the Critic Loop leaves it."""
    trajectory = make_trajectory(3, request="Stories in files")
    folder = run_folder(host.base / "output", trajectory.request, trajectory.settings.seed)
    save_trajectory(trajectory, folder)
    yield trajectory
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def name(host: ComfyServer, run: Trajectory) -> str:
    return name_of(host, run_folder(host.base / "output", run.request, run.settings.seed))


def export(name: str, **inputs: Any) -> Graph:
    return of_file(name, "InterleaveExport", **{**EXPORT, **inputs})


def save(name: str, **inputs: Any) -> Graph:
    return of_file(name, "InterleaveSaveTrajectory", **inputs)


def path_of(outputs: dict[str, Any]) -> Path:
    return Path(text_of(outputs, "out"))


def test_a_story_is_saved_under_a_new_name(host: ComfyServer, run: Trajectory, name: str) -> None:
    folder = path_of(host.run(save(name, filename_prefix="kept/boat")))
    assert folder == host.base / "output" / "kept" / "boat_00001_" and load_trajectory(folder) == run
    second = path_of(host.run(save(name_of(host, folder), filename_prefix="kept/boat")))
    assert second.name == "boat_00002_" and load_trajectory(second) == run
    offered = host.inputs_of("InterleaveLoadTrajectory")["story"][1]["options"]
    assert offered[:2] == ["output/kept/boat_00002_", "output/kept/boat_00001_"]


@pytest.mark.parametrize(("kind", "ending"), EXPORTS.items())
def test_every_export_is_served_by_the_host(host: ComfyServer, name: str, kind: str, ending: str) -> None:
    outputs = host.run(export(name, format=kind, filename_prefix="shown/%year%"))
    path, display = path_of(outputs), outputs["out"]
    assert path.suffix == ending and path.is_relative_to(host.base / "output" / "shown")
    (link,) = display["interleave_files"]
    assert host.answer(link["url"]).status_code == 200
    query = {key: link[key] for key in ("filename", "subfolder", "type")}
    served = host.answer("/view", **query).content
    assert served == path.read_bytes() and not list(path.parent.glob(".*"))
    if ending in (".png", ".gif", ".webp") and "pages" not in kind:
        picture = Image.open(io.BytesIO(served))
        assert display["images"] and getattr(picture, "n_frames", 1) == (1 if ending == ".png" else 4)
        found = (
            picture.info.get("prompt") or picture.getexif().get(0x0110) or picture.info["comment"].decode()
        )
        assert "InterleaveLoadTrajectory" in found, "it carries the graph"
    if ending == ".cbz":
        assert "ComicInfo.xml" in zipfile.ZipFile(io.BytesIO(served)).namelist()


def test_a_video_shows_images_for_their_reading_time(host: ComfyServer, run: Trajectory, name: str) -> None:
    display = host.run(export(name, format="video (MP4)", seconds=60.0, attempts=True))["out"]
    command = [host.home.python, "-c", VIDEO, display["text"][0]]
    reading = subprocess.run(command, capture_output=True, text=True, check=True)
    frames = frames_of(run)
    (first, _), *_ = render(frames, SIDE, captions=True)
    count = sum(round(FPS * seconds_of(frame.words)) for frame in frames)
    even = [side + side % 2 for side in (first.width, first.height)]
    assert json.loads(reading.stdout) == ["h264", *even, count]
    assert display["animated"] == [True] and display["images"][0]["filename"].endswith(".mp4")


def test_a_story_file_is_the_same_in_another_host(host: ComfyServer, run: Trajectory, name: str) -> None:
    saving = save(name, filename_prefix="one/%year%", form="one file (ZIP)")
    outputs = host.run(saving)
    path = path_of(outputs)
    assert path.suffix == ".zip" and path.name.startswith("20") and load_trajectory(path) == run
    assert "workflow.json" not in zipfile.ZipFile(path).namelist(), "the graph only loads the story"
    assert host.answer(outputs["out"]["interleave_files"][0]["url"]).content == path.read_bytes()
    shutil.copy(OTHER_HOST, host.base / "input" / "theirs.zip")
    folder = path_of(host.run(save("input/theirs.zip", filename_prefix="one/theirs", form="folder")))
    assert load_trajectory(folder) == load_trajectory(OTHER_HOST)
    again = path_of(host.run(save("input/theirs.zip", filename_prefix="one/again", form="one file (ZIP)")))
    made = [zipfile.ZipFile(one).read("workflow.json") for one in (again, OTHER_HOST)]
    assert made[0] == made[1], "it is the graph that made the story"
    assert folder.stat().st_mode & 0o777 == path.parent.stat().st_mode & 0o777


def test_a_record_in_the_input_folder_is_a_story(host: ComfyServer, run: Trajectory) -> None:
    folder = host.base / "input" / "published" / "boat"
    export_by_name("record", run, folder)
    graph = export("input/published/boat", format="GIF")
    assert "1. The harbour at dawn: Accepted at attempt 2" in text_of(host.run(graph), "report")
    # The file changes: the host must not hand out what it read before.
    record = json.loads((folder / "execution_record.json").read_text())
    record["global_context"]["execution_plan"][0]["step_name"] = "Another morning"
    (folder / "execution_record.json").write_text(json.dumps(record))
    assert "1. Another morning" in text_of(host.run(graph), "report")


def test_a_saved_text_with_saved_images_is_a_story(host: ComfyServer) -> None:
    """As docs/how-to/comfyui/image-models.md says, with the host's own nodes that save."""
    texts = "A grey page.\n\n\n\nThe same page."
    made: dict[str, Any] = {
        "pages": node("EmptyImage", width=16, height=16, batch_size=2, color=0),
        "images": node("SaveImage", images="@pages", filename_prefix="my-story/image"),
    }
    if host.get("/object_info/SaveText"):
        made["words"] = node("PrimitiveStringMultiline", value=texts)
        made["text"] = node("SaveText", text="@words", filename_prefix="my-story/story", format="txt")
    host.run(made)
    if "text" not in made:
        (host.base / "output" / "my-story" / "story.txt").write_text(texts, encoding="utf-8")
    page = path_of(host.run(export("output/my-story", format="Markdown"))).read_text(encoding="utf-8")
    assert page.index("A grey page.") < page.index("The same page.")


@pytest.mark.parametrize(
    "prefix", ["../out", "/tmp/out", "", "x" * 300, "%date:yyyy%/../../out", "host.db/out"]
)
def test_a_name_that_leads_outside_is_rejected(host: ComfyServer, name: str, prefix: str) -> None:
    (host.base / "output" / "host.db").touch()
    before = {path for path in host.base.parent.rglob("*") if "output" not in path.parts}
    for graph in (save(name, filename_prefix=prefix), export(name, filename_prefix=prefix)):
        del graph["report"]
        refusal(host, graph, "filename_prefix", r"file name|too long|leads")
        failure(host, on_a_wire(graph, "out", "filename_prefix"), r"file name|too long|leads")
    after = {path for path in host.base.parent.rglob("*") if "output" not in path.parts}
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()


def test_a_name_has_the_size_of_the_storys_images(host: ComfyServer, run: Trajectory, name: str) -> None:
    width, height = next(result.image for result in run.results if result.image).size
    for graph in (save(name, filename_prefix=""), export(name)):
        graph = changed(graph, "out", filename_prefix="sized/%width%x%height%")
        assert path_of(host.run(graph)).name.startswith(f"{width}x{height}_")


# Feedback

WORD = {"step": 1, "attempt": 0, "word": "accept", "better_prompt": "", "reason": ""}


def feedback(name: str, **changes: Any) -> Graph:
    return of_file(name, "InterleaveFeedback", **{**WORD, **changes})


def test_feedback_is_kept_as_training_data(host: ComfyServer, run: Trajectory, name: str) -> None:
    said = [
        {"attempt": 1, "word": "better prompt", "better_prompt": "a red boat", "reason": "It is blue."},
        {"step": 2},
        {"step": 3, "attempt": 3, "word": "reject"},
        {"step": 2, "word": "reject", "reason": "No sun."},
        {"step": 3, "attempt": 3, "word": "take back"},
    ]
    file = host.base / "output" / "interleave-thinker" / "feedback" / "critic_sft.json"
    others = len(read_rows(file)) if file.exists() else 0
    for words, rows in zip(said, [1, 2, 3, 3, 2], strict=True):
        count = others + rows
        display = text_of(host.run(feedback(name, **words)), "out")
        assert display.startswith(f"{count} {'row' if count == 1 else 'rows'} in ")
    kept = read_feedback(run_folder(host.base / "output", run.request, run.settings.seed))
    assert [(word.step, word.attempt, word.accepted) for word in kept] == [(1, 0, False), (2, 0, False)]
    answers = [row.messages[-1].content for row in read_rows(file)][others:]
    assert "a red boat" in answers[0] and "It is blue." in answers[0]
    assert "No sun." in answers[1] and '"previous_step_success": false' in answers[1]


def test_feedback_without_an_attempt_gives_a_one_line_error(host: ComfyServer, name: str) -> None:
    failure(host, feedback(name, step=99), "no kept image")
    empty = feedback(name, word="better prompt", better_prompt="  ")
    failure(host, on_a_wire(empty, "out", "better_prompt"), "better prompt is empty")


# Clips: a clip is its two images, and one execution of the video nodes

COLORS = 64


@pytest.fixture
def colors(host: ComfyServer) -> Iterator[Path]:
    """A run of the host with three images."""
    told = story_of_colors("red", None, "blue", "green", side=COLORS)
    folder = run_folder(host.base / "output", told.request, told.settings.seed)
    save_trajectory(told, folder)
    yield folder
    shutil.rmtree(folder)


def moving(host: ComfyServer, run: Path, videos: bool = False, **listed: Any) -> Graph:
    inputs = {"family": "LTX", "seconds": 1.0, "only_missing": True, "megapixels": 0.0} | listed
    graph = {
        "load": node("InterleaveLoadTrajectory", story=name_of(host, run)),
        "list": node("InterleaveClipList", trajectory="@load", **inputs),
        "frames": node("ImageBatch", image1=["list", 1], image2=["list", 2]),
        "add": node("InterleaveAddClips", trajectory="@list", fps=["list", 7], frames="@frames"),
        "report": shown("add", 1),
        "length": shown("list", 6),
        "width": shown("list", 4),
    }
    if videos:
        graph["video"] = node("CreateVideo", images="@frames", fps=4.0)
        graph["add"] = node("InterleaveAddClips", trajectory="@list", fps=16.0, videos="@video")
    return graph


def movies(run: Path) -> set[str]:
    return {path.name for path in (run / "clips").glob("*.mp4")}


def test_clips_are_listed_added_and_stored_with_the_run(host: ComfyServer, colors: Path) -> None:
    outputs = host.run(moving(host, colors))
    assert outputs["length"]["text"] == ["25"], "one second of LTX"
    assert outputs["width"]["text"] == ["640", "640"], "for each of two clips"
    lines = text_of(outputs, "report").splitlines()
    assert lines == [f"Step {step}: 0.1 s, 2 frames, {COLORS}x{COLORS}" for step in (3, 4)]
    found = load_trajectory(colors)
    assert sorted(clips_of(found)) == [3, 4] and {clip.fps for clip in found.clips} == {24.0}
    film = node("InterleaveExport", trajectory="@add", **EXPORT | {"format": "video (MP4)"})
    assert path_of(host.run(moving(host, colors) | {"out": film})).suffix == ".mp4"


def test_the_video_nodes_do_not_run_if_nothing_is_missing(host: ComfyServer, colors: Path) -> None:
    graph = {key: one for key, one in moving(host, colors).items() if key not in ("length", "width")}
    host.run(graph)
    # The frames could not be made: two clips would have one value of fps too few.
    graph["frames"] = node("ImageFromBatch", image=["list", 1], batch_index=0, length=1)
    graph = changed(graph, "add", fps=16.0)
    before = movies(colors)
    report = text_of(host.run(graph), "report")
    assert "Step 4" in report and "With" not in report and movies(colors) == before
    slower = changed(graph, "list", seconds=2.0)
    other = ". With seconds 1.0: switch only missing off to make it again"
    assert text_of(host.run(slower), "report").count(other) == 2 and movies(colors) == before
    for record in (colors / "clips").glob("*.json"):  # of an earlier version
        clip = json.loads(record.read_text())
        record.write_text(json.dumps({key: clip[key] for key in clip.keys() - {"asked", "checksum"}}))
    assert "With" not in text_of(host.run(changed(slower, "list", seconds=3.0)), "report")
    graph = changed(graph, "list", only_missing=False)
    assert "Step 4: 0.1 s, 1 frames" in text_of(host.run(graph), "report")


def test_a_cancelled_run_keeps_the_finished_clips(host: ComfyServer, colors: Path) -> None:
    made = node(
        "InterleaveTestPaint", model="@loader", prompt=["list", 3], source=["list", 2], seed=1, seconds=1.5
    )
    graph = moving(host, colors) | {"frames": made, "loader": node("InterleaveTestLoader", name="clips")}
    started = host.queue(graph)
    wait_until(host, lambda: movies(colors))
    answers_at_once(host, started)
    first, painted = movies(colors), ran_in(host).count("paint")
    lines = text_of(host.run(graph), "report").splitlines()
    assert [line.partition(" 0.0 s")[0] for line in lines] == ["Step 3: kept, made with", "Step 4:"]
    assert movies(colors) > first and ran_in(host).count("paint") == painted + 1, "only the missing clip"


def test_videos_are_taken_with_their_own_rate(host: ComfyServer, colors: Path) -> None:
    host.run(moving(host, colors, videos=True))
    assert {clip.fps for clip in load_trajectory(colors).clips} == {4.0}


def test_another_number_of_clips_is_an_error(host: ComfyServer, colors: Path) -> None:
    graph = moving(host, colors)
    failure(host, changed(graph, "add", frames=None), "neither frames nor videos")
    graph["frames"] = node("EmptyImage", width=64, height=64, batch_size=2, color=0)
    failure(host, graph, "1 clips for a story that lacks 2 of its 2 clips")
    host.run(moving(host, colors))
