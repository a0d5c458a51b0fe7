"""Stories in files in the real host: saved, loaded, exported and rated; nothing outside the folders."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker.backend.core.types import Trajectory
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.output.exporters.animation import frames_of, render
from interleave_thinker.backend.output.exporters.video import FPS, SIDE, seconds_of
from interleave_thinker.backend.output.feedback.log import read_feedback
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.loop.replay import load_trajectory
from interleave_thinker.nodes.inputs.run_folder import run_folder
from interleave_thinker.training.rows.sft import read_rows

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer, HostError

EXPORTS = {
    "page (HTML)": ".html",
    "PDF": ".pdf",
    "picture book (PDF)": ".pdf",
    "EPUB e-book": ".epub",
    "comic (CBZ)": ".cbz",
    "GIF": ".gif",
    "WebP": ".webp",
    "video (MP4)": ".mp4",
    "contact sheet (PNG)": ".png",
    "Markdown": ".md",
    "execution record (JSON)": ".json",
    "story to share (ZIP)": ".zip",
    "comic (PDF)": ".pdf",
    "comic pages (PNG)": ".png",
}
VIDEO = """import av, json, sys
with av.open(sys.argv[1]) as container:
    codec = container.streams.video[0].codec_context
    count = sum(1 for frame in container.decode(video=0))
    print(json.dumps([codec.name, codec.width, codec.height, count]))"""
"""Reads a video with the PyAV of the host."""
OTHER_HOST = Path(__file__).parents[2] / "data" / "story_from_another_host.zip"
"""Written by Save Story in ComfyUI 0.14.1."""


@pytest.fixture(scope="module")
def run(host: ComfyServer) -> Iterator[Trajectory]:
    """A run of the host, as the Critic Loop leaves it."""
    trajectory = make_trajectory(3, request="Stories in files")
    folder = run_folder(host.base / "output", trajectory.request, trajectory.settings.seed)
    save_trajectory(trajectory, folder)
    yield trajectory
    shutil.rmtree(folder)


def name_of(host: ComfyServer, trajectory: Trajectory) -> str:
    output = host.base / "output"
    folder = run_folder(output, trajectory.request, trajectory.settings.seed)
    return f"output/{folder.relative_to(output).as_posix()}"


def graph(story: str, kind: str, **inputs: Any) -> Graph:
    """A story loaded and handed to one more node."""
    return {
        "load": node("InterleaveLoadTrajectory", story=story),
        "report": node("PreviewAny", source=["load", 1]),
        "out": node(kind, trajectory=["load", 0], **inputs),
    }


def feedback(**changed: Any) -> dict[str, Any]:
    return {"step": 1, "attempt": 0, "word": "accept", "better_prompt": "", "reason": ""} | changed


def export(**changed: Any) -> dict[str, Any]:
    return {"format": "PDF", "filename_prefix": "books/boat", "seconds": 1.0, "attempts": False} | changed


def test_a_story_is_saved_under_a_new_name_and_loaded_as_it_was(host: ComfyServer, run: Trajectory) -> None:
    saving = graph(name_of(host, run), "InterleaveSaveTrajectory", filename_prefix="kept/boat")
    folder = Path(host.run(saving)["out"]["text"][0])
    assert folder == host.base / "output" / "kept" / "boat_00001_"
    assert load_trajectory(folder) == run
    again = graph("output/kept/boat_00001_", "InterleaveSaveTrajectory", filename_prefix="kept/boat")
    second = Path(host.run(again)["out"]["text"][0])
    assert second.name == "boat_00002_" and load_trajectory(second) == run
    offered = host.get("/object_info")["InterleaveLoadTrajectory"]["input"]["required"]["story"][1]["options"]
    assert offered[:2] == ["output/kept/boat_00002_", "output/kept/boat_00001_"]


@pytest.mark.parametrize(("kind", "ending"), EXPORTS.items())
def test_every_export_is_a_file_that_the_host_serves(
    host: ComfyServer, run: Trajectory, kind: str, ending: str
) -> None:
    made = graph(
        name_of(host, run), "InterleaveExport", **export(format=kind, filename_prefix="shown/%year%")
    )
    shown = host.run(made)["out"]
    path = Path(shown["text"][0])
    assert path.suffix == ending and path.is_relative_to(host.base / "output" / "shown")
    (link,) = shown["interleave_files"]
    query = {key: link[key] for key in ("filename", "subfolder", "type")}
    assert httpx.get(f"{host.url}{link['url']}").status_code == 200
    served = httpx.get(f"{host.url}/view", params=query).raise_for_status().content
    assert served == path.read_bytes()
    if kind == "comic pages (PNG)":
        assert len(list(path.parent.iterdir())) == 2
        return
    if ending in (".png", ".gif", ".webp"):
        picture = Image.open(io.BytesIO(served))
        assert shown["images"] and getattr(picture, "n_frames", 1) == (1 if ending == ".png" else 4)
    if ending == ".cbz":
        assert "ComicInfo.xml" in zipfile.ZipFile(io.BytesIO(served)).namelist()
    assert not list(path.parent.glob(".*"))


def test_a_video_shows_each_image_with_its_text_for_its_reading_time(
    host: ComfyServer, run: Trajectory
) -> None:
    video = export(format="video (MP4)", filename_prefix="films/boat", seconds=60.0, attempts=True)
    shown = host.run(graph(name_of(host, run), "InterleaveExport", **video))["out"]
    reading = subprocess.run(
        [host.home.python, "-c", VIDEO, shown["text"][0]], capture_output=True, text=True, check=True
    )
    frames = frames_of(run)
    (first, _), *_ = render(frames, SIDE, captions=True)
    count = sum(round(FPS * seconds_of(frame.words)) for frame in frames)
    assert json.loads(reading.stdout) == [
        "h264", first.width + first.width % 2, first.height + first.height % 2, count
    ]  # fmt: skip
    assert shown["animated"] == [True] and shown["images"][0]["filename"].endswith(".mp4")


def test_a_story_in_one_file_is_the_same_in_this_host_and_in_another(
    host: ComfyServer, run: Trajectory
) -> None:
    saving = graph(
        name_of(host, run),
        "InterleaveSaveTrajectory",
        filename_prefix="one/%date:yyyy%",
        form="one file (ZIP)",
    )
    shown = host.run(saving)["out"]
    path = Path(shown["text"][0])
    assert path.suffix == ".zip" and path.name.startswith("20") and load_trajectory(path) == run
    with zipfile.ZipFile(path) as whole:
        assert json.loads(whole.read("workflow.json")).keys() == saving.keys()
    assert httpx.get(f"{host.url}{shown['interleave_files'][0]['url']}").content == path.read_bytes()
    shutil.copy(OTHER_HOST, host.base / "input" / "theirs.zip")
    again = graph("input/theirs.zip", "InterleaveSaveTrajectory", filename_prefix="one/theirs", form="folder")
    folder = Path(host.run(again)["out"]["text"][0])
    assert load_trajectory(folder) == load_trajectory(OTHER_HOST)
    assert folder.stat().st_mode & 0o777 == path.parent.stat().st_mode & 0o777


def test_an_image_of_a_story_carries_the_graph(host: ComfyServer, run: Trajectory) -> None:
    for kind in ("contact sheet (PNG)", "WebP", "GIF"):
        made = graph(name_of(host, run), "InterleaveExport", **export(format=kind, audience=True))
        with Image.open(host.run(made)["out"]["text"][0]) as image:
            found = image.info.get("prompt") or image.getexif().get(0x0110) or image.info["comment"].decode()
        assert "InterleaveLoadTrajectory" in found, kind


def test_a_record_in_the_input_folder_is_a_story(host: ComfyServer, run: Trajectory) -> None:
    folder = host.base / "input" / "published" / "boat"
    export_by_name("record", run, folder)
    shown = host.run(graph("input/published/boat", "InterleaveExport", **export(format="GIF")))
    assert "1. The harbour at dawn: Accepted at attempt 2" in shown["report"]["text"][0]
    # The file changes: the host must not hand out what it read before.
    record = json.loads((folder / "execution_record.json").read_text())
    record["global_context"]["execution_plan"][0]["step_name"] = "Another morning"
    (folder / "execution_record.json").write_text(json.dumps(record))
    shown = host.run(graph("input/published/boat", "InterleaveExport", **export(format="GIF")))
    assert "1. Another morning" in shown["report"]["text"][0]


def test_a_saved_text_with_saved_images_is_a_story(host: ComfyServer) -> None:
    """As docs/how-to/comfyui/native-interleaving.md says, with the host's own nodes that save."""
    texts = "A grey page.\n\n\n\nThe same page."
    made: dict[str, Any] = {
        "pages": node("EmptyImage", width=16, height=16, batch_size=2, color=0),
        "images": node("SaveImage", images=["pages", 0], filename_prefix="my-story/image"),
    }
    if host.get("/object_info/SaveText"):
        made["words"] = node("PrimitiveStringMultiline", value=texts)
        made["text"] = node("SaveText", text=["words", 0], filename_prefix="my-story/story", format="txt")
    host.run(made)
    if "text" not in made:
        (host.base / "output" / "my-story" / "story.txt").write_text(texts, encoding="utf-8")
    shown = host.run(graph("output/my-story", "InterleaveExport", **export(format="Markdown")))
    written = Path(shown["out"]["text"][0]).read_text(encoding="utf-8")
    assert written.index("A grey page.") < written.index("The same page.")


