"""The example graphs in a real browser: opened from the templates, complete, without overlaps, and run.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..graphs.examples import KLEIN_AGENT, need_models, requirements, twin
from ..graphs.template_names import NAMES
from ..server.comfy_server import ComfyServer
from .page import opened, photographed, ran, setting

BOXES = """() => app.graph._nodes.map(node => {
  const title = LiteGraph.NODE_TITLE_HEIGHT;
  return {name: node.title, box: [node.pos[0], node.pos[1] - title, node.size[0], node.size[1] + title]};
})"""
GROUPS = "() => app.graph._groups.map(group => ({name: group.title, box: Array.from(group._bounding)}))"
CHANGE = """changes => changes.forEach(([type, title, values]) => app.graph._nodes
  .filter(node => node.type === type && (title === null || node.title === title))
  .forEach(node => Object.entries(values).forEach(([name, value]) => {
    const widget = node.widgets.find(one => one.name === name);
    widget.value = value;
    widget.callback?.(value);
  })))"""
OWN_CRITIC = """name => {
  const links = app.graph.links;
  const link = id => (links instanceof Map ? links.get(id) : links[id]);
  for (const node of app.graph._nodes) {
    const slot = node.inputs?.findIndex(input => input.name === 'critic') ?? -1;
    const from = slot < 0 ? null : app.graph.getNodeById(link(node.inputs[slot].link)?.origin_id);
    if (from?.type !== 'InterleaveLoadAgent' || from.widgets[0].value !== name) continue;
    const critic = LiteGraph.createNode('InterleaveLoadAgent');
    app.graph.add(critic);
    critic.widgets[0].value = 'tiny world critic';
    critic.connect(0, node, slot);
    app.ownCritic = {critic, back: () => from.connect(0, node, slot)};
  }
}"""
WITHOUT_OWN_CRITIC = """() => {
  if (!app.ownCritic) return;
  app.ownCritic.back();
  app.graph.remove(app.ownCritic.critic);
}"""
"""Like `judged_by_the_critic`, for the duration of a run."""
SHOWING = """() => app.graph._nodes.filter(node => node.mode === 0 && node.type !== 'LoadImage' &&
    (node.imgs?.length ?? 0) > 0)
  .map(node => node.type)"""
SHOWN_KINDS = {"InterleaveStoryboard", "PreviewImage", "SaveImage"}
SHOWS = f"kinds => {{ const shown = ({SHOWING})(); return kinds.every(kind => shown.includes(kind)) }}"
"""Wait for images, which are fetched only when the node is painted, slowly on a busy machine."""
BACKWARDS = """() => Array.from(app.graph.links.values()).map(link => [
  app.graph.getNodeById(link.origin_id), app.graph.getNodeById(link.target_id),
]).filter(([from, to]) => from.pos[0] > to.pos[0]).map(([from, to]) => `${from.title} -> ${to.title}`)"""
CHOOSE_NEWEST = """() => {
  const widget = app.graph._nodes.find(node => node.type === 'InterleaveLoadTrajectory').widgets[0];
  widget.value = widget.options.values.find(name => name.includes('saved/feedback'));
}"""
BETTER = "Add a yellow sun at the top left corner"
UNMUTE = "() => app.graph._nodes.forEach(node => { node.mode = 0 })"


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


def set_values(page: Any, changes: list[Any]) -> None:
    page.evaluate(CHANGE, [[change.class_type, change.title, change.inputs] for change in changes])


def assert_tidy(page: Any) -> None:
    """Assert that nothing overlaps or crosses the border of a group, and that all links run to the right."""
    nodes, groups = page.evaluate(BOXES), page.evaluate(GROUPS)
    for index, one in enumerate(nodes):
        for other in nodes[index + 1 :]:
            assert apart(one["box"], other["box"]), f"{one['name']} overlaps {other['name']}"
        for group in groups:
            assert apart(one["box"], group["box"]) or inside(one["box"], group["box"]), (
                f"{one['name']} crosses the border of {group['name']}"
            )
    back = page.evaluate(BACKWARDS)
    assert back == [], f"wires that lead to the left: {back}"


def comparable(sent: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a sent graph in comparable form.

    Without inputs that a newer host has added to its own nodes, without the shown text of Preview Any, which
    older front ends send as an input, and without the names of packs that newer ones add.
    """
    return {
        number: {
            "class_type": node["class_type"],
            "title": node["_meta"]["title"],
            "inputs": known_inputs(node, wanted.get(number)),
        }
        for number, node in sent.items()
    }


def known_inputs(node: dict[str, Any], wanted: dict[str, Any] | None) -> dict[str, Any]:
    if node["class_type"] == "PreviewAny":
        return {key: value for key, value in node["inputs"].items() if key not in ("preview", "previewMode")}
    if wanted is None or node["class_type"].startswith("Interleave"):
        return node["inputs"]
    return {key: value for key, value in node["inputs"].items() if key in wanted["inputs"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_template_opens_completely_and_tidily_and_runs(
    page: Any, host: ComfyServer, name: str, tmp_path: Path
) -> None:
    with requirements(host, name) as changes:
        opened(page, name)
        photographed(page, name, tmp_path)
        assert_tidy(page)
        sent = page.evaluate("async () => (await app.graphToPrompt()).output")
        wanted = twin(name)
        assert comparable(sent, wanted) == comparable(wanted, wanted)
        need_models(host, name)
        set_values(page, changes)
        page.evaluate(OWN_CRITIC, KLEIN_AGENT)
        ran(page)
        page.evaluate(WITHOUT_OWN_CRITIC)
        kinds = {node["class_type"] for node in wanted.values()} & SHOWN_KINDS
        page.wait_for_function(SHOWS, arg=sorted(kinds))
    photographed(page, f"{name}-done", tmp_path)
    assert_tidy(page)
    assert page.locator(".p-dialog").count() == 0
    assert page.outside == []


def test_feedback_is_saved_and_shown_again(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    """Follow the template's note: run, unmute the last group, choose the story, run."""
    name = "feedback_round_trip"
    with requirements(host, name):
        opened(page, name)
        ran(page, settle_ms=1500)
        data = host.base / "output" / "interleave-thinker" / "feedback" / "critic_sft.json"
        assert BETTER not in data.read_text(encoding="utf-8")
        page.evaluate(UNMUTE)
        page.evaluate("() => app.refreshComboInNodes()")
        page.wait_for_timeout(500)
        page.evaluate(CHOOSE_NEWEST)
        ran(page)
        page.wait_for_function(SHOWS, arg=["InterleaveStoryboard"])
    photographed(page, f"{name}-round", tmp_path)
    assert page.evaluate(SHOWING).count("InterleaveStoryboard") == 1
    assert BETTER in data.read_text(encoding="utf-8")


def test_a_missing_agent_is_explained_in_the_browser(page: Any, host: ComfyServer) -> None:
    opened(page, "flux2_klein_4b_story")
    page.evaluate(
        "() => app.graph._nodes.find(node => node.type === 'InterleaveLoadAgent').widgets[0].value = "
        "'Nobody-8B'"
    )
    page.evaluate("() => { app.queuePrompt(0, 1) }")
    # Newer front ends show only the input's name; the message is behind a button.
    words, details = page.get_by_text("The agent 'Nobody-8B'"), page.get_by_text("View details")
    words.or_(details).first.wait_for()
    if details.is_visible():
        details.click()
        page.get_by_label("Info for Load Agent - agent").click()
    words.first.wait_for()
    # Newer front ends would keep the panel open for the next test.
    setting(host, "Comfy.RightSidePanel.IsOpen", False)
