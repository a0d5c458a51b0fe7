"""The live view in a real browser: a story followed, compared, corrected and continued.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ..graphs.examples import need_checkpoints
from ..graphs.klein import node, story
from ..graphs.replies import verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journals
from .page import CLOSE_UP, LOOP, RUN, opened, opened_graph, screenshot, setting

SIZE = (64, 64)
# A step of the tiny world takes a tenth of a second: too short to be waited for from outside.
WATCH_CARDS = """() => {
  window.seenStatuses = new Set();
  const look = () => document.querySelectorAll(".it-card").forEach((card) =>
    seenStatuses.add(card.dataset.status));
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true });
}"""
PICTURES = "document.querySelectorAll('.it-card-image:not([hidden])').length"
HOSTILE = 'a house <img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_live_view_follows_a_story_during_generation(
    page: Any,
    host: ComfyServer,
    theme: str,
    tmp_path: Path,
) -> None:
    need_checkpoints()
    setting(host, "Comfy.ColorPalette", theme)
    page.reload()
    page.wait_for_function("window.app && app.vueAppReady && app.graph && app.extensionManager")
    page.wait_for_function("'InterleaveCriticLoop' in LiteGraph.registered_node_types")
    opened(page, "tiny_world_story")
    page.evaluate(CLOSE_UP)
    page.evaluate(WATCH_CARDS)
    first = int(time.time()) % 10_000
    # The whole story takes a second or two: a page on a busy machine may look only when all is over.
    for seed in range(first, first + 5):
        page.evaluate(f"() => {{ {LOOP}.widgets.find(one => one.name === 'seed').value = {seed} }}")
        assert page.evaluate(RUN)[0] == "execution_success"
        page.wait_for_selector(".it-live[data-status=finished]", timeout=120_000)
        page.wait_for_function(f"{PICTURES} === 5", timeout=60_000)
        if "running" in page.evaluate("() => [...window.seenStatuses]"):
            break
    else:
        pytest.fail("no step was ever shown while it was drawn")
    screenshot(page, f"live-{theme}-finished", tmp_path)
    assert page.locator(".it-card").count() == 6
    assert page.evaluate(f"() => {LOOP}.imgs ?? []") == [], "images are shown once, not twice"
    # A page that is opened later shows the same: from the server first, and from the run's folder when it
    # forgot.
    page.evaluate("async () => { const graph = app.graph.serialize(); await app.loadGraphData(graph) }")
    page.wait_for_selector(".it-live[data-status=finished]", timeout=60_000)
    page.evaluate(
        "async () => { const graph = app.graph.serialize(); graph.id = crypto.randomUUID(); await "
        "app.loadGraphData(graph) }"
    )
    page.wait_for_selector(".it-live[data-status=finished]", timeout=60_000)
    assert page.locator(".it-card").count() == 6
    assert page.outside == []
    setting(host, "Comfy.ColorPalette", "dark")


def test_a_loop_without_a_generator_says_so_before_a_run(page: Any) -> None:
    opened_graph(page, story("without a generator", ["a"], SIZE))
    line = page.locator(".it-live .it-line")
    assert line.inner_text() == "The steps appear here during a run."
    slot = f"{LOOP}.inputs.findIndex(input => input.name === 'generator')"
    page.evaluate(f"() => {LOOP}.disconnectInput({slot})")
    page.wait_for_function(
        "() => document.querySelector('.it-line').innerText.startsWith('No generator is connected: only')"
    )


FIRST_WORD_TAKES_LONG = """() => {
  const whole = window.fetch;
  let words = 0;
  window.fetch = async (...asked) => {
    if (String(asked[0]?.url ?? asked[0]).includes("/feedback") && !words++)
      await new Promise((go) => setTimeout(go, 2000));
    return whole(...asked);
  };
}"""
"""Sends a second feedback entry while the first request is still running."""


def test_a_user_compares_corrects_and_resumes(
    page: Any,
    host: ComfyServer,
    tmp_path: Path,
) -> None:
    replies = [verdict(False, HOSTILE, 0.25), verdict(True, "", 0.9), *[verdict(True, "", 0.8)] * 3]
    graph = story(
        "by hand", [HOSTILE.split("<")[0], "a tree"], SIZE, critic=json.dumps(replies), max_attempts=3
    )
    opened_graph(page, graph)
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".it-live[data-status=finished]")
    page.locator(".it-card-head").first.click()
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2 and "<script>" in (
        page.locator(".it-prompt ins").first.text_content(timeout=60_000)
    )
    page.evaluate(FIRST_WORD_TAKES_LONG)
    attempts.nth(0).locator("summary").click()
    attempts.nth(0).get_by_title("This image is wrong (recorded as feedback for training)").click()
    attempts.nth(0).get_by_text("Better prompt").click()
    attempts.nth(0).locator("textarea").fill("a red house with a door")
    attempts.nth(0).get_by_text("Save").click()
    page.wait_for_function("() => document.querySelectorAll('.it-editor:not([hidden])').length === 0")
    (folder,) = journals(host, "by hand")
    words = [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]
    assert words[-1]["accepted"] is False and words[-1]["better_prompt"] == "a red house with a door"
    page.locator(".it-compare select").nth(0).select_option("Attempt 1")
    page.locator(".it-compare select").nth(1).select_option("Attempt 2")
    page.locator(".it-compare-slider").evaluate(
        "one => { one.value = 30; one.dispatchEvent(new Event('input')) }"
    )
    assert "70%" in page.locator(".it-compare-over").evaluate("one => one.style.clipPath")
    before = page.locator(".it-card-image").first.get_attribute("src")
    attempts.nth(0).get_by_text("Use this attempt").click()
    page.get_by_text("Your choice for step 1 takes effect with the next run.").wait_for(timeout=60_000)
    screenshot(page, "live-by-hand", tmp_path)
    page.get_by_text("Run again").click()
    page.wait_for_function(
        (
            "() => [...document.querySelectorAll('.it-card-state')].some(one => "
            "one.textContent.includes('picked by hand'))"
        ),
        timeout=60_000,
    )
    page.wait_for_selector(".it-live[data-status=finished]", timeout=60_000)
    assert page.locator(".it-card-image").first.get_attribute("src") != before
    assert page.evaluate("() => window.hacked") is None
    assert page.outside == []


def answered(word: str, probability: float) -> dict[str, Any]:
    """A critic's answer to one item of a checklist."""
    return {"text": word, "tokens": 1, "probability": probability}