PREFIXES = (
    "../out", "/tmp/out", "a/../../out", "..", "", ".hidden", "a\0b", "C:\\out", "x" * 300, "a/",
    "x" * 150, "a/./b", "%date:yyyy%/../../out", "host.db/out",
)  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_name_that_leads_outside_is_rejected_before_anything_runs(
    host: ComfyServer, run: Trajectory, prefix: str
) -> None:
    (host.base / "output" / "host.db").touch()
    before = {path for path in host.base.parent.rglob("*") if "output" not in path.parts}
    for kind, inputs in (("InterleaveSaveTrajectory", {}), ("InterleaveExport", export())):
        made = graph(name_of(host, run), kind, **inputs | {"filename_prefix": prefix})
        del made["report"]
        with pytest.raises(HostError, match=r"file name|too long|leads") as refused:
            host.queue(made)
        (fault,) = json.loads(refused.value.details)["node_errors"]["out"]["errors"]
        assert fault["extra_info"]["input_name"] == "filename_prefix"
        on_a_wire = made | {"name": node("PrimitiveString", value=prefix)}
        on_a_wire["out"] = node(kind, **made["out"]["inputs"] | {"filename_prefix": ["name", 0]})
        with pytest.raises(HostError, match=r"file name|too long|leads"):
            host.run(on_a_wire)
    after = {path for path in host.base.parent.rglob("*") if "output" not in path.parts}
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()


