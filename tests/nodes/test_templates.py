"""The templates before anything runs: in order, well named, on one screen, with notes and images.

The graphs are read as files, so this runs without a host. The browser tests check that nodes fit their sizes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows"
LOCALES = Path(__file__).resolve().parents[2] / "locales"
FILES = sorted(WORKFLOWS.glob("*.json"))
FIRST = "01 Tiny world story, nothing to download"
SHOWN_LETTERS = 30
"""Number of letters of a name that the front end's template list shows; the rest is in a tooltip."""
SCREEN = (1600, 900)
LEFT_BAR, TOP_BARS = 60, 90
"""Pixels of the side bar, and of the tabs with the run bar below them."""
READABLE = 0.571
"""Scale below which the canvas writes no text; opened as a template a graph fills three quarters of it."""
CANVAS = (1600, 866)
TITLE = 30

MODEL_FILE = re.compile(r"\.(safetensors|sft|gguf|ckpt|pt|pth|bin)$")
BUILT_IN_AGENT = "tiny world"
FOLDERS = {
    "UNETLoader": "diffusion_models", "CheckpointLoaderSimple": "checkpoints", "CLIPLoader": "text_encoders",
    "VAELoader": "vae", "LoraLoaderModelOnly": "loras", "ControlNetLoader": "controlnet",
    "UpscaleModelLoader": "upscale_models", "InterleaveLoadAgent": "interleave_agents",
    "InterleaveDiffusersGenerator": "diffusers",
}  # fmt: skip
"""Folder below ComfyUI's `models` of each loader."""

templates = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def corners(boxes: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    return (
        min(x for x, *_ in boxes),
        min(y for _, y, *_ in boxes),
        max(x + width for x, _, width, _ in boxes),
        max(y + height for _, y, _, height in boxes),
    )


def node_boxes(graph: dict[str, Any]) -> list[tuple[float, float, float, float]]:
    """Place and size of every node with its title."""
    return [
        (node["pos"][0], node["pos"][1] - TITLE, node["size"][0], node["size"][1] + TITLE)
        for node in graph["nodes"]
    ]


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast as in WCAG 2: 4.5 is enough for text."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_templates_are_numbered_and_describe_their_result() -> None:
    assert [path.stem[:3] for path in FILES] == [f"{number:02} " for number in range(1, len(FILES) + 1)]
    assert FILES[0].stem == FIRST
    assert {path.stem for path in WORKFLOWS.iterdir()} == {path.stem for path in FILES}, (
        "an image without a template"
    )
    for path in FILES:
        # The front end puts spaces for these two, and a URL reads the others as its own.
        assert not re.search(r"[_%#?&+]", path.stem), path.stem
        title = path.stem.partition(",")[0]
        assert 10 < len(title) <= SHOWN_LETTERS + 10, title


def test_their_category_is_called_as_the_pack_in_every_language() -> None:
    for folder in LOCALES.iterdir():
        words = json.loads((folder / "main.json").read_text(encoding="utf-8"))
        names = words["templateWorkflows"]["category"]
        first = {one for folder_name, one in names.items() if not folder_name.endswith("/_")}
        assert first == {"InterleaveThinker"}, folder.name
        assert all(names[f"{one}/_"].startswith("Interleave: ") for one in names if "/" not in one)


@templates
def test_every_template_has_an_image_of_its_result(path: Path) -> None:
    with Image.open(path.with_suffix(".jpg")) as picture:
        assert picture.width == picture.height >= 300, "the front end shows squares"
    assert path.with_suffix(".jpg").stat().st_size < 50_000


@templates
def test_every_template_fits_the_screen_outside_of_the_bars(path: Path) -> None:
    graph = read(path)
    view = graph["extra"]["ds"]
    groups = [(box[0], box[1], box[2], box[3]) for box in (group["bounding"] for group in graph["groups"])]
    left, top, right, bottom = corners([*node_boxes(graph), *groups])
    assert (left + view["offset"][0]) * view["scale"] >= LEFT_BAR
    assert (top + view["offset"][1]) * view["scale"] >= TOP_BARS
    assert (right + view["offset"][0]) * view["scale"] <= SCREEN[0]
    assert (bottom + view["offset"][1]) * view["scale"] <= SCREEN[1]


@templates
def test_a_template_fits_the_view_at_readable_scale(path: Path) -> None:
    left, top, right, bottom = corners(node_boxes(read(path)))
    scale = 0.75 * min(CANVAS[0] / (right - left + 20), CANVAS[1] / (bottom - top + 20))
    assert scale >= READABLE, f"{right - left:.0f} x {bottom - top:.0f} is too large"


@templates
def test_its_note_can_be_read_in_both_canvases(path: Path) -> None:
    (note,) = [node for node in read(path)["nodes"] if node["type"] == "MarkdownNote"]
    # What the newer canvas writes text, and commands, in.
    assert contrast(note["bgcolor"], "#8a8a8a") >= 4.5 and contrast(note["bgcolor"], "#1c8ce8") >= 4.5


def needed_files(graph: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the folder and name of every model that the graph loads from the disk."""
    inner = [node for one in graph.get("definitions", {}).get("subgraphs", []) for node in one["nodes"]]
    needed: set[tuple[str, str]] = set()
    for node in [*graph["nodes"], *inner]:
        values = [one for one in node.get("widgets_values") or [] if isinstance(one, str)]
        names = [one for one in values if MODEL_FILE.search(one)]
        if node["type"] in ("InterleaveLoadAgent", "InterleaveDiffusersGenerator"):
            names += values[:1]
        needed |= {(FOLDERS[node["type"]], one) for one in names if not one.startswith(BUILT_IN_AGENT)}
    return needed


@templates
def test_its_note_names_every_model_with_folder_and_source(path: Path) -> None:
    graph = read(path)
    (note,) = [node["widgets_values"][0] for node in graph["nodes"] if node["type"] == "MarkdownNote"]
    folders = re.split(r"^\*\*(\w+)\*\*.*$", note, flags=re.MULTILINE)[1:]
    parts = dict(zip(folders[::2], folders[1::2], strict=True))
    for folder, name in needed_files(graph):
        listed = re.search(rf"^- \[{re.escape(name)}\]\(https://[^)]+\)", parts[folder], re.MULTILINE)
        assert listed, f"{name}: no line with its source under **{folder}**"


@templates
def test_a_loop_has_room_for_its_view(path: Path) -> None:
    for node in read(path)["nodes"]:
        if node["type"] in ("InterleaveCriticLoop", "InterleaveTryClose"):
            assert node["size"][1] >= 780, "the compared images are at its lower end"
