"""A language file is missing or damaged, or a plan is too long: one line, and the page works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .edit_plan_page import SET_TEXT
from .page import SET_LANGUAGE, WORKFLOW_READY, photographed

EDIT_PLAN = """() => {
  const ours = () => app.graph._nodes.length === 1 && app.graph._nodes[0].type === 'InterleaveEditPlan';
  if (!ours()) { app.graph.clear(); app.graph.add(LiteGraph.createNode('InterleaveEditPlan')) }
  return document.querySelector('.itp-plan') !== null;
}"""
TOO_MUCH = {
    "1. a\n   draw: " + "x" * 5_000_000: "The plan is too long for the list",
    "[" * 100_000: "The plan cannot be read as JSON",
}


def edit_plan(page: Any) -> None:
    """Have one Edit Plan; again, where the front end opened its first graph only now."""
    page.wait_for_function(EDIT_PLAN, polling=500)
    page.wait_for_timeout(1500)
    page.wait_for_function(EDIT_PLAN, polling=500)


@pytest.fixture
def french(locale: str, page: Any) -> Any:
    return page


def test_a_language_is_english_until_its_texts_load(french: Any) -> None:
    page = french
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if "nterleave" in message.text else None)
    page.route("**/words/fr.json", lambda route: route.fulfill(body='{"view": {"Add step": "Schri'))
    page.reload()
    page.wait_for_function(WORKFLOW_READY)
    edit_plan(page)
    page.get_by_role("button", name="Add step").wait_for()
    assert said and all(
        line.startswith("InterleaveThinker: cannot load the texts for fr: ") for line in said
    ), said
    page.unroute("**/words/fr.json")
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize())")
    page.get_by_role("button", name="Ajouter une étape").wait_for()
    page.route("**/words/es.json", lambda route: route.abort())
    page.evaluate(SET_LANGUAGE, "es")
    page.get_by_role("button", name="Add step").wait_for()


def test_a_plan_that_is_too_large_shows_one_line_and_can_be_fixed(page: Any, tmp_path: Path) -> None:
    edit_plan(page)
    for text, line in TOO_MUCH.items():
        page.evaluate(SET_TEXT, text)
        page.locator(".itp-fault", has_text=line).wait_for()
        assert page.locator(".itp-step").count() == 0
    photographed(page, "edit-plan-too-much", tmp_path)
    page.evaluate(SET_TEXT, "1. House\n   draw: a house")
    page.locator(".itp-step").wait_for()
    assert page.locator(".itp-fault").count() == 0
