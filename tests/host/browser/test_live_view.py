"""The live view in a real browser: a story or a pair followed, compared, corrected, continued and redrawn."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from PIL import Image, ImageChops

from ..graphs.attempt_pairs import pair
from ..graphs.examples import need_checkpoints
from ..graphs.stories import Graph, accepted, changed, scripted, story, verdict
from ..server.comfy_server import ComfyServer
from ..server.runs import journal, made, ran_in, results
from .page import (
    CLOSE,
    FINISHED,
    FORGOTTEN,
    INSIDE,
    LOOP,
    NODE,
    REOPENED,
    STARTED,
    TALL,
    clean,
    close_up,
    opened,
    opened_graph,
    ran,
    screenshot,
    setting,
    wait_for_count,
)  # fmt: skip

SIZE = (192, 128)
OWN = "a red house with a green door"
WRONG = "This image is wrong (recorded as feedback for training)"
# A step of the tiny world takes a tenth of a second: too short to be waited for from outside.
WATCH_CARDS = """() => {
  window.seenStatuses = new Set();
  const look = () => document.querySelectorAll(".it-card").forEach((card) =>
    seenStatuses.add(card.dataset.status));
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true });
}"""
HOSTILE = 'a house <img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>'
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
EDITOR_IN_SIGHT = """() => {
  const [editor, compare, detail] = ['.it-editor:not([hidden])', '.it-detail .it-compare', '.it-detail']
    .map(one => document.querySelector(one).getBoundingClientRect());
  return editor.top >= detail.top - 1 && editor.bottom <= Math.min(compare.top, detail.bottom) + 1;
}"""


def feedback_of(host: ComfyServer, request: str) -> list[dict[str, Any]]:
    text = (journal(host, request) / "feedback.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def judged(request: str, **settings: Any) -> Graph:
    """Return a story of two steps; the first is accepted at attempt 2, everything after it at once."""
    replies = [verdict(False, "a house, larger", 0.2), *accepted(8)]
    return story(request, ["a house", "a tree"], SIZE, critic=replies, max_attempts=3, **settings)


def first_step(page: Any, graph: Graph) -> Any:
    """Run a story, select its first step, and return the attempts that the view shows."""
    opened_graph(page, graph)
    ran(page, FINISHED)
    page.locator(".it-card-head").first.click()
    return page.locator(".it-attempt")


def test_the_live_view_follows_a_story_during_generation(page: Any, host: ComfyServer) -> None:
    need_checkpoints()
    setting(host, "Comfy.ColorPalette", "light")
    page.reload()
    page.wait_for_function("window.app && app.vueAppReady && app.graph && app.extensionManager")
    page.wait_for_function("'InterleaveCriticLoop' in LiteGraph.registered_node_types")
    opened(page, "tiny_world_story")
    close_up(page)
    page.evaluate(WATCH_CARDS)
    loop, first = NODE.format(LOOP), int(time.time()) % 10_000
    # The whole story takes a second or two: a page on a busy machine may look only when all is over.
    for seed in range(first, first + 5):
        page.evaluate(f"() => {{ {loop}.widgets.find(one => one.name === 'seed').value = {seed} }}")
        ran(page, FINISHED)
        wait_for_count(page, ".it-card-image:not([hidden])", 5)
        if "running" in page.evaluate("() => [...window.seenStatuses]"):
            break
    else:
        pytest.fail("no step was ever shown while it was drawn")
    assert page.locator(".it-card").count() == 6
    assert page.evaluate(f"() => {loop}.imgs ?? []") == [], "images are shown once, not twice"
    setting(host, "Comfy.ColorPalette", "dark")


def test_a_loop_without_a_generator_says_so_before_a_run(page: Any) -> None:
    opened_graph(page, story("without a generator", ["a"]))
    assert page.locator(".it-live .it-line").inner_text() == "The steps appear here during a run."
    loop = NODE.format(LOOP)
    page.evaluate(f"() => {loop}.disconnectInput({loop}.inputs.findIndex(one => one.name === 'generator'))")
    page.get_by_text("No generator is connected: only").wait_for()


def test_a_user_compares_corrects_and_resumes(page: Any, host: ComfyServer) -> None:
    replies = [verdict(False, HOSTILE, 0.25), *accepted(4)]
    prompts = [HOSTILE.split("<")[0], "a tree"]
    attempts = first_step(page, story("by hand", prompts, critic=replies, max_attempts=3))
    assert attempts.count() == 2
    assert "<script>" in page.locator(".it-prompt ins").first.text_content(timeout=60_000)
    page.evaluate(FIRST_WORD_TAKES_LONG)
    attempts.nth(0).locator("summary").click()
    attempts.nth(0).get_by_title(WRONG).click()
    attempts.nth(0).get_by_text("Better prompt").click()
    assert page.evaluate(EDITOR_IN_SIGHT)
    attempts.nth(0).locator("textarea").first.fill("a red house with a door")
    attempts.nth(0).get_by_text("Save").click()
    wait_for_count(page, ".it-editor:not([hidden])", 0)
    word = feedback_of(host, "by hand")[-1]
    assert word["accepted"] is False and word["better_prompt"] == "a red house with a door"
    page.locator(".it-compare select").nth(0).select_option("Attempt 1")
    page.locator(".it-compare select").nth(1).select_option("Attempt 2")
    slider = page.locator(".it-compare-slider")
    slider.evaluate("one => { one.value = 30; one.dispatchEvent(new Event('input')) }")
    assert "70%" in page.locator(".it-compare-over").evaluate("one => one.style.clipPath")
    before = page.locator(".it-card-image").first.get_attribute("src")
    attempts.nth(0).get_by_text("Use this attempt").click()
    page.get_by_text("Your choice for step 1 takes effect with the next run.").wait_for()
    page.get_by_text("Run again").click()
    page.locator(".it-card-state", has_text="picked by hand").first.wait_for()
    page.wait_for_selector(FINISHED)
    assert page.locator(".it-card-image").first.get_attribute("src") != before
    assert page.evaluate("() => window.hacked") is None and page.outside == []


def answered(word: str, probability: float) -> dict[str, Any]:
    """A critic's answer to one item of a checklist."""
    return {"text": word, "tokens": 1, "probability": probability}


