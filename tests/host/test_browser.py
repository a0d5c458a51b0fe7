"""The example graphs in a real browser: opened from the templates, nothing missing, nothing overlapping, run, looked at.

The screenshots are kept where INTERLEAVE_SCREENSHOTS says, for a person to look at.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .comfy_server import ComfyServer
from .example_graphs import NAMES, REQUEST, lend_agent, need_checkpoints, twin

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
READY = (
    "window.app && app.vueAppReady && app.graph && Object.keys(LiteGraph.registered_node_types).length > 100"
    " && 'InterleaveCriticLoop' in LiteGraph.registered_node_types"
)
OPEN = """async name => {
  const answer = await fetch(`/api/workflow_templates/interleave-thinker/${name}.json`);
  await app.loadGraphData(await answer.json(), true, true, name);
}"""
BOXES = """() => app.graph._nodes.map(node => {
  const title = LiteGraph.NODE_TITLE_HEIGHT;
  return {name: node.title, box: [node.pos[0], node.pos[1] - title, node.size[0], node.size[1] + title]};
})"""
GROUPS = "() => app.graph._groups.map(group => ({name: group.title, box: Array.from(group._bounding)}))"
RUN = """async () => {
  const ended = new Promise(resolve => {
    for (const kind of ['execution_success', 'execution_error', 'execution_interrupted'])
      app.api.addEventListener(kind, event => resolve([kind, event.detail]), {once: true});
  });
  await app.queuePrompt(0, 1);
  const late = new Promise(resolve => setTimeout(() => resolve(['timeout', {}]), 120000));
  return await Promise.race([ended, late]);
}"""
FIT = """() => {
  const boxes = [...app.graph._nodes.map(node => node.boundingRect), ...app.graph._groups.map(one => one._bounding)];
  const left = Math.min(...boxes.map(b => b[0])), top = Math.min(...boxes.map(b => b[1]));
  const right = Math.max(...boxes.map(b => b[0] + b[2])), bottom = Math.max(...boxes.map(b => b[1] + b[3]));
  const scale = Math.min(1780 / (right - left), 930 / (bottom - top));
  app.canvas.ds.scale = scale;
  app.canvas.ds.offset[0] = 90 / scale - left;
  app.canvas.ds.offset[1] = 115 / scale - top;
  app.canvas.setDirty(true, true);
}"""
SMALL = """([request, side]) => {
  const set = (type, values) => app.graph._nodes.filter(node => node.type === type).forEach(node =>
    node.widgets.forEach(widget => { if (widget.name in values) widget.value = values[widget.name]; }));
  set('InterleavePlanner', {request});
  set('InterleaveStepGenerator', {width: side, height: side});
  set('InterleaveCriticLoop', {max_attempts: 2});
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip(
            "The browser tests need Chromium on the PATH, such as Debian's: apt-get install chromium."
        )
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, host: ComfyServer) -> Iterator[Any]:
    """The front end, ready; requests that leave the server are refused and remembered in `page.outside`."""
    context = browser.new_context(viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.outside = []

    def only_the_server(route: Any) -> None:
        if route.request.url.startswith((host.url, "data:", "blob:")):
            route.continue_()
        else:
            page.outside.append(route.request.url)
            route.abort()

    page.route("**/*", only_the_server)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(host.url, wait_until="domcontentloaded")
    page.wait_for_function(READY, timeout=60_000)
    yield page
    context.close()


def opened(page: Any, name: str) -> None:
    page.evaluate(OPEN, name)
    page.wait_for_timeout(500)
    assert page.locator(".p-dialog").count() == 0, page.locator(".p-dialog").first.inner_text()


def photographed(page: Any, name: str, folder: Path) -> None:
    page.evaluate(FIT)
    page.wait_for_timeout(800)
    folder = Path(os.environ.get("INTERLEAVE_SCREENSHOTS") or folder)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")


def apart(one: list[float], other: list[float]) -> bool:
    return (
        one[0] + one[2] <= other[0]
        or other[0] + other[2] <= one[0]
        or one[1] + one[3] <= other[1]
        or other[1] + other[3] <= one[1]
    )


def inside(one: list[float], other: list[float]) -> bool:
    return (
        one[0] >= other[0]
        and one[1] >= other[1]
        and one[0] + one[2] <= other[0] + other[2]
        and one[1] + one[3] <= other[1] + other[3]
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_template_opens_whole_and_tidy(page: Any, host: ComfyServer, name: str, tmp_path: Path) -> None:
    opened(page, name)
    photographed(page, name, tmp_path)
    nodes, groups = page.evaluate(BOXES), page.evaluate(GROUPS)
    for index, one in enumerate(nodes):
        for other in nodes[index + 1 :]:
            assert apart(one["box"], other["box"]), f"{one['name']} overlaps {other['name']}"
        for group in groups:
            assert apart(one["box"], group["box"]) or inside(one["box"], group["box"]), (
                f"{one['name']} stands across the border of {group['name']}"
            )
    assert page.evaluate("async () => (await app.graphToPrompt()).output") == twin(name)
    assert page.outside == []


@pytest.mark.parametrize("name", NAMES)
def test_a_template_runs_from_the_browser(page: Any, host: ComfyServer, name: str, tmp_path: Path) -> None:
    need_checkpoints()
    lend_agent(host)
    opened(page, name)
    if name.startswith("flux2"):
        page.evaluate(SMALL, [REQUEST, 128])
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_timeout(1500)
    photographed(page, f"{name}-done", tmp_path)
    shown = page.evaluate(
        "() => app.graph._nodes.filter(node => node.type === 'InterleaveStoryboard').map(node => node.imgs?.length)"
    )
    assert shown == [1]


def test_a_missing_agent_is_explained_in_the_browser(page: Any, host: ComfyServer) -> None:
    opened(page, "flux2_klein_4b_story")
    page.evaluate(
        "() => app.graph._nodes.find(node => node.type === 'InterleaveLoadAgent').widgets[0].value = 'Nobody-8B'"
    )
    page.evaluate("() => { app.queuePrompt(0, 1) }")
    page.get_by_text("There is no agent 'Nobody-8B'").first.wait_for(timeout=15_000)
