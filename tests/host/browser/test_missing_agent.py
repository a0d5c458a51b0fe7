"""Load Agent before a run, in a real browser: a missing agent is explained, an installed one is not.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..graphs.template_names import template_path
from ..server.comfy_server import ComfyServer
from .page import opened, screenshot

AGENT = "Qwen3-VL-4B-Instruct"
TEMPLATE = "flux2_klein_4b_story"
NOTICE = ".it-missing"
LOADER = "app.graph._nodes.find(node => node.type === 'InterleaveLoadAgent')"
CHOOSE = f"""([name, value]) => {{
  const widget = {LOADER}.widgets.find(one => one.name === name);
  widget.value = value;
  widget.callback?.(value, app.canvas, {LOADER});
}}"""
SAVED = f"() => {LOADER}.serialize().widgets_values"
TOUCHES = f"""() => {{
  const box = {LOADER}.boundingRect;
  return app.graph._nodes.filter(one => one.title !== {LOADER}.title).filter(one => {{
    const other = one.boundingRect;
    return box[0] < other[0] + other[2] && other[0] < box[0] + box[2] && box[1] < other[1] + other[3]
      && other[1] < box[1] + box[3];
  }}).map(one => one.title);
}}"""
REFRESH = "async () => await app.refreshComboInNodes()"
CLOSE_UP = f"""() => {{
  const node = {LOADER};
  app.canvas.ds.scale = 1.1;
  app.canvas.ds.offset[0] = 500 / 1.1 - node.pos[0];
  app.canvas.ds.offset[1] = 110 / 1.1 - node.pos[1];
  app.canvas.setDirty(true, true);
}}"""


@pytest.fixture
def agents(host: ComfyServer) -> Iterator[Path]:
    """The agents' folder, without the agent of the templates."""
    folder = host.base / "models" / "interleave_agents"
    remove(folder / AGENT)
    yield folder
    remove(folder / AGENT)


def remove(agent: Path) -> None:
    """Remove a folder, or the link that other tests put in its place."""
    if agent.is_symlink():
        agent.unlink()
    shutil.rmtree(agent, ignore_errors=True)


def install(agents: Path) -> None:
    """Put a folder there that the list of agents accepts."""
    (agents / AGENT).mkdir(parents=True)
    config = {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl"}
    (agents / AGENT / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_a_missing_agent_is_explained_until_it_is_there(
    canvas: tuple[Any, str], agents: Path, tmp_path: Path
) -> None:
    page, how = canvas
    opened(page, TEMPLATE)
    notice = page.locator(NOTICE)
    notice.wait_for()
    said = f"{AGENT} is missing. Put its folder into models/interleave_agents and press R."
    assert said in notice.inner_text()
    command = f"hf download Qwen/{AGENT} --local-dir {shlex.quote(str(agents / AGENT))}"
    assert notice.locator("code").inner_text() == command
    graph = json.loads(template_path(TEMPLATE).read_text(encoding="utf-8"))
    (saved,) = [node["widgets_values"] for node in graph["nodes"] if node["type"] == "InterleaveLoadAgent"]
    values = page.evaluate(SAVED)
    assert values[: len(saved)] == saved and values[len(saved) :] in ([], ["from the agent", "none"])
    if how == "canvas":
        assert page.evaluate(TOUCHES) == [], "the template has room for the notice"
    page.evaluate(CLOSE_UP)
    page.wait_for_timeout(800)
    screenshot(page, f"missing-agent-{how}", tmp_path)

    page.evaluate(CHOOSE, ["agent", "tiny world planner"])
    notice.wait_for(state="detached")
    page.evaluate(CHOOSE, ["agent", AGENT])
    notice.wait_for()
    page.evaluate(CHOOSE, ["hub_id", f"Qwen/{AGENT}"])
    page.evaluate(CHOOSE, ["download", True])
    notice.wait_for(state="detached")
    page.evaluate(CHOOSE, ["download", False])
    page.evaluate(CHOOSE, ["hub_id", ""])
    notice.wait_for()
    install(agents)
    page.evaluate(REFRESH)
    notice.wait_for(state="detached")
    page.wait_for_timeout(500)
    screenshot(page, f"installed-agent-{how}", tmp_path)
    assert page.faults == []


def test_an_installed_agent_has_no_notice(page: Any, agents: Path) -> None:
    install(agents)
    opened(page, TEMPLATE)
    page.wait_for_timeout(1000)
    assert page.locator(NOTICE).count() == 0
    assert page.faults == []


@pytest.mark.parametrize(
    ("locale", "line", "title", "button"),
    [
        ("en", f"{AGENT} is missing.", "# Load Agent", "Help"),
        ("zh", f"缺少 {AGENT}。", "# 加载智能体", "帮助"),
    ],
    indirect=["locale"],
)
def test_the_button_opens_the_help_page(
    locale: str, page: Any, agents: Path, line: str, title: str, button: str
) -> None:
    opened(page, TEMPLATE)
    notice = page.locator(NOTICE)
    notice.wait_for()
    assert line in notice.inner_text()
    page.evaluate(CLOSE_UP)
    page.wait_for_timeout(500)
    with page.expect_popup() as popup:
        notice.get_by_text(button).click()
    popup.value.wait_for_load_state()
    shown = popup.value.inner_text("body")
    assert shown.startswith(title) and "models/interleave_agents" in shown
