"""A story of ten steps in a real browser with the tiny world, from the plan to one shared file.

Planned and extended by hand, with settings of single steps, a redraw, a new plan, a comic, a page for
readers, and one file that another ComfyUI opens (COMFYUI_OTHER_PATH; without it, the same one).

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from support.host_home import home_at

from ..graphs.klein import Graph, node
from ..server.comfy_server import ComfyServer
from .page import photographed, ran, screenshot

REQUEST = (
    "Tell a story. First, draw a sea page with a red boat in the middle. Then a yellow sun at the top right "
    "appears. Then a blue fish appears at the bottom left. Next, the boat goes to the left side. After "
    "that, set the scene to night. Now replace the sun with a white moon. Write a caption for every picture."
)
ANOTHER = REQUEST.replace("with a white moon", "with a yellow moon")
BY_HAND = (
    "add a white star at the top left",
    "make the boat yellow",
    "add a white bird at the top",
    "move the fish to the bottom right",
)
OWN = "add a yellow sun at the top right; a yellow sun must be at the top right"
STORY = ["loop", 2]
FINISHED = ".it-live[data-status=finished]"
CHANGED = """([kind, name, value]) => {
  const node = app.graph._nodes.find(node => node.type === kind);
  const widget = node.widgets.find(widget => widget.name === name);
  widget.value = value;
  widget.callback?.(value);
}"""
CLOSE_TO = """kind => {
  const node = app.graph._nodes.find(node => node.type === kind), scale = 1;
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = 420 / scale - node.pos[0];
  app.canvas.ds.offset[1] = 110 / scale - node.pos[1];
  app.canvas.setDirty(true, true);
}"""
PLACES = {
    "planning": (0, 0),
    "judging": (0, 440),
    "planner": (340, 0),
    "generator": (340, 440),
    "edit": (740, 0),
    "loop": (1290, 0),
    "board": (1840, 0),
    "comic": (1840, 480),
    "page": (2190, 480),
    "share": (2190, 0),
}
SIZES = {"edit": (520, 860), "loop": (520, 860), "board": (320, 460), "comic": (320, 460), "page": (320, 460)}
LAID_OUT = """([places, sizes]) => {
  for (const node of app.graph._nodes) {
    const place = places[node.id], size = sizes[node.id];
    if (place) node.pos = place;
    if (size) node.setSize(size);
  }
}"""


def afternoon() -> Graph:
    """Return one graph that plans, edits, generates, judges, shows, exports and shares."""
    return {
        "planning": node("InterleaveLoadAgent", agent="tiny world planner"),
        "judging": node("InterleaveLoadAgent", agent="tiny world critic"),
        "planner": node("InterleavePlanner", agent="@planning", request=REQUEST),
        "edit": node("InterleaveEditPlan", plan="@planner", edits=""),
        "generator": node("InterleaveTinyWorldGenerator"),
        "loop": node(
            "InterleaveCriticLoop", plan="@edit", generator="@generator", critic="@judging", max_attempts=4,
            seed=7,
        ),
        "board": node("InterleaveStoryboard", trajectory=STORY),
        "comic": node(
            "InterleaveExport", trajectory=STORY, format="comic (PDF)", filename_prefix="afternoon/comic",
            audience=True, title="The boat at night", panels=4,
        ),
        "page": node(
            "InterleaveExport", trajectory=STORY, format="page (HTML)", filename_prefix="afternoon/page",
            audience=True, title="The boat at night",
        ),
        "share": node(
            "InterleaveSaveTrajectory", trajectory=STORY, form="one file (ZIP)",
            filename_prefix="afternoon/story",
        ),
    }  # fmt: skip


def story_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))


def newest(host: ComfyServer) -> Path:
    """Return the newest run folder; only one page at a time uses this server."""
    runs = (host.base / "output" / "interleave-thinker").glob("*/trajectory.json")
    return max(runs, key=lambda path: path.stat().st_mtime_ns).parent


def drawn(folder: Path) -> set[str]:
    return {path.name for path in (folder / "attempts").iterdir()}


@contextmanager
def another(host: ComfyServer, folder: Path) -> Iterator[ComfyServer]:
    """The other ComfyUI, or this one where there is none."""
    path = os.environ.get("COMFYUI_OTHER_PATH")
    if not path:
        yield host
        return
    home = home_at(Path(path).expanduser())
    assert home is not None, f"COMFYUI_OTHER_PATH names no ComfyUI: {path}"
    other = ComfyServer(home, folder / "other")
    try:
        other.start()
        yield other
    finally:
        other.stop()


def row(page: Any, number: int) -> Any:
    return page.locator(".itp-step").nth(number - 1)


def run_on(page: Any) -> None:
    """Run the graph; the live view has then shown the end of it."""
    ran(page)
    page.wait_for_selector(FINISHED, state="attached")


def shown(page: Any, kind: str) -> None:
    """Show only this node, at the size in which a user works with it."""
    page.evaluate(CLOSE_TO, kind)
    page.wait_for_timeout(500)


def extended_by_hand(page: Any) -> None:
    """Add four steps to the plan, and settings for some of the ten."""
    shown(page, "InterleaveEditPlan")
    for prompt in BY_HAND:
        page.get_by_role("button", name="Add step").click()
        number = page.locator(".itp-step").count()
        row(page, number).locator("textarea").first.fill(prompt)
    for number, name, value in ((3, "Seed", "77"), (5, "Attempts", "2")):
        row(page, number).get_by_label("Settings of this step").click()
        row(page, number).get_by_role("spinbutton", name=name).fill(value)
        row(page, number).get_by_label("Settings of this step").click()


def redrawn(page: Any, number: int, prompt: str) -> None:
    """Redraw a step's image from the live view, with the user's own prompt."""
    shown(page, "InterleaveCriticLoop")
    page.locator(".it-card-head").nth(number - 1).click()
    last = page.locator(".it-attempt").last
    count = page.locator(".it-attempt").count()
    last.get_by_text("Better prompt", exact=True).click()
    last.locator("textarea").fill(prompt)
    last.get_by_text("Redraw with it").click()
    more = f"() => document.querySelectorAll('.it-attempt').length > {count}"
    page.wait_for_function(more)
    page.wait_for_selector(FINISHED, state="attached")
    page.wait_for_timeout(500)


def pages_of(story: dict[str, Any]) -> list[str]:
    """Return the chosen image of every step."""
    return [one["attempts"][one["chosen"]]["image"] for one in story["results"]]


def look_at(page: Any, file: Path, name: str, folder: Path) -> None:
    """Take a screenshot of an exported page."""
    view = page.context.new_page()
    view.set_viewport_size({"width": 1600, "height": 1000})
    view.goto(file.as_uri())
    screenshot(view, name, folder)
    view.close()


def pixels_of(file: Path) -> bytes:
    with Image.open(file) as opened:
        return opened.convert("RGB").tobytes()


def test_a_story_of_ten_steps(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.evaluate("async graph => await app.loadApiJson(graph, 'afternoon')", afternoon())
    page.evaluate(LAID_OUT, [PLACES, SIZES])
    run_on(page)
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 6")
    assert len(story_of(newest(host))["results"]) == 6
    photographed(page, "afternoon-1-planned", tmp_path)

    extended_by_hand(page)
    run_on(page)
    folder = newest(host)
    story = story_of(folder)
    assert len(story["results"]) == 10 and len(set(pages_of(story))) == 10
    assert [one["step"].get("settings", {}) for one in story["results"]][2:5:2] == [
        {"seed": 77},
        {"tries": 2},
    ]
    photographed(page, "afternoon-2-ten-steps", tmp_path)

    before = pages_of(story)
    redrawn(page, 2, OWN)
    story = story_of(folder)
    second = story["results"][1]["attempts"]
    assert second[-1]["prompt"] == OWN and second[-1]["redraw"]["by"] == "user"
    assert pages_of(story)[0] == before[0] and len(story["results"]) == 10
    photographed(page, "afternoon-3-redrawn", tmp_path)

    page.evaluate(CHANGED, ["InterleavePlanner", "request", ANOTHER])
    run_on(page)
    page.get_by_text("The planner wrote a new plan").first.wait_for()
    assert not page.get_by_text("Step 2 is generated again with the next run.").is_visible(), (
        "of the run before"
    )
    photographed(page, "afternoon-4-planned-again", tmp_path)
    page.get_by_role("button", name="Show new steps").click()
    photographed(page, "afternoon-5-new-plan-taken", tmp_path)

    run_on(page)
    last = newest(host)
    story = story_of(last)
    assert len(story["results"]) == 10, "the four by hand stay"
    assert "yellow moon" in story["results"][5]["step"]["prompt"]
    assert pages_of(story)[0] == before[0], "the first image is not generated again"
    photographed(page, "afternoon-6-drawn", tmp_path)

    made = host.base / "output" / "afternoon"
    comic, shown_page, shared = (max(made.glob(f"*.{ending}")) for ending in ("pdf", "html", "zip"))
    assert comic.read_bytes().startswith(b"%PDF")
    text = shown_page.read_text(encoding="utf-8")
    assert "The boat at night" in text and "P(success)" not in text
    look_at(page, shown_page, "afternoon-7-page", tmp_path)
    with zipfile.ZipFile(shared) as packed:
        assert {"trajectory.json", "plan.json", "workflow.json"} <= {
            Path(name).name for name in packed.namelist()
        }

    with another(host, tmp_path) as other:
        (other.base / "input").mkdir(exist_ok=True)
        shutil.copyfile(shared, other.base / "input" / "from-a-friend.zip")
        graph = {
            "load": node("InterleaveLoadTrajectory", story="input/from-a-friend.zip"),
            "board": node(
                "InterleaveStoryboard", trajectory="@load", show="chosen", columns=0, cell=320, captions=True
            ),
            "page": node(
                "InterleaveExport", trajectory="@load", format="story for programs (JSON)",
                filename_prefix="from-a-friend/story", seconds=2.0, attempts=False,
            ),
        }  # fmt: skip
        outputs = other.run(graph)
        assert other.image(outputs["board"]["images"][0]).size[0] > 300
        (told,) = (other.base / "output" / "from-a-friend").glob("*/story.json")
        steps = json.loads(told.read_text(encoding="utf-8"))["steps"]
        images = [told.parent / one["image"]["file"] for one in steps]
        assert [hashlib.sha256(pixels_of(one)).digest() for one in images] == [
            hashlib.sha256(pixels_of(last / "pictures" / f"{name}.png")).digest() for name in pages_of(story)
        ], "the friend sees the pixels that were shared"
    assert page.outside == [] and page.faults == []
