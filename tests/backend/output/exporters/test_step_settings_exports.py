"""A step's own settings in the page, in Markdown and in story.json."""

from __future__ import annotations

import json
from pathlib import Path

from support.stories import make_trajectory

from interleave_thinker.backend.core.types import StepLora, StepSettings, Trajectory
from interleave_thinker.backend.output.exporters import markdown, page, story
from interleave_thinker.backend.output.report.export_options import ExportOptions

LORA = StepLora(name="ink_<b>.safetensors", digest="0123")
OWN = StepSettings(seed=7, size="96x64", lora=LORA, lora_strength=0.5)


def with_settings() -> Trajectory:
    """A story whose first step has its own settings."""
    plain = make_trajectory()
    first = plain.results[0]
    step = first.step.model_copy(update={"settings": OWN})
    plan = plain.plan.model_copy(update={"steps": (step, *plain.plan.steps[1:])})
    result = first.model_copy(update={"step": step})
    return plain.model_copy(update={"plan": plan, "results": (result, *plain.results[1:])})


def test_the_page_shows_them_with_the_step() -> None:
    shown = "seed 7, size 96x64, lora ink_&lt;b&gt;.safetensors, lora_strength 0.5"
    assert page.render(with_settings()).count(f"<span>Step settings</span> {shown}</p>") == 1
    assert "Step settings" not in page.render(make_trajectory())
    assert f"步骤设置</span> {shown}" in page.render(with_settings(), options=ExportOptions(language="zh"))


def test_markdown_shows_them_with_the_step(tmp_path: Path) -> None:
    text = markdown.export(with_settings(), tmp_path / "own").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith("Step settings: ")]
    assert line.startswith(r"Step settings: seed 7, size 96x64, lora ink\_") and "<b>" not in line
    plain = markdown.export(make_trajectory(), tmp_path / "plain").read_text(encoding="utf-8")
    assert "Step settings" not in plain


def test_story_json_has_them_by_name(tmp_path: Path) -> None:
    steps = json.loads(story.export(with_settings(), tmp_path).read_text(encoding="utf-8"))["steps"]
    assert steps[0]["settings"] == {
        "seed": 7,
        "size": "96x64",
        "lora": "ink_<b>.safetensors",
        "lora_strength": 0.5,
    }
    assert all("settings" not in step for step in steps[1:])
