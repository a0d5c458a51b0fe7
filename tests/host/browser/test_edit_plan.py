"""Edit Plan in a real browser: what its list writes and reads, the cast, and the rows next to their run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from interleave_thinker import Step
from interleave_thinker.backend.core.types import CastMember, ChecklistItem, StepImage, StepLora, StepSettings
from interleave_thinker.backend.story.plan_editor.edited_plan import EditedPlan, EditedStep
from interleave_thinker.backend.story.plan_editor.json_form import plan_object
from interleave_thinker.backend.story.plan_editor.merge import read_edits
from interleave_thinker.backend.story.plan_editor.outline import write_outline

from ..graphs.stories import (
    TINY_WORLD,
    TRAITS,
    Graph,
    accepted,
    changed,
    node,
    reply,
    scripted,
    story,
    verdict,
    with_cast,
)
from ..server.comfy_server import ComfyServer
from ..server.runs import journal, results, trajectory
from .page import (
    INSIDE,
    LAID_OUT,
    PLANNED,
    SET_TEXT,
    STORIES_TAB,
    TEXT,
    keeps_progress,
    ran,
    screenshot,
    sent,
    wait_for_count,
)  # fmt: skip

SET_REPLIES = """replies => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveTestAgent');
  node.widgets[0].value = replies;
}"""
WRITE = """async ([plans]) => {
  const {planText} = await import('/extensions/interleave-thinker/plan_outline.js');
  return plans.map(([steps, from, style, cast]) =>
    [planText(steps, from, false, style, cast), planText(steps, from, true, style, cast)]);
}"""
PROMPTS = (
    "a wide meadow at dawn with a red house in the middle, soft light",
    "add a yellow sun",
    "make it night",
)

SCROLLED = "() => document.querySelector('.itp-list').scrollTop"


def filled(page: Any, request: str, *prompts: str, thought: str = "") -> Any:
    """Put agent, Planner and Edit Plan on the page, and queue them once."""
    page.evaluate(PLANNED, [json.dumps([reply(*prompts, thought=thought)]), request])
    ran(page)
    wait_for_count(page, ".itp-step", len(prompts))
    return page


@pytest.fixture
def planned(page: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    yield filled(page, "in a browser", *PROMPTS, thought=request.node.name)


def steps(page: Any) -> list[EditedStep]:
    edits = read_edits(page.evaluate(TEXT))
    return list(edits.steps) if edits else []


def prompts(page: Any) -> list[str | None]:
    return [one.step.prompt for one in steps(page)]


def row(page: Any, number: int) -> Any:
    return page.locator(".itp-step").nth(number - 1)


def plan_of(text: str) -> EditedPlan:
    """Return a plan with this text in every place."""
    images = StepSettings(mask=StepImage(name=text or "a"), reference=StepImage(name="b c"))
    numbers = StepSettings(source=3, seed=2**48, tries=1, denoise=1.0, negative=text)
    own = {"size": "96x64", "lora": StepLora(name="styles/ink.safetensors"), "lora_strength": -0.5}
    checklist = (
        ChecklistItem(text="two boats", kind="count"),
        ChecklistItem(text="two boats", kind="place"),
        ChecklistItem(text=f"[color] b{text}", kind="other"),
    )
    written = (
        Step(number=3, name=text, instruction=text, prompt="p", auxiliary_text=text),
        Step(number=7, prompt=text or "p", settings=numbers),
        Step(number=8, prompt="p", settings=images),
        Step(number=9, prompt="q", settings=StepSettings(source="text", denoise=0.35, **own)),
        Step(number=10, prompt="q", cast=("Mia", "Lamp [locked]"), facts=("a", f"b{text}")),
        Step(number=11, prompt="q", cast=(), checklist=checklist),
    )
    mia = CastMember(name="Mia", traits=("red coat", f"x{text}"), images=(StepImage(name=text or "a"),))
    return EditedPlan(
        steps=tuple(EditedStep(step=step, locked=step.number == 3) for step in written),
        made_from=("0123abcd",) if text else (),
        style=text,
        cast=(mia, CastMember(name="Lamp [locked]", kind="prop")),
    )


def test_the_browser_writes_outlines_as_the_server_does(page: Any) -> None:
    texts = [
        "", " edge", "a\nb\n", "\n", '\\"q"', "1. a", "draw: x", "[locked]", "x [LOCKED]", "\x07", "日本",
        "😀",
        "\u2028", "| a\n\n| b",
    ]  # fmt: skip
    plans = [plan_of(text) for text in texts]
    objects = [plan_object(plan) for plan in plans]
    given = [
        [one["execution_plan"], list(plan.made_from), plan.style, one["cast"]]
        for plan, one in zip(plans, objects, strict=True)
    ]
    for plan, (outline, as_json) in zip(plans, page.evaluate(WRITE, [given]), strict=True):
        assert read_edits(outline) == plan == read_edits(as_json)
        assert outline == write_outline(plan)


def test_the_planners_plan_is_changed_moved_locked_and_deleted(planned: Any) -> None:
    page = planned
    assert page.evaluate(TEXT) == ""
    if keeps_progress(page):
        page.get_by_text("3 steps").wait_for()
    row(page, 2).locator("textarea").first.fill("add a pale moon")
    assert prompts(page) == [PROMPTS[0], "add a pale moon", PROMPTS[2]]
    row(page, 3).get_by_label("Lock").click()
    scrolled = page.evaluate(SCROLLED)
    row(page, 3).get_by_label("Move up").click()
    assert page.evaluate(SCROLLED) == scrolled > 0, "the moved step stays in sight"
    assert prompts(page) == [PROMPTS[0], PROMPTS[2], "add a pale moon"]
    assert [(one.step.number, one.locked) for one in steps(page)] == [(1, False), (2, True), (3, False)]
    row(page, 1).get_by_label("Delete").click()
    assert prompts(page) == [PROMPTS[2], "add a pale moon"]
    page.get_by_role("button", name="Undo").click()
    wait_for_count(page, ".itp-step", 3)
    page.get_by_role("button", name="Add step").click()
    row(page, 4).locator("textarea").nth(1).fill("The end.")
    assert steps(page)[3].step == Step(number=4, auxiliary_text="The end.")
    output = sent(page)
    (edit,) = [one for one in output.values() if one["class_type"] == "InterleaveEditPlan"]
    assert edit["inputs"]["edits"] == page.evaluate(TEXT) and "steps" not in edit["inputs"]
    assert [key for one in output.values() for key in one["inputs"] if key.startswith("$$")] == []
    ran(page)  # the scripted agent has no second reply
    # A saved workflow brings its edits back.
    row(page, 1).get_by_placeholder("Name").fill("Kept")
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize(), true, true)")
    page.wait_for_function("() => document.querySelector('.itp-step input')?.value === 'Kept'")
    assert steps(page)[0].step.name == "Kept"


def test_a_step_has_its_own_settings(planned: Any) -> None:
    page = planned
    toggle = row(page, 3).get_by_label("Settings of this step")
    assert toggle.get_attribute("aria-expanded") == "false"
    toggle.focus()
    page.keyboard.press("Enter")
    assert toggle.get_attribute("aria-expanded") == "true"
    choice = row(page, 3).get_by_label("Edits")
    offered = [text.strip() for text in choice.locator("option").all_inner_texts()]
    assert offered[-2:] == ["step 1: Step 1", "step 2: Step 2"]
    choice.select_option("1")
    row(page, 3).get_by_role("spinbutton", name="Seed").fill("77")
    for attempts in ("2", "0"):  # 0 is not a valid number of attempts, so nothing is written
        row(page, 3).get_by_role("spinbutton", name="Attempts").fill(attempts)
    page.locator(".itp-style").fill("Ink on paper")
    assert steps(page)[2].step.settings == StepSettings(source=1, seed=77, tries=2)
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None and edits.style == "Ink on paper"
    toggle.click()
    assert "Seed: 77" in row(page, 3).locator(".itp-summary").inner_text()
    row(page, 3).get_by_label("Move up").click()
    row(page, 1).get_by_label("Delete").click()
    assert [one.step.settings.source for one in steps(page)] == [1, None]
    page.get_by_role("button", name="Undo").click()
    wait_for_count(page, ".itp-step", 3)
    row(page, 2).get_by_label("Settings of this step").click()
    row(page, 2).get_by_role("spinbutton", name="Seed").fill("")
    assert steps(page)[1].step.settings == StepSettings(source=1, tries=2)
    ran(page)


def test_a_step_has_its_own_size_and_lora(planned: Any, host: ComfyServer) -> None:
    page, second = planned, row(planned, 2)
    file = host.base / "models" / "loras" / "ink" / "wash.safetensors"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")
    try:
        toggle = second.get_by_label("Settings of this step")
        toggle.click()
        size, lora = second.get_by_label("Size", exact=True), second.get_by_label("LoRA", exact=True)
        strength = second.get_by_label("LoRA strength")
        assert strength.is_disabled()
        for written in ("96", "96x9", "96x9000"):
            size.fill(written)
            assert "itp-wrong" in size.get_attribute("class"), written
        size.fill("128 × 64")
        assert "itp-wrong" not in (size.get_attribute("class") or "")
        lora.focus()
        page.wait_for_function(
            "() => [...document.querySelectorAll('#itp-step-loras option')]"
            ".some(one => one.value === 'ink/wash.safetensors')"
        )
        lora.fill("ink/wish.safetensors")
        page.get_by_title("This LoRA is not in models/loras.").wait_for()
        lora.fill("ink/wash.safetensors")
        page.wait_for_function("() => !document.querySelector('.itp-field input.itp-wrong')")
        strength.fill("0.8")
        named = StepLora(name="ink/wash.safetensors")
        assert steps(page)[1].step.settings == StepSettings(size="128x64", lora=named, lora_strength=0.8)
        toggle.click()
        summary = second.locator(".itp-summary").inner_text()
        assert summary == "Size: 128x64 · LoRA: ink/wash.safetensors · LoRA strength: 0.8"
        toggle.click()
        strength.fill("")
        assert steps(page)[1].step.settings == StepSettings(size="128x64", lora=named)
        strength.fill("0.5")
        lora.fill("")
        assert strength.is_disabled() and strength.input_value() == ""
        assert steps(page)[1].step.settings == StepSettings(size="128x64"), "no strength without a LoRA"
    finally:
        file.unlink()


def test_a_new_plan_is_shown_and_applied_on_request(planned: Any) -> None:
    page = planned
    row(page, 2).locator("textarea").first.fill("by hand")
    row(page, 3).get_by_label("Lock").click()
    before = page.evaluate(TEXT)
    page.evaluate(SET_REPLIES, json.dumps([reply("x", "y", "z", "w")]))
    ran(page)
    assert page.evaluate(TEXT) == before
    page.get_by_text("The planner wrote a new plan").first.wait_for()
    page.get_by_role("button", name="Show new steps").click()
    assert prompts(page) == ["x", "by hand", PROMPTS[2], "w"]
    page.get_by_role("button", name="Planner's plan").click()
    assert prompts(page) == ["x", "y", PROMPTS[2], "w"]


def test_the_list_is_edited_as_text_and_a_typing_error_is_shown_at_once(canvas: tuple[Any, str]) -> None:
    page, how = canvas
    filled(page, f"typed in {how}", "a house", "a tree", thought=how)
    assert how == "canvas" or page.evaluate(INSIDE, ".itp-plan")
    row(page, 1).locator("textarea").first.fill("a red house")
    page.get_by_role("button", name="Edit as text").click()
    assert "draw: a red house" in page.evaluate(TEXT)
    page.evaluate(SET_TEXT, "1. House\n   drow: a house")
    page.get_by_text("Line 2, step 1: 'drow' is not a field").wait_for()
    page.evaluate(SET_TEXT, "1. House\n   draw: a house")
    page.get_by_role("button", name="As JSON").click()
    assert json.loads(page.evaluate(TEXT))["execution_plan"][0]["prompt"] == "a house"
    page.get_by_role("button", name="Edit as list").click()
    wait_for_count(page, ".itp-step", 1)
    row(page, 1).get_by_placeholder("Name").fill("Home")
    assert json.loads(page.evaluate(TEXT))["execution_plan"][0]["step_name"] == "Home"


def test_the_plan_editor_is_readable_in_both_themes(planned: Any) -> None:
    page = planned
    row(page, 2).get_by_label("Lock").click()
    page.get_by_role("button", name="Add step").click()
    for theme in ("light", "dark"):
        page.evaluate("name => app.extensionManager.setting.set('Comfy.ColorPalette', name)", theme)
        page.wait_for_timeout(800)
        screenshot(page, f"edit-plan-{theme}")
        colors = page.evaluate(
            "() => ['.itp-step textarea', '.itp-step', '.itp-plan button'].map(one => getComputedStyle("
            "document.querySelector(one))).map(style => [style.color, style.backgroundColor])"
        )
        heights = page.evaluate(
            "() => [...document.querySelectorAll('.itp-plan button')].map(one => one.offsetHeight)"
            ".filter(Boolean)"
        )
        assert len(heights) > 12 and min(heights) >= 18, heights
        for text, ground in colors:
            assert contrast(text, ground) > 4.5, (theme, colors)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two CSS colors (WCAG 2.1)."""

    def luminance(color: str) -> float:
        parts = [float(part) for part in color[color.index("(") + 1 : -1].replace(",", " ").split()[:3]]
        linear = [
            part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_findings_of_the_plan_check_are_shown_under_their_steps(page: Any) -> None:
    filled(page, "Draw a red boat on a lake.", *["a red boat on a lake"] * 3)
    shown = page.locator(".itp-finding")
    shown.nth(1).wait_for()
    assert shown.all_inner_texts() == [
        "The prompt is the same as in step 1.",
        "The prompt is the same as in step 2.",
    ]
    box = row(page, 2).locator("textarea").first
    box.fill("Make the boat blue")
    wait_for_count(page, ".itp-finding", 0)
    assert box.evaluate("box => box === document.activeElement"), "the row is not built again while typing"
    ran(page)
    assert shown.count() == 0, "the node's plan is checked like the edited text"


# The cast

SET_NAME = """([old, name]) => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveCast'
    && node.widgets.find(widget => widget.name === 'name').value === old);
  const widget = node.widgets.find(widget => widget.name === 'name');
  widget.value = name;
  widget.callback?.(name);
}"""
BYPASS = """async name => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveCast'
    && node.widgets.find(widget => widget.name === 'name').value === name);
  node.mode = 4;
  node.onConnectionsChange?.();
  await new Promise(resolve => setTimeout(resolve, 500));
}"""
PRESENT = (
    "[...document.querySelectorAll('.itp-step')].map(step => "
    "[...step.querySelectorAll('.itp-chip[aria-pressed=true]')].map(one => one.textContent))"
)
NAME_SHOWN = "name => document.querySelector('.itp-member-name')?.textContent === name"
HOSTILE = '<img src=x onerror="window.hacked = 1">'
EDITS = """1. Evening
   draw: Mia looks out of the window

2. On the way
   draw: she walks to the mill

3. Night
   draw: the empty mill without Mia, a picture of her on the wall"""
CAST_PLACES = [
    ["LoadImage", "", -820, 0], ["InterleaveCast", "Mia", -440, 0, 380, 360],
    ["InterleaveCast", "lantern", -440, 420, 380, 360], ["InterleaveEditPlan", "", 0, 0, 560, 820],
]  # fmt: skip


def with_connected_cast(page: Any, host: ComfyServer, request: str) -> str:
    """Open a story written by hand whose cast is two chained nodes; returns its photo."""
    image = Image.new("RGB", (160, 200), "#f3d9c0")
    ImageDraw.Draw(image).ellipse((40, 50, 120, 150), fill="#c0402f")
    photo = host.put_input(image, f"{request}.png")
    graph = story(request, ["x"], generator=TINY_WORLD)
    edit = node("InterleaveEditPlan", edits=EDITS, request=request)
    graph = changed(graph | {"edit": edit}, "loop", plan="@edit")
    kept = {key: graph[key] for key in ("generator", "loop", "edit")}
    page.evaluate(LAID_OUT, [with_cast(kept, photo), CAST_PLACES, 0.8, 920, 130])
    wait_for_count(page, ".itp-step", 3)
    return photo


def wait_for_cast(page: Any, expected: list[list[str]]) -> None:
    """Wait until the server has found who is in each step."""
    wanted = json.dumps(expected, separators=(",", ":"), ensure_ascii=False)
    page.wait_for_function(f"wanted => JSON.stringify({PRESENT}) === wanted", arg=wanted)


def table(page: Any) -> list[str]:
    return page.locator(".itp-member").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('[role=cell]')]"
        ".map(one => one.textContent).join(' | '))"
    )