def test_items_of_a_checklist_are_ticked_and_judged(page: Any, host: ComfyServer, tmp_path: Path) -> None:
    replies = [
        verdict(True, "", 0.9),
        *(answered("Yes", 0.97), answered("No", 0.08)),
        verdict(True, "", 0.95),
        *(answered("Yes", 0.96), answered("Yes", 0.88)),
    ]
    graph = story(
        "ticked",
        ['a quay with three red boats and a sign "PIER"'],
        SIZE,
        critic=json.dumps(replies),
        max_attempts=3,
    )
    graph["loop"]["inputs"]["derive_checklist"] = True
    opened_graph(page, graph)
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".it-live[data-status=finished]")
    page.locator(".it-card-head").first.click()
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2, "the failed item rejected the first image"
    attempts.nth(0).locator("summary").click()
    items = attempts.nth(0).locator(".it-item")
    items.first.wait_for(timeout=60_000)
    assert [items.nth(at).inner_text().split() for at in range(2)] == [
        ["✓", "the", "text", '"PIER"', "is", "readable", "97", "%"],
        ["✗", "there", "are", "three", "red", "boats", "8", "%"],
    ]
    assert "three red boats" in attempts.nth(1).locator(".it-prompt").first.inner_text()
    items.nth(1).get_by_title("This is not true (recorded as feedback for training)").click()
    page.wait_for_function("() => document.querySelectorAll('.it-item [aria-pressed=true]').length === 1")
    items.nth(0).get_by_title("This is true (recorded as feedback for training)").click()
    page.wait_for_function("() => document.querySelectorAll('.it-item [aria-pressed=true]').length === 2")
    screenshot(page, "live-checklist", tmp_path)
    attempts.nth(0).get_by_title("This image is wrong (recorded as feedback for training)").click()
    page.wait_for_function("() => document.querySelectorAll('.it-attempt [aria-pressed=true]').length === 3")
    (folder,) = journals(host, "ticked")
    words = [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]
    assert words[-1]["accepted"] is False and words[-1]["items"] == [
        {"text": "there are three red boats", "true": False},
        {"text": 'the text "PIER" is readable', "true": True},
    ]
    items.nth(1).get_by_title("This is not true (recorded as feedback for training)").click()
    page.wait_for_function("() => document.querySelectorAll('.it-item [aria-pressed=true]').length === 1")
    words = [json.loads(line) for line in (folder / "feedback.jsonl").read_text().splitlines()]
    assert words[-1]["items"] == [{"text": 'the text "PIER" is readable', "true": True}]


def test_an_attempt_shows_the_enhanced_prompt_below_its_own(page: Any, host: ComfyServer) -> None:
    graph = story("enhanced in the browser", ["a house"], SIZE)
    replies = json.dumps(["A large red house <b>by the sea</b>."])
    graph["enhancer"] = node("InterleaveTestAgent", replies=replies)
    graph["generator"]["inputs"]["enhancer"] = ["enhancer", 0]
    opened_graph(page, graph)
    kind, detail = page.evaluate(RUN)
    assert kind == "execution_success", json.dumps(detail)[:2000]
    page.wait_for_selector(".it-live[data-status=finished]")
    page.locator(".it-card-head").first.click()
    attempt = page.locator(".it-attempt").first
    attempt.get_by_text("Enhanced prompt").wait_for(timeout=60_000)
    shown = [one for one in attempt.locator(".it-words p:not([hidden])").all_text_contents() if one]
    assert shown[:4] == [
        "Prompt used",
        "a house",
        "Enhanced prompt",
        "A large red house <b>by the sea</b>.",
    ]
