"""The node views with Nodes 2.0: shown and used as on the canvas.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..graphs.examples import need_checkpoints
from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer
from .edit_plan_page import PLANNED, TEXT
from .page import RUN, front_end, opened, photographed, setting

INSIDE = """selector => {
  const inner = document.querySelector(selector).getBoundingClientRect();
  const node = document.querySelector(selector).closest('.lg-node')?.getBoundingClientRect();
  return node && inner.width > 50 && inner.height > 20 && inner.left >= node.left - 1 && inner.right <=
    node.right + 1
    && inner.top >= node.top - 1 && inner.bottom <= node.bottom + 1;
}"""


@pytest.fixture
def vue(browser: Any, host: ComfyServer) -> Iterator[Any]:
    setting(host, "Comfy.VueNodes.Enabled", True)
    with front_end(browser, host) as page:
        yield page
    setting(host, "Comfy.VueNodes.Enabled", False)


def test_the_live_view_is_on_its_node(vue: Any, tmp_path: Path) -> None:
    need_checkpoints()
    page = vue
    opened(page, "tiny_world_story")
    photographed(page, "vue-opened", tmp_path)
    assert page.locator(".lg-node").count() > 3
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".lg-node .it-live[data-status=finished]")
    page.wait_for_timeout(1000)
    photographed(page, "vue-finished", tmp_path)
    assert page.evaluate(INSIDE, ".it-live")
    page.locator(".it-card-head", has_text="at attempt 2").first.click()
    rejected = page.locator(".it-attempt", has_text="Attempt 1").first
    if not rejected.get_by_text("Use this attempt").is_visible():
        rejected.locator("summary").click()
    rejected.get_by_text("Use this attempt").click()
    page.get_by_text("Your choice for step 4 takes effect with the next run.").wait_for()
    photographed(page, "vue-choice", tmp_path)


def test_the_list_of_steps_is_on_its_node(vue: Any, tmp_path: Path) -> None:
    page = vue
    # Here a node has its place only if it had it when it came into the graph.
    page.evaluate(
        PLANNED.replace(
            "app.graph.add(node);\n    node.pos = [x, y];", "node.pos = [x, y];\n    app.graph.add(node);"
        ),
        [json.dumps([reply("a house", "a tree", thought="vue")]), "a story in vue"],
    )
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_function("() => document.querySelectorAll('.lg-node .itp-step').length === 2")
    photographed(page, "vue-edit-plan", tmp_path)
    assert page.evaluate(INSIDE, ".itp-plan")
    page.locator(".itp-step textarea").first.fill("a red house")
    assert "draw: a red house" in page.evaluate(TEXT)
    page.get_by_role("button", name="Edit as text").click()
    page.wait_for_timeout(500)
    photographed(page, "vue-edit-plan-text", tmp_path)
    shown = page.locator(".lg-node textarea").evaluate_all("all => all.map(one => one.value)")
    assert any("draw: a red house" in text for text in shown)
    page.get_by_role("button", name="As JSON").click()
    page.wait_for_function(
        "() => [...document.querySelectorAll('.lg-node textarea')].some(one => one.value.startsWith('{'))"
    )
    page.get_by_role("button", name="Edit as list").click()
    page.wait_for_function("() => document.querySelectorAll('.lg-node .itp-step').length === 2")