def test_the_cast_is_shown_and_chosen_for_each_step(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, kind = canvas
    with_connected_cast(page, host, f"Cast {kind}")
    traits = "girl of seven, short black hair, red coat"
    assert table(page) == [f"Mia | character | {traits}", "lantern | prop | brass"]
    page.wait_for_function("() => document.querySelector('img.itp-member-image')?.naturalWidth > 0")
    wait_for_cast(page, [["Mia"], [], []])
    assert page.locator(".itp-chip.itp-proposed").all_inner_texts() == ["Mia"], "found, not listed"
    first, second, third = (row(page, number) for number in (1, 2, 3))
    for step, name in ((second, "Mia"), (second, "lantern"), (first, "Mia")):
        step.get_by_role("button", name=name, exact=True).click()
    assert page.evaluate(f"() => {PRESENT}") == [[], ["Mia", "lantern"], []]
    assert [one.step.cast for one in steps(page)] == [(), ("Mia", "lantern"), None]
    first.get_by_role("button", name="Members that the prompt names").click()
    assert page.evaluate(f"() => {PRESENT}")[0] == ["Mia"]
    third.locator("textarea").first.fill("@lantern in front of the mill, and Mia")
    wait_for_cast(page, [["Mia"], ["Mia", "lantern"], ["lantern"]])
    assert not third.locator(".itp-proposed").count(), "a mark is a list"
    third.locator("textarea").first.fill("the empty mill without Mia")
    wait_for_cast(page, [["Mia"], ["Mia", "lantern"], []])
    page.wait_for_timeout(600)
    assert not page.locator(".itp-fault").count(), "the server accepts names of the connected cast"
    ran(page, settle_ms=1100)
    page.evaluate("() => { document.querySelector('.itp-chip').dataset.built = 'before' }")
    ran(page)
    assert page.locator(".itp-chip").first.get_attribute("data-built"), "a run does not replace the buttons"
    told = [
        one["attempts"][0].get("cast", {}).get("text", "") for one in results(journal(host, f"cast-{kind}"))
    ]
    assert told == [
        f"Mia: {traits}. Mia appears exactly once.",
        f"Mia: {traits}. lantern: brass. Exactly 1 character: Mia.",
        "",
    ]
    page.evaluate(SET_NAME, ["Mia", "Ida"])
    page.wait_for_function(NAME_SHOWN, arg="Ida")
    assert page.evaluate(f"() => {PRESENT}") == [[], ["lantern", "Mia"], []]
    assert second.locator(".itp-chip.itp-wrong").inner_text() == "Mia", "no member has this name now"


LAST_MIA = """traits => {
  const of = (node, name) => node.widgets.find(widget => widget.name === name);
  const node = app.graph._nodes.filter(one => of(one, 'name')?.value === 'Mia').at(-1);
  if (traits) of(node, 'traits').value = traits;
  const loader = node.getInputNode(node.inputs.findIndex(input => input.name === 'images.image0'));
  return [of(node, 'kind').value, of(node, 'traits').value, loader && of(loader, 'image').value];
}"""
KINDS = "() => app.graph._nodes.map(node => node.type)"
NEW_MEMBER = """() => {
  const node = LiteGraph.createNode('InterleaveCast');
  app.graph.add(node);
  node.widgets.find(widget => widget.name === 'interleave_library').callback();
}"""


def test_a_story_and_its_cast_are_used_again(canvas: tuple[Any, str], host: ComfyServer) -> None:
    page, kind = canvas
    with_connected_cast(page, host, f"Again {kind}")
    ran(page)
    folder = journal(host, f"again-{kind}")
    before = results(folder)
    page.evaluate(SET_TEXT, "1. Another story\n   draw: the sea")
    kinds = page.evaluate(KINDS)
    page.locator(STORIES_TAB).first.click()
    page.locator(".it-story").first.get_by_text("Vary…", exact=True).click()
    page.locator(".it-story").first.get_by_text(f"Again {kind} (2)").wait_for()
    assert page.evaluate(KINDS) == kinds, "no second plan or cast"
    ran(page)
    copied = journal(host, f"again-{kind}-2")
    assert results(copied) == before, "nothing is generated again"
    screenshot(page, f"again-{kind}")
    page.evaluate(LAST_MIA, "silver")
    ran(page)
    assert results(copied) != before and results(folder) == before
    page.evaluate(NEW_MEMBER)
    page.get_by_placeholder("Search characters").fill("silver")
    screenshot(page, f"library-{kind}")
    page.get_by_placeholder("Search characters").fill("mia red coat")
    page.locator(".it-setting:visible").first.click()
    page.wait_for_function(f"() => ({LAST_MIA})()[2]")
    member, traits, image = page.evaluate(LAST_MIA)
    assert (member, traits) == ("character", TRAITS)
    assert image.startswith("Mia-") and (host.base / "input" / image).is_file()


def test_a_changed_cast_is_checked_again(page: Any, host: ComfyServer) -> None:
    with_connected_cast(page, host, "Cast checked")
    page.evaluate(SET_NAME, ["Mia", "Mia, Tom"])
    fault = page.locator(".itp-fault")
    fault.wait_for()
    assert fault.inner_text().startswith("The cast, member 'Mia, Tom', name: a name is one line of text")
    page.evaluate(SET_NAME, ["Mia, Tom", "Mia"])
    fault.wait_for(state="detached")
    wait_for_cast(page, [["Mia"], [], []])
    page.evaluate(SET_NAME, ["Mia", HOSTILE])
    page.wait_for_function(NAME_SHOWN, arg=HOSTILE)
    assert page.locator(".itp-chip").first.inner_text() == HOSTILE
    assert page.evaluate("() => window.hacked") is None, "a name is text, never markup"
    page.evaluate(SET_NAME, [HOSTILE, "Mia"])
    page.evaluate(BYPASS, "lantern")
    assert [one.split(" | ")[0] for one in table(page)] == ["Mia"], "a bypassed node adds no member"
    page.evaluate(BYPASS, "Mia")
    wait_for_count(page, ".itp-member", 0)


def test_the_cast_of_the_text_is_in_the_table_too(page: Any, host: ComfyServer) -> None:
    photo = with_connected_cast(page, host, "Cast of both")
    own = f"character: mia\n   trait: blue hat\n\nplace: mill\n   image: {photo}\n\n{EDITS}"
    page.evaluate(SET_TEXT, own)
    wait_for_count(page, ".itp-member", 3)
    assert table(page) == ["mia | character | blue hat", "lantern | prop | brass", "mill | place | "]
    wait_for_cast(page, [["mia"], ["mill"], ["mill"]])
    row(page, 3).get_by_role("button", name="lantern", exact=True).click()
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None and [member.name for member in edits.cast] == ["mia", "mill"]
    assert edits.steps[2].step.cast == ("mill", "lantern")


# Rows next to their run

SIZE = (192, 128)
ROW_PLACES = [["InterleaveEditPlan", "", 0, 0, 520, 820], ["InterleaveCriticLoop", "", 560, 0, 520, 1180]]
COMPARED = """() => {
  const place = selector => document.querySelector(selector).getBoundingClientRect();
  const [frame, detail] = [place('.it-compare-frame'), place('.it-detail')];
  return frame.height > 80 && frame.top >= detail.top && frame.bottom <= detail.bottom + 1;
}"""


def with_rows(page: Any, request: str) -> None:
    """Open a manual story of two steps; the first is accepted at attempt 2."""
    critic = scripted([verdict(False, "a house, larger", 0.2), *accepted(8)], request)
    graph: Graph = story(request, ["x"], SIZE, critic=critic, max_attempts=3)
    edits = "1. House\n   draw: a house\n   text: Alone.\n\n2. Tree\n   draw: add a tree\n   text: Later."
    edit = node("InterleaveEditPlan", edits=edits, request=request)
    graph = changed(graph | {"edit": edit}, "loop", plan="@edit")
    for name in ("plan", "report", "board", "out"):
        del graph[name]
    page.evaluate(LAID_OUT, [graph, ROW_PLACES, 0.85, 500, 130])
    wait_for_count(page, ".itp-step", 2)


def test_every_row_has_the_image_and_the_state_of_its_step(canvas: tuple[Any, str]) -> None:
    page, kind = canvas
    with_rows(page, f"Rows {kind}")
    states = page.locator(".itp-state")
    if not page.locator(".it-card").count():  # a host that names no workflow recalls the node's last run
        assert states.all_inner_texts() == ["planned", "planned"]
        assert page.locator(".itp-picture:visible").count() == 0
    ran(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.itp-picture img')].every(one => one.naturalWidth > 0)"
    )
    assert states.all_inner_texts() == ["Accepted at attempt 2", "Accepted at attempt 1"]
    page.locator(".it-card-head").first.click()
    wait_for_count(page, ".it-attempt", 2)
    page.wait_for_function(COMPARED)  # the comparison is not cut off
    page.get_by_label("Step 1 in full size").first.click()
    page.locator(".it-lightbox[open]").wait_for()
    page.keyboard.press("Escape")
    first = row(page, 1).locator("textarea").first
    first.click()
    first.press("End")
    first.type(", green")
    assert states.all_inner_texts() == ["changed since it was generated", "Accepted at attempt 1"]
    assert first.evaluate("one => document.activeElement === one"), "typing was interrupted"
    # Reopened, the rows find the run again.
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize())")
    wait_for_count(page, ".itp-picture:not([hidden])", 2)