def test_a_name_has_the_size_of_the_storys_images(host: ComfyServer, run: Trajectory) -> None:
    image = next(result.image for result in run.results if result.image)
    name = "sized/%width%x%height%"
    for kind, inputs in (("InterleaveSaveTrajectory", {}), ("InterleaveExport", export())):
        made = graph(name_of(host, run), kind, **inputs | {"filename_prefix": name})
        path = Path(host.run(made)["out"]["text"][0])
        assert path.name.startswith(f"{image.size[0]}x{image.size[1]}_"), path


def test_a_run_has_the_letters_of_its_request(host: ComfyServer) -> None:
    drawn = host.run(
        {
            "planned": node("InterleaveTestPlan", request="一只红色的小船", prompts="a red boat"),
            "generator": node("InterleaveTinyWorldGenerator"),
            "loop": node(
                "InterleaveCriticLoop", plan="@planned", generator="@generator", max_attempts=1,
                accept_at=0.0, keep="best", source="previous", on_failure="keep", seed=0,
            ),
        }
    )["loop"]  # fmt: skip
    (image,) = drawn["images"]
    run = image["subfolder"].split("/")[1]
    assert run.startswith("一只红色的小船-") and host.image(image).size == (96, 96)
    query = {"run": run, "picture": Path(image["filename"]).stem, "size": "64"}
    assert host.download("/interleave-thinker/thumbnail", query).format == "WEBP"
    story = f"output/interleave-thinker/{run}"
    outputs = host.run(graph(story, "InterleaveSaveTrajectory", filename_prefix="船"))
    assert Path(outputs["out"]["text"][0]).name == "船_00001_"


def test_feedback_is_kept_with_the_run_and_as_training_data(host: ComfyServer, run: Trajectory) -> None:
    name = name_of(host, run)
    said = [
        feedback(step=1, attempt=1, word="better prompt", better_prompt="a red boat", reason="It is blue."),
        feedback(step=2),
        feedback(step=3, attempt=3, word="reject"),
        feedback(step=2, word="reject", reason="No sun."),
        feedback(step=3, attempt=3, word="take back"),
    ]
    file = host.base / "output" / "interleave-thinker" / "feedback" / "critic_sft.json"
    others = len(read_rows(file)) if file.exists() else 0
    for words, rows in zip(said, [1, 2, 3, 3, 2], strict=True):
        shown = host.run(graph(name, "InterleaveFeedback", **words))["out"]["text"][0]
        count = others + rows
        assert shown.startswith(f"{count} {'row' if count == 1 else 'rows'} in ")
    kept = read_feedback(run_folder(host.base / "output", run.request, run.settings.seed))
    assert [(word.step, word.attempt, word.accepted) for word in kept] == [(1, 0, False), (2, 0, False)]
    answers = [row.messages[-1].content for row in read_rows(file)][others:]
    assert "a red boat" in answers[0] and "It is blue." in answers[0]
    assert "No sun." in answers[1] and '"previous_step_success": false' in answers[1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step": 99}, "no kept image"),
        ({"step": 4}, "no kept image"),
        ({"attempt": 9}, "does not have an attempt 9"),
        ({"step": 3, "attempt": 1}, "does not have an image"),
        ({"word": "better prompt", "better_prompt": "  "}, "better prompt is empty"),
        ({"word": "better prompt", "better_prompt": "x" * 30_000}, "at most 20000"),
    ],
)
def test_feedback_without_an_attempt_gives_a_one_line_error(
    host: ComfyServer, run: Trajectory, changed: dict[str, Any], message: str
) -> None:
    made = graph(name_of(host, run), "InterleaveFeedback", **feedback(**changed))
    del made["report"]
    known_before = "better_prompt" in changed
    with pytest.raises(HostError, match=message):
        (host.queue if known_before else host.run)(made)
