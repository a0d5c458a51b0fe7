"""The list of Edit Plan in a real browser: what its buttons write, what it reads, and both themes.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interleave_thinker.backend.core.types import (
    CastMember,
    ChecklistItem,
    Step,
    StepImage,
    StepLora,
    StepSettings,
)
from interleave_thinker.backend.story.plan_editor.edited_plan import EditedPlan, EditedStep
from interleave_thinker.backend.story.plan_editor.json_form import plan_object
from interleave_thinker.backend.story.plan_editor.merge import read_edits
from interleave_thinker.backend.story.plan_editor.outline import write_outline

from ..graphs.replies import reply
from ..server.comfy_server import ComfyServer
from .edit_plan_page import PLANNED, SET_TEXT, TEXT
from .page import keeps_progress, photographed, ran

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


@pytest.fixture
def planned(page: Any, host: ComfyServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page with agent, Planner and Edit Plan, queued once."""
    page.evaluate(PLANNED, [json.dumps([reply(*PROMPTS, thought=request.node.name)]), "in a browser"])
    ran(page)
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    yield page


def steps(page: Any) -> list[EditedStep]:
    edits = read_edits(page.evaluate(TEXT))
    return list(edits.steps) if edits else []


def prompts(page: Any) -> list[str | None]:
    return [one.step.prompt for one in steps(page)]


def row(page: Any, number: int) -> Any:
    return page.locator(".itp-step").nth(number - 1)


def test_the_browser_writes_outlines_as_the_server_does(page: Any) -> None:
    texts = [
        "",
        " edge",
        "a\nb\n",
        "\n",
        '\\"q"',
        "1. a",
        "draw: x",
        "[locked]",
        "x [LOCKED]",
        "\x07",
        "日本",
        "😀",
        "\u2028",
        "| a\n\n| b",
    ]
    plans = [
        EditedPlan(
            steps=(
                EditedStep(
                    step=Step(number=3, name=text, instruction=text, prompt="p", auxiliary_text=text),
                    locked=True,
                ),
                EditedStep(
                    step=Step(
                        number=7,
                        prompt=text or "p",
                        settings=StepSettings(source=3, seed=2**48, tries=1, denoise=1.0, negative=text),
                    )
                ),
                EditedStep(
                    step=Step(
                        number=8,
                        prompt="p",
                        settings=StepSettings(
                            mask=StepImage(name=text or "a"), reference=StepImage(name="b c")
                        ),
                    )
                ),
                EditedStep(
                    step=Step(
                        number=9,
                        prompt="q",
                        settings=StepSettings(
                            source="text",
                            denoise=0.35,
                            size="96x64",
                            lora=StepLora(name="styles/ink.safetensors"),
                            lora_strength=-0.5,
                        ),
                    )
                ),
                EditedStep(
                    step=Step(number=10, prompt="q", cast=("Mia", "Lamp [locked]"), facts=("a", f"b{text}"))
                ),
                EditedStep(
                    step=Step(
                        number=11,
                        prompt="q",
                        cast=(),
                        checklist=(
                            ChecklistItem(text="two boats", kind="count"),
                            ChecklistItem(text="two boats", kind="place"),
                            ChecklistItem(text=f"[color] b{text}", kind="other"),
                        ),
                    )
                ),
            ),
            made_from=("0123abcd",) if text else (),
            style=text,
            cast=(
                CastMember(
                    name="Mia", traits=("red coat", f"x{text}"), images=(StepImage(name=text or "a"),)
                ),
                CastMember(name="Lamp [locked]", kind="prop"),
            ),
        )
        for text in texts
    ]
    objects = [plan_object(plan) for plan in plans]
    sent = [
        [one["execution_plan"], list(plan.made_from), plan.style, one["cast"]]
        for plan, one in zip(plans, objects, strict=True)
    ]
    for plan, (outline, as_json) in zip(plans, page.evaluate(WRITE, [sent]), strict=True):
        assert read_edits(outline) == plan == read_edits(as_json)
        assert outline == write_outline(plan)


