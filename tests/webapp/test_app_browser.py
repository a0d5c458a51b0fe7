"""The web app in a real browser: from the request to the exported file, by keyboard and on a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the extra 'app' is not installed")

from support.cli_calls import start
from support.free_port import free_port
from support.web_app import SmallModels, served

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
SHOTS = os.environ.get("INTERLEAVE_SCREENSHOTS")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
FINISHED = '.it-live[data-status="finished"]'
WAITS = '.it-live[data-status="incomplete"] .it-notice:not([hidden])'
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
EVIL = '<img src=x onerror="document.title=1">A house'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """Return a page that records requests to other hosts, and errors."""
    context = browser.new_context(viewport=DESKTOP, accept_downloads=True, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.outside, page.faults = [], []
    page.on("request", lambda asked: page.outside.append(asked.url) if _is_outside(asked.url) else None)
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda said: page.faults.append(said.text) if said.type != "log" else None)
    yield page
    context.close()


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "blob:", "data:"))


def shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"app-{name}.png"), full_page=True)


def at_both_sizes(page: Any, name: str) -> None:
    """Check that nothing is wider than the window, on a desktop and on a phone, in both color schemes."""
    for size, viewport in (("phone", PHONE), ("desktop", DESKTOP)):
        page.set_viewport_size(viewport)
        assert page.evaluate(OVERFLOW) <= 0, f"{name} at {size} size"
        shot(page, f"{name}-{size}")
    if SHOTS:
        page.emulate_media(color_scheme="dark")
        shot(page, f"{name}-dark")
        page.emulate_media(color_scheme="light")


def picture_file(folder: Path) -> Path:
    path = folder / "hero.png"
    Image.new("RGB", (1800, 1200), "teal").save(path)
    return path


def tab_to(page: Any, name: str) -> None:
    """Move the focus with the Tab key to the visible button of this name."""
    for _ in range(80):
        page.keyboard.press("Tab")
        focused = page.evaluate("[document.activeElement.tagName, document.activeElement.textContent]")
        if focused == ["BUTTON", name]:
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on {name} cannot be seen"
            return
    raise AssertionError(f"{name} cannot be reached with the keyboard")


def test_a_story_by_keyboard_with_approval_and_export(tab: Any, tmp_path: Path) -> None:
    models = SmallModels(tmp_path / "drawn.log")
    with served(tmp_path, models) as url:
        tab.goto(url)
        tab.get_by_label("What is the story about?").fill(EVIL)
        at_both_sizes(tab, "form")
        tab.get_by_text("Settings of the story").click()
        tab.locator("input[type=file]").set_input_files(picture_file(tmp_path))
        tab.locator(".app-images img").wait_for()
        tab.get_by_label("Wait for my approval").select_option("every step")
        story = tab.get_by_label("What is the story about?")
        story.fill("A dragon.")
        story.press("Control+Enter")
        tab.get_by_text("The tiny world does not know: dragon.").wait_for()
        assert models.command in tab.locator(".app-error .app-command").inner_text()
        at_both_sizes(tab, "unknown-word")
        assert tab.faults.pop().startswith("Failed to load resource")
        story.fill(EVIL)
        story.press("Control+Enter")
        tab.locator(WAITS).wait_for()
        assert tab.locator(".app-title").inner_text() == EVIL and tab.title() == "InterleaveThinker"
        assert "approval of the plan" in tab.locator(".it-notice").inner_text() and not models.drawn
        assert tab.locator(".it-card").count() == 4
        tab.get_by_label("Text for the reader").first.fill("Mine.")
        at_both_sizes(tab, "plan")
        tab_to(tab, "Approve")
        tab.keyboard.press("Enter")
        tab.get_by_text("Step 1 waits for you").wait_for()
        at_both_sizes(tab, "waits")
        tab.reload()
        tab.get_by_text("Step 1 waits for you").wait_for()
        tab.get_by_text("Attempt 1", exact=True).first.click()
        tab.get_by_role("button", name="Use this attempt").first.click()
        tab.get_by_text("Step 3 waits for you").wait_for()
        opened = tab.locator("details.it-attempt[open]")
        opened.get_by_role("button", name="Better prompt").click()
        opened.locator("textarea").first.fill("add a moon")
        opened.get_by_role("button", name="Redraw with it").click()
        tab.get_by_text("Attempt 3 · redraw").wait_for()
        tab.get_by_text("Step 3 waits for you").wait_for()
        tab.get_by_role("button", name="Approve").click()
        tab.get_by_text("Step 4 waits for you").wait_for()
        tab.get_by_role("button", name="Skip step").click()
        tab.locator(FINISHED).wait_for()
        tab.locator(".it-times > summary").click()
        assert "Generator" in tab.locator(".it-times").inner_text()
        at_both_sizes(tab, "finished")
        tab.locator(".app-title").fill("A better title")
        saving = tab.locator(".app-exports")
        for name, file in (("PDF", "story.pdf"), ("Comic (CBZ)", "story.cbz"), ("Web page", "index.html")):
            saving.locator("select").select_option(name)
            with tab.expect_download() as saved:
                saving.get_by_role("button", name="Save").click()
            assert saved.value.suggested_filename == file and Path(saved.value.path()).stat().st_size > 500
        page = Path(saved.value.path()).read_text(encoding="utf-8")
        assert "A better title" in page and "Mine." in page
        # Each choice of a person is what the story has in the end.
        story = httpx.get(f"{url}/interleave-thinker/stories", trust_env=False).json()["stories"][0]
        state = httpx.get(
            f"{url}/interleave-thinker/run", params={"run": story["run"]}, trust_env=False
        ).json()
        steps = {
            one["shown"]["step"]: one["shown"] for one in state["messages"] if one["shown"]["kind"] == "step"
        }
        assert [steps[number]["chosen"] for number in (1, 3, 4)] == [0, 2, None]
        assert not tab.faults and not tab.outside


def test_the_page_speaks_the_language_of_the_browser(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(viewport=PHONE, locale="fr-FR")
    with served(tmp_path) as url:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("De quoi parle l'histoire").wait_for()
        assert page.evaluate("document.documentElement.lang") == "fr"
        assert page.evaluate(OVERFLOW) <= 0
        shot(page, "french-phone")
    context.close()


SMALL = """
import sys, time
sys.path.insert(0, sys.argv[1])
import conftest, uvicorn
from pathlib import Path
from support.web_app import Counting, SmallModels, app_of
folder = Path(sys.argv[2])
class Held(Counting):
    def draw(self, prompt, source, seed):
        while "boat" in prompt and not (folder / "go").exists():
            time.sleep(0.01)
        return super().draw(prompt, source, seed)