def test_a_mask_and_a_reference(canvas: tuple[Any, str], host: ComfyServer, tmp_path: Path) -> None:
    page, kind = canvas
    mask, left = Image.new("L", SIZE, 0), f"left {kind}.png"
    mask.paste(255, (0, 0, 96, 128))
    mask.save(tmp_path / left)
    fox = host.put_input(Image.new("RGB", (64, 64), "orange"), f"fox {kind}.png")
    with_rows(page, f"Images {kind}")
    second = row(page, 2)
    second.get_by_label("Settings of this step").click()
    upload = second.get_by_label("Mask", exact=True).locator("xpath=..").locator("input[type=file]")
    upload.set_input_files(tmp_path / left)
    wait_for_count(page, ".itp-image:not([hidden])", 1)
    reference = second.get_by_label("Reference", exact=True)
    reference.focus()
    page.wait_for_function("() => document.querySelectorAll('#itp-step-images option').length > 1")
    offered = page.locator("#itp-step-images option").evaluate_all("all => all.map(one => one.value)")
    assert {fox, left} <= set(offered)
    reference.fill("nowhere.png")
    page.locator(".itp-image-control .itp-wrong").wait_for()
    reference.fill(fox)
    wait_for_count(page, ".itp-image:not([hidden])", 2)
    settings = steps(page)[1].step.settings
    assert settings.mask == StepImage(name=left) and settings.reference == StepImage(name=fox)
    ran(page)
    folder = journal(host, f"images-{kind}")
    drawn = trajectory(folder)["plan"]["steps"][1]["settings"]
    assert drawn["mask"]["name"] == left
    assert (folder / "pictures" / f"{drawn['reference']['picture']}.png").exists()
    second.get_by_role("button", name="Remove it").first.click()
    assert "mask:" not in page.evaluate(TEXT)