def test_the_planners_plan_is_changed_moved_locked_and_deleted(planned: Any) -> None:
    page = planned
    assert page.evaluate(TEXT) == ""
    row(page, 2).locator("textarea").first.fill("add a pale moon")
    assert prompts(page) == [PROMPTS[0], "add a pale moon", PROMPTS[2]]
    row(page, 3).get_by_label("Lock").click()
    row(page, 3).get_by_label("Move up").click()
    assert prompts(page) == [PROMPTS[0], PROMPTS[2], "add a pale moon"]
    assert [(one.step.number, one.locked) for one in steps(page)] == [(1, False), (2, True), (3, False)]
    row(page, 1).get_by_label("Delete").click()
    assert prompts(page) == [PROMPTS[2], "add a pale moon"]
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    page.get_by_role("button", name="Add step").click()
    row(page, 4).locator("textarea").nth(1).fill("The end.")
    assert steps(page)[3].step == Step(number=4, auxiliary_text="The end.")
    output = page.evaluate("async () => (await app.graphToPrompt()).output")
    (node,) = [one for one in output.values() if one["class_type"] == "InterleaveEditPlan"]
    assert node["inputs"]["edits"] == page.evaluate(TEXT) and "steps" not in node["inputs"]
    ran(page)


def test_a_step_has_its_own_settings(planned: Any, tmp_path: Path) -> None:
    page = planned
    toggle = row(page, 3).get_by_label("Settings of this step")
    assert toggle.get_attribute("aria-expanded") == "false"
    toggle.focus()
    page.keyboard.press("Enter")
    assert toggle.get_attribute("aria-expanded") == "true"
    choice = row(page, 3).get_by_label("Edits")
    assert [text.strip() for text in choice.locator("option").all_inner_texts()][-2:] == [
        "step 1: Step 1",
        "step 2: Step 2",
    ]
    choice.select_option("1")
    row(page, 3).get_by_role("spinbutton", name="Seed").fill("77")
    row(page, 3).get_by_role("spinbutton", name="Attempts").fill("2")
    row(page, 3).get_by_role("spinbutton", name="Attempts").fill(
        "0"
    )  # 0 is not a valid number of attempts, so nothing is written
    page.locator(".itp-style").fill("Ink on paper")
    photographed(page, "edit-plan-settings", tmp_path)
    assert steps(page)[2].step.settings == StepSettings(source=1, seed=77, tries=2)
    edits = read_edits(page.evaluate(TEXT))
    assert edits is not None and edits.style == "Ink on paper"
    toggle.click()
    assert "Seed: 77" in row(page, 3).locator(".itp-summary").inner_text()
    row(page, 3).get_by_label("Move up").click()
    row(page, 1).get_by_label("Delete").click()
    assert [one.step.settings.source for one in steps(page)] == [1, None]
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    row(page, 2).get_by_label("Settings of this step").click()
    row(page, 2).get_by_role("spinbutton", name="Seed").fill("")
    assert steps(page)[1].step.settings == StepSettings(source=1, tries=2)
    ran(page)


def test_a_step_has_its_own_size_and_lora(planned: Any, host: ComfyServer, tmp_path: Path) -> None:
    page = planned
    folder = host.base / "models" / "loras" / "ink"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wash.safetensors").write_bytes(b"")
    try:
        toggle = row(page, 2).get_by_label("Settings of this step")
        toggle.click()
        size = row(page, 2).get_by_label("Size", exact=True)
        lora = row(page, 2).get_by_label("LoRA", exact=True)
        strength = row(page, 2).get_by_label("LoRA strength")
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
        photographed(page, "edit-plan-lora", tmp_path)
        named = StepLora(name="ink/wash.safetensors")
        assert steps(page)[1].step.settings == StepSettings(size="128x64", lora=named, lora_strength=0.8)
        toggle.click()
        summary = row(page, 2).locator(".itp-summary").inner_text()
        assert summary == "Size: 128x64 · LoRA: ink/wash.safetensors · LoRA strength: 0.8"
        photographed(page, "edit-plan-lora-closed", tmp_path)
        toggle.click()
        strength.fill("")
        assert steps(page)[1].step.settings == StepSettings(size="128x64", lora=named)
        strength.fill("0.5")
        lora.fill("")
        assert strength.is_disabled() and strength.input_value() == ""
        assert steps(page)[1].step.settings == StepSettings(size="128x64"), "no strength without a LoRA"
    finally:
        (folder / "wash.safetensors").unlink()