def test_items_of_a_checklist_are_ticked_and_judged(page: Any, host: ComfyServer) -> None:
    replies = [
        verdict(True, "", 0.9),
        *(answered("Yes", 0.97), answered("No", 0.08)),
        verdict(True, "", 0.95),
        *(answered("Yes", 0.96), answered("Yes", 0.88)),
    ]
    prompts = ['a quay with three red boats and a sign "PIER"']
    graph = story("ticked", prompts, critic=replies, max_attempts=3, derive_checklist=True)
    attempts = first_step(page, graph)
    assert attempts.count() == 2, "the failed item rejected the first image"
    attempts.nth(0).locator("summary").click()
    items = attempts.nth(0).locator(".it-item")
    items.first.wait_for()
    assert [items.nth(at).inner_text().split() for at in range(2)] == [
        ["✓", "the", "text", '"PIER"', "is", "readable", "97", "%"],
        ["✗", "there", "are", "three", "red", "boats", "8", "%"],
    ]
    assert "three red boats" in attempts.nth(1).locator(".it-prompt").first.inner_text()
    untrue, pressed = "This is not true (recorded as feedback for training)", "[aria-pressed=true]"
    items.nth(1).get_by_title(untrue).click()
    wait_for_count(page, f".it-item {pressed}", 1)
    items.nth(0).get_by_title("This is true (recorded as feedback for training)").click()
    wait_for_count(page, f".it-item {pressed}", 2)
    attempts.nth(0).get_by_title(WRONG).click()
    wait_for_count(page, f".it-attempt {pressed}", 3)
    word = feedback_of(host, "ticked")[-1]
    readable = {"text": 'the text "PIER" is readable', "true": True}
    assert word["accepted"] is False
    assert word["items"] == [{"text": "there are three red boats", "true": False}, readable]
    items.nth(1).get_by_title(untrue).click()
    wait_for_count(page, f".it-item {pressed}", 1)
    assert feedback_of(host, "ticked")[-1]["items"] == [readable]


def test_an_attempt_shows_the_enhanced_prompt_below_its_own(page: Any) -> None:
    longer = "A large red house <b>by the sea</b>."
    graph = story("enhanced in the browser", ["a house"], enhancer="@enhancer")
    attempt = first_step(page, graph | {"enhancer": scripted([longer])}).first
    attempt.get_by_text("Enhanced prompt").wait_for()
    shown = [one for one in attempt.locator(".it-words p:not([hidden])").all_text_contents() if one]
    assert shown[:4] == ["Prompt used", "a house", "Enhanced prompt", longer]


# Redraws


