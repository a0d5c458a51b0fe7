"""Families with an encode node of the host generate the pixels of their official workflows.

Families that a host does not know are skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

from interleave_thinker.backend.story.loop.policy import attempt_seed

from ..graphs import newer_families as official
from ..graphs.families import image_to_image, ours
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, photograph, same

MIN_DIFF = 0.001
SEED = 12
DRAWN = attempt_seed(SEED, 1, 0)
GUIDED = {"cfg": 4.0, "negative": "blurry"}


def knows(host: ComfyServer, family: str) -> None:
    """Skip where the host has no such family."""
    known = host.get("/object_info/InterleaveTestFamily")["InterleaveTestFamily"]
    if family not in known["input"]["required"]["family"][0]:
        pytest.skip(f"This host does not know {family}.")


EDITS: dict[str, tuple[Any, int]] = {
    "boogu": (official.boogu_edit, 3),
    "joyimage": (official.joyimage_edit, 2),
    "mage flow": (official.mage_flow, 3),
    "hidream o1": (official.hidream_o1, 3),
}
"""The official graph, and the maximum number of images that it is tested with."""


@pytest.mark.parametrize("guided", [{}, GUIDED], ids=["cfg 1", "cfg 4"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("family", EDITS)
def test_edits(
    host: ComfyServer, photos: tuple[str, str, str], family: str, count: int, guided: dict[str, Any]
) -> None:
    knows(host, family)
    theirs, most = EDITS[family]
    if count > most:
        pytest.skip("Its template shows fewer images.")
    shown = {"image": photos[0], "references": photos[1:count]}
    options = {"edit": "encode node", "seed": SEED, **shown, **guided}
    mine = ours(family, f"{family} {count} {guided}", ["at night"], SIZE, **options)
    drawn = same(host, mine, theirs("at night", DRAWN, photos[:count], SIZE, **guided))
    differ(host, drawn, theirs("at noon", DRAWN, photos[:count], SIZE, **guided), MIN_DIFF)
    if count > 1:
        differ(host, drawn, theirs("at night", DRAWN, photos[: count - 1], SIZE, **guided), MIN_DIFF)
    else:
        differ(host, drawn, theirs("at night", DRAWN, photos[1:2], SIZE, **guided), MIN_DIFF)


@pytest.mark.parametrize("family", ["boogu", "joyimage", "mage flow"])
def test_a_source_of_another_size_is_scaled_like_in_the_official_graph(
    host: ComfyServer, family: str
) -> None:
    knows(host, family)
    name = host.put_input(photograph((256, 128), 26), "wide.png")
    options = {"edit": "encode node", "seed": SEED, "image": name}
    mine = ours(family, f"{family} wide", ["at night"], (128, 128), **options)
    drawn = same(host, mine, EDITS[family][0]("at night", DRAWN, (name,), (128, 128)))
    assert drawn.shape[1] > drawn.shape[0]


def test_mage_flows_references_are_not_scaled(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    knows(host, "mage flow")
    shown = photos[0], host.put_input(photograph((200, 72), 27), "long.png")
    options = {"edit": "encode node", "seed": SEED, "image": shown[0], "references": shown[1:]}
    mine = ours("mage flow", "mage flow long", ["at night"], SIZE, **options)
    same(host, mine, official.mage_flow("at night", DRAWN, shown, SIZE))


@pytest.mark.parametrize("guided", [{}, GUIDED], ids=["cfg 1", "cfg 4"])
def test_longcat_image_edit(host: ComfyServer, photos: tuple[str, str, str], guided: dict[str, Any]) -> None:
    knows(host, "longcat")
    options = {"edit": "encode node", "seed": SEED, "image": photos[0], **guided}
    mine = ours("longcat", f"longcat {guided}", ["at night"], SIZE, **options)
    drawn = same(host, mine, official.longcat_edit("at night", DRAWN, photos[0], SIZE, **guided))
    differ(host, drawn, official.longcat_edit("at night", DRAWN, photos[1], SIZE, **guided), MIN_DIFF)


@pytest.mark.parametrize("count", [1, 2])
def test_krea2_with_style_references(host: ComfyServer, photos: tuple[str, str, str], count: int) -> None:
    knows(host, "krea2")
    options = {"edit": "encode node", "seed": SEED, "references": photos[:count]}
    mine = ours("krea2", f"krea2 {count}", ["a fox"], SIZE, **options)
    drawn = same(host, mine, official.krea2_style("a fox", DRAWN, photos[:count], SIZE))
    differ(host, drawn, official.krea2_style("a fox", DRAWN, photos[2:], SIZE), MIN_DIFF)


@pytest.mark.parametrize("guided", [{}, GUIDED], ids=["cfg 1", "cfg 4"])
@pytest.mark.parametrize("family", ["boogu", "longcat", "krea2", "ernie"])
def test_text_to_image(host: ComfyServer, family: str, guided: dict[str, Any]) -> None:
    knows(host, family)
    options = {"edit": "image to image", "seed": SEED, **guided}
    mine = ours(family, f"{family} text {guided}", ["a fox"], SIZE, **options)
    drawn = same(host, mine, official.from_text(family, "a fox", DRAWN, SIZE, **guided))
    differ(host, drawn, official.from_text(family, "a dog", DRAWN, SIZE, **guided), MIN_DIFF)


@pytest.mark.parametrize("edit", ["encode node", "image to image"])
@pytest.mark.parametrize("family", ["mage flow", "hidream o1"])
def test_text_to_image_by_the_encode_node(host: ComfyServer, family: str, edit: str) -> None:
    knows(host, family)
    mine = ours(family, f"{family} text {edit}", ["a fox"], SIZE, seed=SEED, edit=edit, **GUIDED)
    same(host, mine, EDITS[family][0]("a fox", DRAWN, (), SIZE, **GUIDED))


@pytest.mark.parametrize("family", ["ernie", "krea2", "longcat"])
def test_image_to_image(host: ComfyServer, photos: tuple[str, str, str], family: str) -> None:
    knows(host, family)
    options = {"image": photos[0], "seed": SEED, "denoise": 0.6, "edit": "image to image", **GUIDED}
    mine = ours(family, f"{family} noised", ["a fox"], SIZE, **options)
    drawn = same(host, mine, image_to_image(family, "a fox", DRAWN, photos[0], 0.6, **GUIDED))
    differ(host, drawn, image_to_image(family, "a fox", DRAWN, photos[1], 0.6, **GUIDED), MIN_DIFF)


def test_a_host_without_the_node_raises_an_error(host: ComfyServer) -> None:
    graph = ours("qwen image", "unknown class", ["a fox"], SIZE, edit="encode node")
    with pytest.raises(HostError, match="does not know an encode node for QwenImage models"):
        host.run(graph)
    graph = ours("sd15", "renamed", ["a fox"], SIZE, edit="encode node")
    graph["renamed"] = node("InterleaveTestRenamedModel", model=["family", 0], kind="QwenImage21")
    graph["generator"]["inputs"]["model"] = ["renamed", 0]
    if "TextEncodeQwenImage21" in host.get("/object_info"):
        pytest.skip("This host has the node.")
    with pytest.raises(HostError, match="This ComfyUI does not have the node TextEncodeQwenImage21"):
        host.run(graph)