class Models(SmallModels):
    def generator(self):
        return Held(self.log)
uvicorn.run(app_of(folder, Models(folder / "drawn.log")), port=int(sys.argv[3]), log_level="warning")
"""
"""The app with small models, whose last image waits for the file `go`."""


def app(folder: Path, port: int, models: str) -> subprocess.Popen[str]:
    """Start the command with the tiny world, or the app with small models."""
    if models == "small":
        line = [sys.executable, "-c", SMALL, Path(__file__).parents[1], folder, str(port)]
        running = subprocess.Popen(line, text=True)
    else:
        running = start("app", "--port", port, "--runs", folder / "runs")
    until = time.monotonic() + 120
    while True:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until, "the app did not start"
        try:
            if httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).is_success:
                return running
        except httpx.TransportError:
            time.sleep(0.1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("models", ["small", pytest.param("tiny world", marks=pytest.mark.stress)])
def test_a_story_survives_a_kill_of_the_app(tab: Any, tmp_path: Path, models: str) -> None:
    port = free_port()
    running = app(tmp_path, port, models)
    try:
        tab.set_default_timeout(240_000)
        tab.goto(f"http://127.0.0.1:{port}")
        assert models == "small" or "toy" in tab.locator(".app-toy").inner_text()
        tab.get_by_role("button", name="Use the example").click()
        tab.get_by_role("button", name="Start the story").click()
        tab.locator(".it-card-image:not([hidden])").nth(1).wait_for()
        running.kill()
        running.wait()
        tab.get_by_text("The app does not answer").wait_for()
        drawn = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("pictures/*.png")}
        assert drawn
        (tmp_path / "go").touch()
        running = app(tmp_path, port, models)
        tab.get_by_text("The app does not answer").wait_for(state="hidden")
        tab.reload()
        tab.get_by_text("This story is not complete").wait_for()
        at_both_sizes(tab, "interrupted")
        tab.get_by_role("button", name="Run again").click()
        tab.locator(FINISHED).wait_for()
        at_both_sizes(tab, models)
        assert {path: path.stat().st_mtime_ns for path in drawn} == drawn
        count = 3 if models == "small" else 5
        assert f"{count} of {count} images accepted" in tab.locator(".it-line").first.inner_text()
    finally:
        running.kill()
        running.communicate()