def test_a_step_is_redrawn_with_the_users_prompt(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    request = f"redrawn in {how}"
    opened_graph(page, judged(request), how)
    ran(page, FINISHED)
    page.evaluate(TALL)
    before = made(host, request, "attempts")
    page.locator(".it-card-head").first.click()
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2
    attempts.nth(1).get_by_text("Better prompt", exact=True).click()
    attempts.nth(1).locator("textarea").first.fill(OWN)
    attempts.nth(1).get_by_label("Caption").fill("The door is green.")
    attempts.nth(1).get_by_text("Redraw with it").click()
    wait_for_count(page, ".it-attempt", 3)
    page.wait_for_selector(FINISHED)
    assert "redraw" in attempts.nth(2).inner_text() and "kept" in attempts.nth(2).inner_text()
    first, second = results(journal(host, request))
    assert first["chosen"] == 2 and first["attempts"][2]["prompt"] == OWN
    assert first["step"]["auxiliary_text"] == page.locator(".it-caption").inner_text() == "The door is green."
    assert second["attempts"][0]["source"] == first["attempts"][2]["image"], "later steps follow it"
    added = made(host, request, "attempts").keys() - before.keys()
    assert len(added) == 2, "only this step and those that depend on it"
    word = feedback_of(host, request)[-1]
    assert (word["attempt"], word["better_prompt"]) == (1, OWN), "it is feedback at the same time"
    assert clean(page)
    if how == "vue":  # rendering a graph takes long there
        assert page.evaluate(INSIDE, ".it-live")
        return
    page.get_by_text("Redraw this step").click()
    wait_for_count(page, ".it-attempt", 4)
    page.wait_for_selector(FINISHED)
    again = results(journal(host, request))[0]
    assert again["chosen"] == 3 and again["attempts"][3]["prompt"] == OWN
    assert again["attempts"][3]["seed"] != again["attempts"][2]["seed"]


def test_the_running_loop_uses_the_prompt_for_its_next_attempt(page: Any, host: ComfyServer) -> None:
    request = "redrawn while it is drawn"
    opened_graph(page, changed(judged(request), "critic", seconds_per_word=0.4))
    page.evaluate(STARTED)
    wait_for_count(page, ".it-attempt", 1)
    page.evaluate(TALL)
    only = page.locator(".it-attempt").first
    only.get_by_text("Better prompt", exact=True).click()
    only.locator("textarea").first.fill(OWN)
    only.get_by_text("Redraw with it").click()
    only.get_by_text("This is the next attempt.").wait_for()
    page.wait_for_selector(FINISHED)
    first = results(journal(host, request))[0]
    assert [one["prompt"] for one in first["attempts"]] == ["a house", OWN] and first["chosen"] == 1


def test_images_open_in_full_size(canvas: tuple[Any, str]) -> None:
    page, how = canvas
    opened_graph(page, judged(f"full size in {how}"), how)
    ran(page, FINISHED)
    page.evaluate(TALL)
    wait_for_count(page, ".it-card-image:not([hidden])", 2)
    page.wait_for_timeout(500)
    shown = page.evaluate("() => [...document.querySelectorAll('.it-live img[src]')].map(one => one.src)")
    assert shown and all("/thumbnail?" in url for url in shown), "no full-size image before it is opened"
    page.get_by_role("button", name="Step 1 in full size").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Image in full size")
    title = dialog.locator(".it-lightbox-title")
    page.wait_for_function("() => document.querySelector('.it-lightbox-image').naturalWidth === 192")
    assert "/view?" in page.locator(".it-lightbox-image").get_attribute("src")
    first, other = "1. Step 1 · Attempt 1 · rejected", "2. Step 2 · Attempt 1 · accepted · kept"
    chosen = "1. Step 1 · Attempt 2 · accepted · kept"
    assert title.inner_text() == chosen
    for key, words in {"ArrowLeft": first, "ArrowDown": other, "ArrowRight": first, "End": other}.items():
        page.keyboard.press(key)
        assert title.inner_text() == words, key
    page.keyboard.press("ArrowUp")
    assert title.inner_text() == chosen
    dialog.get_by_role("button", name="Compare two images").click()
    slider = dialog.get_by_role("slider", name="Position of the dividing line")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "60 %"
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == "Step 1 in full size"
    page.locator(".it-attempt").nth(1).get_by_role("button", name="Attempt 2 in full size").click()
    assert dialog.is_visible()
    page.keyboard.press("Escape")
    assert clean(page)


def test_only_a_painted_area_is_generated_again(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    opened_graph(page, judged(request := f"painted in {how}"), how)
    ran(page, FINISHED)
    page.evaluate(TALL)
    page.get_by_role("button", name="Step 2 in full size").click()
    page.get_by_title("Paint a mask: generate only a part of this image again").click()
    box = page.locator(".it-paint-canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 20, y)
    page.mouse.down()
    page.mouse.move(x + 20, y, steps=3)
    page.mouse.up()
    screenshot(page, f"painted-{how}")
    page.get_by_role("button", name="Redraw only here").click()
    page.locator(".it-card-head").nth(1).click()
    wait_for_count(page, ".it-attempt", 2)
    page.wait_for_selector(FINISHED)
    folder = journal(host, request)
    attempts = results(folder)[1]["attempts"]
    before, after = (Image.open(folder / f"pictures/{one['image']}.png") for one in attempts)
    left, top, right, bottom = ImageChops.difference(before, after).getbbox()
    assert 80 < left < right < 112 and 52 < top < bottom < 76 and clean(page)


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
          - text: /Attempt 1 rejected · 20 % likely right/
          - button "Attempt 1 in full size"
      - listitem:
        - group "Attempt 2":
          - text: /Attempt 2 accepted · 90 % likely right/
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
    first_step(page, judged("for a screen reader"))
    page.locator(".it-attempt summary").nth(0).click()
    view = page.get_by_role("region", name="Steps of the story")
    sync_api.expect(view).to_match_aria_snapshot(TREE)
    assert page.locator(".it-card-head").first.get_attribute("aria-current") == "step"
    values = [page.locator(".it-bar").get_attribute(f"aria-value{name}") for name in ("min", "now", "max")]
    assert values == ["0", "100", "100"]


# Attempt Start and Attempt End

INTO_ONE_NODE = """() => {
  const inside = app.graph._nodes.filter(node => /Try(Open|Close)|Paint|Tint/.test(node.type));
  const { node } = app.graph.convertToSubgraph(new Set(inside));
  return Object.keys(app.graph._nodes.find(one => one.id === node.id).subgraph._nodes);
}"""
COLUMNS = (("agent", "loader"), ("open",), ("paint",), ("tint",), ("close",))


def opened_pair(page: Any, graph: Graph) -> None:
    """Open a pair, its nodes apart, Attempt End close up."""
    opened_graph(page, graph, kind=CLOSE)
    apart = """async columns => {
      const graph = app.graph.serialize();
      for (const node of graph.nodes) node.pos = [2420, 330 * graph.nodes.indexOf(node)];
      columns.forEach((ids, column) => ids.forEach((id, row) => {
        const node = graph.nodes.find(one => String(one.id) === id);
        node.pos = [column * 460, row * 330];
        if (id === 'close') node.size = [420, 720];
      }));
      await app.loadGraphData(graph);
    }"""
    page.evaluate(apart, COLUMNS)
    page.wait_for_function(f"() => {NODE.format(CLOSE)}")
    page.wait_for_timeout(500)
    close_up(page, CLOSE, 600, 120)


def test_a_pair_is_followed_corrected_and_continued(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, how = canvas
    request = f"pair in {how}"
    replies = [verdict(False, f"{request} with a door", 0.25), verdict(True, "", 0.9)] * 2
    opened_pair(page, pair(request, replies=replies))
    ran(page, FINISHED)
    attempts = page.locator(".it-attempt")
    assert attempts.count() == 2 and page.locator(".it-card").count() == 1
    assert page.locator(".it-prompt ins").first.text_content().strip() == "with a door"
    painted = ran_in(host).count("paint")
    attempts.nth(0).locator("summary").click()
    attempts.nth(0).get_by_title(WRONG).click()
    attempts.nth(0).get_by_text("Use this attempt").click()
    page.get_by_text("Your choice for step 1 takes effect with the next run.").wait_for()
    assert feedback_of(host, request)[0]["accepted"] is False
    ran(page, FINISHED)
    page.get_by_text("Attempt 1 picked by hand").first.wait_for()
    assert ran_in(host).count("paint") == painted
    # Opened again it shows the same: from the server first, and from the run's folder when it forgot.
    for again in (REOPENED, FORGOTTEN):
        page.evaluate(again)
        page.wait_for_selector(FINISHED)
        page.get_by_text("Attempt 1 picked by hand").first.wait_for()
        assert page.locator(".it-attempt").count() == 2
    assert clean(page)


def test_a_pair_in_a_subgraph_runs(page: Any) -> None:
    opened_pair(page, pair("pair in a subgraph", 3))
    assert len(page.evaluate(INTO_ONE_NODE)) == 4
    for _ in range(2):
        ran(page)
    assert page.faults == []
