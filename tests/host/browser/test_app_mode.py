"""A template in App mode: request and step count to type, storyboard to see.

Front ends without App mode skip.

The screenshots are written to INTERLEAVE_SCREENSHOTS, to be looked at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..graphs.examples import need_checkpoints, twin
from .page import opened, ran, screenshot

READS_TEMPLATES = (1, 41)
"""The first front end whose App mode shows the inputs and outputs that a template names."""
VERSION = "() => window.__COMFYUI_FRONTEND_VERSION__.split('.').map(Number)"
TOGGLE = "() => app.extensionManager.command.execute('Comfy.ToggleLinear')"
WITH_TEXT = """text => [...document.querySelectorAll('textarea')]
  .some(one => one.value === text && one.getBoundingClientRect().width > 100)"""
PICTURES = """() => [...document.querySelectorAll('img')].filter(one =>
  one.src.includes('/view?') && one.naturalWidth > 300 && one.getBoundingClientRect().width > 100).length"""


def test_a_template_is_an_app(page: Any, tmp_path: Path) -> None:
    need_checkpoints()
    opened(page, "tiny_world_story")
    if tuple(page.evaluate(VERSION)) < READS_TEMPLATES:
        pytest.skip("This front end's App mode does not read templates.")
    page.evaluate(TOGGLE)
    (request,) = [
        node["inputs"]["request"]
        for node in twin("tiny_world_story").values()
        if node["class_type"] == "InterleavePlanner"
    ]
    page.wait_for_function(WITH_TEXT, arg=request)
    page.get_by_role("button", name="Skip").click()  # the tour of who comes for the first time
    for name in ("story request", "steps (0 = auto)", "base seed"):
        page.get_by_text(name, exact=True).first.wait_for()
    page.wait_for_timeout(1000)
    screenshot(page, "app-opened", tmp_path)
    ran(page, settle_ms=2500)
    page.wait_for_function(PICTURES)
    screenshot(page, "app-done", tmp_path)
    assert page.outside == []