def test_queued_again_the_planner_does_not_run_again(planned: Any) -> None:
    page = planned
    if keeps_progress(page):
        page.get_by_text("3 steps").wait_for()
    output = page.evaluate("async () => (await app.graphToPrompt()).output")
    assert [key for node in output.values() for key in node["inputs"] if key.startswith("$$")] == []
    ran(page)  # the scripted agent has no second reply


def test_a_new_plan_is_shown_and_applied_on_request(planned: Any, tmp_path: Path) -> None:
    page = planned
    row(page, 2).locator("textarea").first.fill("by hand")
    row(page, 3).get_by_label("Lock").click()
    before = page.evaluate(TEXT)
    page.evaluate(SET_REPLIES, json.dumps([reply("x", "y", "z", "w")]))
    ran(page)
    assert page.evaluate(TEXT) == before
    page.get_by_text("The planner wrote a new plan").first.wait_for()
    photographed(page, "edit-plan-new-plan", tmp_path)
    page.get_by_role("button", name="Show new steps").click()
    assert prompts(page) == ["x", "by hand", PROMPTS[2], "w"]
    page.get_by_role("button", name="Planner's plan").click()
    assert prompts(page) == ["x", "y", PROMPTS[2], "w"]


def test_a_typing_error_is_shown_at_once_and_can_be_fixed(planned: Any, tmp_path: Path) -> None:
    page = planned
    page.get_by_role("button", name="Edit as text").click()
    page.evaluate(SET_TEXT, "1. House\n   drow: a house")
    page.get_by_text("Line 2, step 1: 'drow' is not a field").wait_for()
    photographed(page, "edit-plan-fault", tmp_path)
    page.evaluate(SET_TEXT, "1. House\n   draw: a house")
    page.get_by_role("button", name="As JSON").click()
    assert json.loads(page.evaluate(TEXT))["execution_plan"][0]["prompt"] == "a house"
    page.get_by_role("button", name="Edit as list").click()
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 1")
    row(page, 1).get_by_placeholder("Name").fill("Home")
    assert json.loads(page.evaluate(TEXT))["execution_plan"][0]["step_name"] == "Home"


def test_a_saved_workflow_brings_its_edits_back(planned: Any) -> None:
    page = planned
    row(page, 1).get_by_placeholder("Name").fill("Kept")
    page.evaluate("async () => await app.loadGraphData(app.graph.serialize(), true, true)")
    page.wait_for_function("() => document.querySelector('.itp-step input')?.value === 'Kept'")
    assert steps(page)[0].step.name == "Kept"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_plan_editor_is_readable_in_both_themes(planned: Any, theme: str, tmp_path: Path) -> None:
    page = planned
    try:
        page.evaluate("name => app.extensionManager.setting.set('Comfy.ColorPalette', name)", theme)
        row(page, 2).get_by_label("Lock").click()
        page.get_by_role("button", name="Add step").click()
        photographed(page, f"edit-plan-{theme}", tmp_path)
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
    finally:
        page.evaluate("() => app.extensionManager.setting.set('Comfy.ColorPalette', 'dark')")


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two CSS colours (WCAG 2.1)."""

    def luminance(color: str) -> float:
        parts = [float(part) for part in color[color.index("(") + 1 : -1].replace(",", " ").split()[:3]]
        linear = [
            part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_findings_of_the_plan_check_are_shown_under_their_steps(page: Any, tmp_path: Path) -> None:
    replies = json.dumps([reply("a red boat on a lake", "a red boat on a lake", "a red boat on a lake")])
    page.evaluate(PLANNED, [replies, "Draw a red boat on a lake. Put a kite in the sky."])
    ran(page)
    page.wait_for_function("() => document.querySelectorAll('.itp-step').length === 3")
    shown = page.locator(".itp-finding")
    shown.nth(2).wait_for()
    assert shown.all_inner_texts() == [
        "The request asks for 'kite', but no prompt mentions it.",
        "The prompt is the same as in step 1.",
        "The prompt is the same as in step 2.",
    ]
    photographed(page, "edit-plan-findings", tmp_path)
    box = row(page, 2).locator("textarea").first
    box.fill("Make the boat blue, a kite above it")
    page.wait_for_function("() => document.querySelectorAll('.itp-finding').length === 1")
    assert row(page, 3).locator(".itp-finding").count() == 0
    assert box.evaluate("box => box === document.activeElement"), "the row is not built again while typing"
    ran(page)
    assert shown.count() == 1, "the node's plan is checked like the edited text"
