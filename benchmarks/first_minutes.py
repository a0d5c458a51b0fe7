"""What a first-time user does in the first five minutes, with the seconds of every act: the pack is cloned,
ComfyUI started, the first template found in the Templates dialog and run, a picture looked at, a step
redrawn, a request with unknown words asked.

Decision: acts of a person by the page's own controls wherever there is one (dialog, Run button, live view),
and only the machine's seconds are counted: how long a person reads is not. A screenshot after every act is
for looking at.

    COMFYUI_PATH=~/comfy/ComfyUI python benchmarks/first_minutes.py --screenshots shots
        # needs playwright and Chromium; COMFYUI_FRONT_END_ROOT picks another front end; the last line is JSON
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import conftest  # noqa: E402, F401 - makes the package importable under its name
from playwright.sync_api import sync_playwright  # noqa: E402
from support.host_home import HOW_TO_ENABLE, find_host  # noqa: E402

from tests.host.browser.conftest import ARGUMENTS  # noqa: E402
from tests.host.browser.page import READY  # noqa: E402
from tests.host.graphs.template_names import FILE_NAMES  # noqa: E402
from tests.host.server.comfy_server import PACK, ComfyServer  # noqa: E402

FINISHED = ".it-live[data-status=finished]"
UNKNOWN = "Explain how bread is baked in four pictures"
SET_REQUEST = """text => {
  const node = app.graph._nodes.find(node => node.type === 'InterleavePlanner');
  node.widgets.find(widget => widget.name === 'request').value = text;
}"""
CLOSE_UP = """() => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveCriticLoop');
  node.setSize([620, 800]);
  app.canvas.ds.scale = 1;
  app.canvas.ds.offset[0] = 420 - node.pos[0];
  app.canvas.ds.offset[1] = 110 - node.pos[1];
  app.canvas.setDirty(true, true);
}"""


class Walk:
    """The acts in their order, each with its seconds and a screenshot."""

    def __init__(self, folder: Path | None) -> None:
        self.seconds: dict[str, float] = {}
        self._folder = folder

    def act(self, name: str, do: Callable[[], Any], page: Any = None) -> Any:
        """Do one thing and note how long it took."""
        started = time.perf_counter()
        result = do()
        self.seconds[name] = round(time.perf_counter() - started, 2)
        print(f"{self.seconds[name]:8.2f} s  {name}", flush=True)
        if page is not None and self._folder is not None:
            page.wait_for_timeout(700)
            page.screenshot(path=self._folder / f"{len(self.seconds):02} {name}.png")
        return result


def clone(base: Path) -> None:
    """The pack as a user gets it: the commit at hand, cloned into custom_nodes."""
    target = base / "custom_nodes" / PACK
    target.unlink(missing_ok=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)


def requirements(host: ComfyServer) -> None:
    """What `pip install -r requirements.txt` takes; nothing to speak of where all is there already."""
    command = [str(host.home.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    listed = host.base / "custom_nodes" / PACK / "requirements.txt"
    subprocess.run([*command, "-r", str(listed)], check=True, capture_output=True)


def open_template(page: Any) -> None:
    """Templates, Extensions, InterleaveThinker, the first card."""
    page.get_by_role("button", name="Templates").first.click()
    page.get_by_text("InterleaveThinker", exact=True).first.click()
    page.get_by_text(FILE_NAMES["tiny_world_story"]).first.click()
    page.wait_for_function("() => app.graph._nodes.some(node => node.type === 'InterleaveCriticLoop')")


def press_run(page: Any) -> None:
    page.get_by_test_id("queue-button").or_(page.get_by_role("button", name="Run", exact=True)).first.click()


def redraw(page: Any) -> None:
    """One more try at the step at hand, and its end."""
    tries = page.locator(".it-attempt").count()
    page.get_by_text("Redraw this step").click()
    page.wait_for_function(f"() => document.querySelectorAll('.it-attempt').length > {tries}")
    page.wait_for_selector(FINISHED)


def walk(host: ComfyServer, browser: Any, steps: Walk) -> None:
    """All acts in one page."""
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.set_default_timeout(120_000)

    def opened() -> None:
        page.goto(host.url, wait_until="domcontentloaded")
        page.wait_for_function(READY)

    steps.act("the page is opened", opened, page)
    steps.act("the first template is found and opened", lambda: open_template(page), page)
    started = time.perf_counter()
    press_run(page)
    steps.act("the first picture is shown", lambda: page.wait_for_selector(".it-card img"), page)
    page.wait_for_selector(FINISHED)
    steps.seconds["the whole story is drawn and judged"] = round(time.perf_counter() - started, 2)
    steps.act("the story is looked at", lambda: page.evaluate(CLOSE_UP), page)

    def magnified() -> None:
        page.locator(".it-card-head").first.click()
        page.locator(".it-attempt .it-picture:visible").first.click()
        page.wait_for_selector(".it-lightbox")

    steps.act("a picture in full size", magnified, page)
    page.keyboard.press("Escape")
    steps.act("a step is drawn again", lambda: redraw(page), page)
    page.locator(".it-attempt").last.get_by_title("This image is right").click()
    page.evaluate(SET_REQUEST, UNKNOWN)

    def refused() -> None:
        press_run(page)
        details = page.get_by_role("button", name="View details")
        message = page.get_by_text("planner does not know: ")
        # Newer front ends have an error's words one click away.
        details.or_(message).first.wait_for()
        if not message.first.is_visible():
            details.first.click()
        message.first.wait_for()

    steps.act("words that the tiny world does not know are named", refused, page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--screenshots", type=Path)
    folder: Path | None = parser.parse_args().screenshots
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    home = find_host()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if home is None or chromium is None:
        sys.exit(HOW_TO_ENABLE if home is None else "Needs Chromium on the PATH.")
    steps = Walk(folder)
    with tempfile.TemporaryDirectory() as place:
        host = ComfyServer(home, Path(place) / "base")
        host.lay_out()
        steps.act("the pack is cloned", lambda: clone(host.base))
        steps.act("its requirements are installed", lambda: requirements(host))
        try:
            steps.act("ComfyUI starts", host.start)
            with sync_playwright() as running:
                browser = running.chromium.launch(executable_path=chromium, headless=True, args=ARGUMENTS)
                walk(host, browser, steps)
                browser.close()
        finally:
            host.stop()
    total = round(sum(steps.seconds.values()), 1)
    print(json.dumps({"seconds": steps.seconds, "sum": total, "load": round(os.getloadavg()[0], 1)}))


if __name__ == "__main__":
    main()
