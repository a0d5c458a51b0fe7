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
from .page import opened, photographed, ran
from .tidy import assert_tidy, comparable

CHANGE = """changes => changes.forEach(([type, title, values]) => app.graph._nodes
  .filter(node => node.type === type && (title === null || node.title === title))
  .forEach(node => Object.entries(values).forEach(([name, value]) => {
    const widget = node.widgets.find(one => one.name === name);
    widget.value = value;
    widget.callback?.(value);
  })))"""
OWN_CRITIC = """name => {
  delete app.ownCritic;
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
  delete app.ownCritic;
}"""
"""Like `judged_by_the_critic`, for the duration of a run."""
SHOWING = """() => app.graph._nodes.filter(node => node.mode === 0 && node.type !== 'LoadImage' &&
    (node.imgs?.length ?? 0) > 0)
  .map(node => node.type)"""
SHOWN_KINDS = {"InterleaveStoryboard", "PreviewImage", "SaveImage"}
SHOWS = f"kinds => {{ const shown = ({SHOWING})(); return kinds.every(kind => shown.includes(kind)) }}"
"""Wait for images, which are fetched only when the node is painted, slowly on a busy machine."""
CHOOSE_NEWEST = """() => {
  const widget = app.graph._nodes.find(node => node.type === 'InterleaveLoadTrajectory').widgets[0];
  widget.value = widget.options.values.find(name => name.includes('saved/feedback'));
}"""
BETTER = "Add a yellow sun at the top left corner"
UNMUTE = "() => app.graph._nodes.forEach(node => { node.mode = 0 })"


def set_values(page: Any, changes: list[Any]) -> None:
    page.evaluate(CHANGE, [[change.class_type, change.title, change.inputs] for change in changes])


@pytest.mark.parametrize("name", NAMES)
def test_a_template_opens_completely_and_tidily_and_runs(
    same_page: Any, host: ComfyServer, name: str, tmp_path: Path
) -> None:
    page = same_page
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
