"""The views of the nodes in another language than English, in a real browser, and changed while a graph is
open.

The screenshots go where INTERLEAVE_SCREENSHOTS says, for a person to look at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..graphs.klein import story
from ..graphs.replies import reply, verdict
from ..server.comfy_server import ComfyServer
from .edit_plan_page import PLANNED
from .page import RUN, SET_LANGUAGE, WORKFLOW_READY, opened_graph, photographed, screenshot, setting

# The first graph is opened after the app is ready: whatever is on the canvas before that is lost.
SIZE = (64, 64)
OUTSIDE = """() => [...document.querySelectorAll('.it-live button, .it-live .it-badge, .itp-plan button')]
  .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"""


@pytest.fixture
def german(page: Any, host: ComfyServer) -> Iterator[Any]:
    setting(host, "Comfy.Locale", "de")
    page.reload()
    page.wait_for_function(WORKFLOW_READY)
    yield page
    setting(host, "Comfy.Locale", "en")


def test_a_story_is_told_in_german(german: Any, tmp_path: Path) -> None:
    page = german
    replies = [verdict(False, "a red house with a door", 0.25), verdict(True, "", 0.9)]
    replies += [verdict(False, "a tree", 0.1)] * 4
    graph = story("auf deutsch", ["a house", "a tree"], SIZE, critic=json.dumps(replies), max_attempts=2)
    opened_graph(page, graph)
    page.get_by_text("Jeder Schritt ist hier zu sehen").wait_for()
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".it-live[data-status=finished]")
    page.get_by_text("2 Schritte · 4 Bilder gezeichnet · 1 von 2 Bildern angenommen").first.wait_for()
    cards = page.locator(".it-card-state").all_text_contents()
    assert cards[0] == "Angenommen beim 2. Versuch" and cards[1].startswith("Nie angenommen: 2 Versuche"), (
        cards
    )
    page.locator(".it-card").first.click()
    words = page.locator(".it-attempt-word").all_text_contents()
    assert words[0].startswith("abgelehnt · P(Erfolg) 25 % · ") and words[1].startswith("angenommen"), words
    page.locator(".it-attempt").nth(0).locator("summary").click()
    page.wait_for_timeout(500)
    screenshot(page, "live-german", tmp_path)
    assert page.evaluate(OUTSIDE) == []
    page.get_by_text("Diesen Versuch nehmen").first.click()
    page.get_by_text("Ihre Wahl für Schritt 1 gilt ab dem nächsten Lauf.").wait_for()
    screenshot(page, "live-german-choice", tmp_path)


def test_the_language_changes_with_the_setting(german: Any, host: ComfyServer, tmp_path: Path) -> None:
    page = german
    page.evaluate(PLANNED, [json.dumps([reply("a house", "a tree", thought="deutsch")]), "a story in german"])
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.get_by_role("button", name="Schritt hinzufügen").click()
    page.get_by_text("Schritt 3 wurde hinzugefügt.").wait_for()
    page.get_by_text("2 Schritte", exact=True).wait_for()  # the Planner's line
    photographed(page, "edit-plan-german", tmp_path)
    assert page.evaluate(OUTSIDE) == []
    page.evaluate(SET_LANGUAGE, "en")
    page.get_by_role("button", name="Add step").wait_for()
    # A language without words of ours is English, as its node texts are.
    page.evaluate(SET_LANGUAGE, "ru")
    page.wait_for_timeout(1000)
    page.get_by_role("button", name="Add step").wait_for()
    page.evaluate(SET_LANGUAGE, "zh")
    page.get_by_role("button", name="添加步骤").wait_for()
