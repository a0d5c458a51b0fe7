"""Mask and reference of one step of Edit Plan: equal to connected ones, reloaded, or one error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from ..graphs.families import Graph, ours
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, pixels, same

FIRST = "a fox"
EDIT = {"denoise": 0.7, "cfg": 3.0, "negative": "blurry", "seed": 13}
HOLE = (32, 32, 96, 96)


def by_hand(graph: Graph, settings: str) -> Graph:
    """The story with a line of settings for its only step."""
    graph = {name: {**one, "inputs": dict(one["inputs"])} for name, one in graph.items()}
    edits = f"1. {FIRST}\n   draw: {FIRST}\n   {settings}"
    graph["edit"] = node("InterleaveEditPlan", plan="@plan", edits=edits)
    graph["loop"]["inputs"]["plan"] = ["edit", 0]
    return graph


def square(hole: tuple[int, int, int, int] = HOLE) -> Image.Image:
    mask = Image.new("L", SIZE, 0)
    mask.paste(255, hole)
    return mask


def test_a_steps_mask_acts_like_a_connected_one(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    name = host.put_input(square(), "step mask.png")
    painted = Image.new("RGBA", SIZE, (0, 0, 0, 255))
    painted.paste((0, 0, 0, 0), HOLE)
    host.put_input(painted, "painted mask.png")
    story = ours("sd15", "masked by a step", [FIRST], SIZE, image=photos[0], **EDIT)
    connected = ours("sd15", "masked by a wire", [FIRST], SIZE, image=photos[0], **EDIT)
    connected |= {
        "black": node("SolidMask", value=0.0, width=SIZE[0], height=SIZE[1]),
        "white": node("SolidMask", value=1.0, width=64, height=64),
        "mask": node("MaskComposite", destination="@black", source="@white", x=32, y=32, operation="add"),
        "options": node("InterleaveStepOptions", mask="@mask"),
    }
    connected["generator"]["inputs"]["options"] = ["options", 0]
    drawn = same(host, by_hand(story, f"mask: {name}"), connected)
    same(host, by_hand(story, "mask: painted mask.png [input]"), connected)
    differ(host, drawn, story, 0.02)
    # Painted over under the same name: another mask, so another cache key.
    host.put_input(square((0, 0, 64, 128)), name)
    again = pixels(host, host.run(by_hand(story, f"mask: {name}")))
    assert np.abs(again.astype(int) - drawn).mean() > 0.02


def test_a_steps_reference_acts_like_a_pinned_one(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    options = {"image": photos[0], "seed": 13, "scheduler": "flux2"}
    story = ours("flux2 dev", "shown by a step", [FIRST], SIZE, **options)
    pinned = ours("flux2 dev", "shown by a wire", [FIRST], SIZE, references=[photos[1]], **options)
    drawn = same(host, by_hand(story, f"reference: {photos[1]}"), pinned)
    differ(host, drawn, story, 0.02)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("mask: nowhere.png", r"Step 1, mask: Image 'nowhere.png' does not exist in 'input'"),
        ("mask: ../output/x.png", "Step 1, mask: Image"),
        (
            "reference: {photo}",
            "Step 1 sets its own reference, but this generator does not support reference",
        ),
    ],
)
def test_impossible_step_images_raise_one_line(
    host: ComfyServer, photos: tuple[str, str, str], settings: str, reason: str
) -> None:
    options: dict[str, Any] = {"image": photos[0], **EDIT}
    story = ours("sd15", f"refused {settings[:9]}", [FIRST], SIZE, **options)
    with pytest.raises(HostError, match=reason):
        host.run(by_hand(story, settings.replace("{photo}", photos[1])))
