"""A step redrawn from the live view in a real browser, with the user's prompt or another seed.

After and during a run; also the full-size view, and what a screen reader finds.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..graphs.klein import Graph, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import FINISHED, REOPENED, TALL, opened_graph, ran, screenshot

SIZE = (192, 128)
OWN = "a red house with a green door"
STARTED = "() => { app.queuePrompt(0, 1) }"


def judged(request: str, **settings: Any) -> Graph:
    """Return a story of two steps; the first is accepted at attempt 2, everything after it at once."""
    # The scripted critic counts its replies, those of this request alone.
    refused = verdict(False, "a house, larger", 0.2)
    refused["text"] = refused["text"].replace("looked", request)
    replies = [refused, *[verdict(True, "", 0.9)] * 8]
    return story(request, ["a house", "a tree"], SIZE, critic=json.dumps(replies), max_attempts=3, **settings)


def requests_of(page: Any) -> list[str]:
    """Return a list that collects the addresses requested by the page from now on."""
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    return seen


def drawn(folder: Path) -> set[str]:
    return {path.name for path in (folder / "attempts").iterdir()}


def test_a_step_is_redrawn_with_the_users_prompt(
    canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path
) -> None:
    page, how = canvas
    request = f"redrawn in {how}"
    opened_graph(page, judged(request))
    if how == "vue":
        page.evaluate(REOPENED)
    ran(page)
    page.wait_for_selector(FINISHED)
    page.evaluate(TALL)
    (folder,) = journals(host, request)
    before = drawn(folder)
    page.locator(".it-card-head").first.click()
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2
    attempts.nth(1).get_by_text("Better prompt", exact=True).click()
    attempts.nth(1).locator("textarea").fill(OWN)
    screenshot(page, f"redraw-{how}-prompt", tmp_path)
    attempts.nth(1).get_by_text("Redraw with it").click()
    page.wait_for_function("() => document.querySelectorAll('.it-attempt').length === 3")
    page.wait_for_selector(FINISHED)
    assert "redraw" in attempts.nth(2).inner_text() and "kept" in attempts.nth(2).inner_text()
    trajectory = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))
    first, second = trajectory["results"]
    assert first["chosen"] == 2 and first["attempts"][2]["prompt"] == OWN
    assert first["attempts"][2]["redraw"] == {"by": "user", "number": 1}
    assert second["attempts"][0]["source"] == first["attempts"][2]["image"], (
        "later steps are generated from it"
    )
    assert len(drawn(folder) - before) == 2, "only this step and those that depend on it"
    words = [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]
    assert (words[-1]["attempt"], words[-1]["better_prompt"]) == (1, OWN), "it is feedback at the same time"
    page.wait_for_timeout(500)
    screenshot(page, f"redraw-{how}-redrawn", tmp_path)
    assert page.outside == [] and page.faults == []
    if how == "vue":  # rendering a graph takes long there
        return
    page.get_by_text("Redraw this step").click()
    page.wait_for_function("() => document.querySelectorAll('.it-attempt').length === 4")
    page.wait_for_selector(FINISHED)
    again = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"][0]
    assert again["chosen"] == 3 and again["attempts"][3]["prompt"] == OWN
    assert again["attempts"][3]["seed"] != again["attempts"][2]["seed"]


def test_the_running_loop_uses_the_prompt_for_its_next_attempt(page: Any, host: ComfyServer) -> None:
    request = "redrawn while it is drawn"
    graph = judged(request)
    graph["critic"]["inputs"]["seconds_per_word"] = 0.4
    opened_graph(page, graph)
    page.evaluate(STARTED)
    page.wait_for_function("() => document.querySelectorAll('.it-attempt').length === 1")
    only = page.locator(".it-attempt").first
    only.get_by_text("Better prompt", exact=True).click()
    only.locator("textarea").fill(OWN)
    only.get_by_text("Redraw with it").click()
    only.get_by_text("This is the next attempt.").wait_for()
    page.wait_for_selector(FINISHED)
    (folder,) = journals(host, request)
    first = json.loads((folder / "trajectory.json").read_text(encoding="utf-8"))["results"][0]
    assert [one["prompt"] for one in first["attempts"]] == ["a house", OWN] and first["chosen"] == 1


def test_images_open_in_full_size(canvas: tuple[Any, str], tmp_path: Path) -> None:
    page, how = canvas
    opened_graph(page, judged(f"full size in {how}"))
    if how == "vue":
        page.evaluate(REOPENED)
    seen = requests_of(page)
    ran(page)
    page.wait_for_selector(FINISHED)
    page.evaluate(TALL)
    page.wait_for_function("() => document.querySelectorAll('.it-card-image:not([hidden])').length === 2")
    page.wait_for_timeout(500)
    shown = page.evaluate("() => [...document.querySelectorAll('.it-live img[src]')].map(one => one.src)")
    assert shown and all("/thumbnail?" in url for url in shown), "no full-size image before it is opened"
    assert any("/thumbnail?" in url for url in seen)
    card = page.get_by_role("button", name="Step 1 in full size")
    card.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Image in full size")
    title = dialog.locator(".it-lightbox-title")
    assert title.inner_text() == "1. Step 1 · Attempt 2 · accepted · kept"
    page.wait_for_function("() => document.querySelector('.it-lightbox-image').naturalWidth === 192")
    assert "/view?" in page.locator(".it-lightbox-image").get_attribute("src")
    screenshot(page, f"lightbox-{how}-try", tmp_path)
    for key, shown in (
        ("ArrowLeft", "1. Step 1 · Attempt 1 · rejected"),
        ("ArrowDown", "2. Step 2 · Attempt 1 · accepted · kept"),
        ("ArrowRight", "1. Step 1 · Attempt 1 · rejected"),
        ("End", "2. Step 2 · Attempt 1 · accepted · kept"),
        ("ArrowUp", "1. Step 1 · Attempt 2 · accepted · kept"),
    ):
        page.keyboard.press(key)
        assert title.inner_text() == shown, key
    dialog.get_by_role("button", name="Compare two images").click()
    slider = dialog.get_by_role("slider", name="Position of the dividing line")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "60 %"
    screenshot(page, f"lightbox-{how}-compare", tmp_path)
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Step 1 in full size"
    page.locator(".it-attempt").nth(1).get_by_role("button", name="Attempt 2 in full size").click()
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert page.outside == [] and page.faults == []


TREE = """
- region "Steps of the story":
  - status /2 steps · 3 images generated · 2 of 2 images accepted/
  - progressbar "Progress of the story"
  - list "Steps":
    - listitem:
      - button "Step 1 in full size"
      - button "1. Step 1 Accepted at attempt 2"
    - listitem:
      - button "Step 2 in full size"
      - button "2. Step 2 Accepted at attempt 1"
  - group "Selected step":
    - heading "1. Step 1" [level=4]
    - text: Accepted at attempt 2
    - status
    - button "Redraw this step"
    - paragraph: Text 1
    - list "Attempts":
      - listitem:
        - group "Attempt 1":
          - text: /Attempt 1 rejected · P.success. 20 %/
          - button "Attempt 1 in full size"
      - listitem:
        - group "Attempt 2":
          - text: /Attempt 2 accepted · P.success. 90 %/
          - button "Attempt 2 in full size"
          - button "Use this attempt" [disabled]
          - button "Redraw"
          - button "Better prompt"
          - button "This image is right (recorded as feedback for training)"
          - button "This image is wrong (recorded as feedback for training)"
    - region "Compare two images":
      - combobox "Image on the left"
      - combobox "Image on the right"
      - button "Compare in full size"
      - slider "Position of the dividing line"
"""
"""The accessibility tree by role and name; the texts of the attempts are in between."""


def test_a_screen_reader_finds_steps_attempts_and_verdicts(page: Any) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    opened_graph(page, judged("for a screen reader"))
    ran(page)
    page.wait_for_selector(FINISHED)
    page.locator(".it-card-head").first.click()
    page.locator(".it-attempt summary").nth(0).click()
    view = page.get_by_role("region", name="Steps of the story")
    print(view.aria_snapshot())
    sync_api.expect(view).to_match_aria_snapshot(TREE)
    current = page.locator(".it-card-head").first
    assert current.get_attribute("aria-current") == "step"
    values = [page.locator(".it-bar").get_attribute(f"aria-value{name}") for name in ("min", "now", "max")]
    assert values == ["0", "100", "100"]
