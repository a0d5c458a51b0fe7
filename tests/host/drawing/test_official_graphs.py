"""With the same weights, seed, prompt and images, the nodes give the pixels of every family's official graph.

A family that the host does not know is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.host_home import HostHome

from interleave_thinker.backend.story.loop.policy import attempt_seed
from interleave_thinker.nodes.sampling.settings import kontext_size

from ..graphs import official
from ..graphs.official import FAMILIES, GUIDED, ours, ours_of
from ..graphs.stories import changed, node
from ..server.comfy_server import ComfyServer
from ..server.rigs import results_of
from ..server.runs import PHOTO_SIZE as SIZE
from ..server.runs import PHOTOS, differ, need_family, photograph, pixels, same

SEED = 12
DRAWN = attempt_seed(SEED, 1, 0)
EDITS = [
    (name, count, guided)
    for name, family in FAMILIES.items()
    for count, guided in ((1, not family.plain), (family.images, family.guided))
]
WIDE, LONG = (256, 128), (200, 72)


def settings(guided: bool) -> dict[str, Any]:
    return GUIDED if guided else {}


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest, host: ComfyServer) -> None:
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name and FAMILIES[name].tiny != "klein":
        need_family(host, FAMILIES[name].tiny)


@pytest.mark.parametrize(("name", "count", "guided"), sorted(set(EDITS)))
def test_edits(host: ComfyServer, name: str, count: int, guided: bool) -> None:
    more, graph, shown = settings(guided), FAMILIES[name].graph, PHOTOS[:count]
    mine = ours_of(name, "at night", shown, seed=SEED, **more)
    drawn = same(host, mine, graph("at night", DRAWN, shown, SIZE, **more))
    other = (*shown[:-1], PHOTOS[count % 3])
    differ(host, drawn, graph("at night", DRAWN, other, SIZE, **more))


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.text])
def test_an_image_from_text(host: ComfyServer, name: str) -> None:
    more, graph = settings(FAMILIES[name].guided), FAMILIES[name].graph
    drawn = same(host, ours_of(name, "a fox", seed=SEED, **more), graph("a fox", DRAWN, (), SIZE, **more))
    differ(host, drawn, graph("a dog", DRAWN, (), SIZE, **more))


SIZES: list[tuple[str, tuple[int, int], tuple[int, int], tuple[int, int]]] = [
    ("flux2 klein", (), (96, 64), (96, 64)), ("flux2 klein", (), (72, 56), (72, 56)),
    ("flux2 klein", (150, 100), SIZE, SIZE), ("flux2 klein", (256, 256), SIZE, SIZE),
    ("flux2 klein", (64, 112), SIZE, SIZE), ("boogu", WIDE, SIZE, SIZE), ("joyimage", WIDE, SIZE, SIZE),
    ("mage flow", WIDE, SIZE, SIZE), ("moss image", WIDE, SIZE, SIZE), ("fibo 2", WIDE, SIZE, (176, 80)),
    ("minimax h3 image", WIDE, SIZE, (160, 64)), ("bernini-r", WIDE, SIZE, (176, 80)),
    ("minimax h3 image", (), (144, 112), (128, 96)),
]  # fmt: skip
"""A family, the size of the source, the requested size, and the size given to the official graph."""


@pytest.mark.parametrize(("name", "source", "size", "result"), SIZES)
def test_a_source_or_result_of_another_size(
    host: ComfyServer, name: str, source: tuple[int, int], size: tuple[int, int], result: tuple[int, int]
) -> None:
    images = (host.put_input(photograph(source, 26), f"source-{source}.png"),) if source else ()
    mine = ours_of(name, "at night", images, size, seed=SEED)
    drawn = same(host, mine, FAMILIES[name].graph("at night", DRAWN, images, result))
    assert drawn.shape[1] > drawn.shape[0] if source == WIDE else drawn.size


@pytest.mark.parametrize("name", ["mage flow"])
def test_its_references_are_not_scaled(host: ComfyServer, name: str) -> None:
    shown = PHOTOS[0], host.put_input(photograph(LONG, 27), "long.png")
    mine = ours_of(name, "at night", shown, seed=SEED)
    same(host, mine, FAMILIES[name].graph("at night", DRAWN, shown, SIZE))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("flux 3 klein", "the hat of <ref_image_1>"),
        ("fibo 2", "the hat of <image_2>"),
        ("minimax h3 image", "the hat of <Picture 2>"),
        ("firered", "the hat of Picture 2"),
        ("moss image", "the hat of image 2"),
    ],
)
def test_images_are_numbered_as_the_family_writes_them(host: ComfyServer, name: str, written: str) -> None:
    shown = PHOTOS[:2]
    mine = ours_of(name, "the hat of image 2", shown, seed=SEED)
    drawn = same(host, mine, FAMILIES[name].graph(written, DRAWN, shown, SIZE))
    differ(host, drawn, FAMILIES[name].graph("the hat of image 1", DRAWN, shown, SIZE))


def test_the_base_model_of_klein_with_guidance(host: ComfyServer) -> None:
    settings = {"steps": 3, "cfg": 5.0, "negative": "blurry"}
    for images in ((), PHOTOS[:1]):
        mine = ours_of("flux2 klein", "a lighthouse", images, seed=SEED, **settings)
        same(host, mine, official.klein("a lighthouse", DRAWN, images, SIZE, **settings))


def test_a_story_is_a_chain_of_edits(host: ComfyServer) -> None:
    prompts = ["a house", "add a tree", "at night"]
    outputs = host.run(ours("klein", "a chain", prompts, SIZE, seed=6))
    images: tuple[str, ...] = ()
    for step, prompt in enumerate(prompts, 1):
        theirs = host.run(official.klein(prompt, attempt_seed(6, step, 0), images, SIZE))
        np.testing.assert_array_equal(pixels(host, outputs, index=step - 1), pixels(host, theirs))
        before = host.image(outputs["out"]["images"][step - 1]).convert("RGB")
        images = (host.put_input(before, f"chain-{step}.png"),)


def test_seed_and_guidance_show_in_the_pixels(host: ComfyServer) -> None:
    """Otherwise the equalities above would prove nothing about them."""
    drawn = pixels(host, host.run(official.klein("a cat", 1, PHOTOS[:1], SIZE)))
    differ(host, drawn, official.klein("a cat", 2, PHOTOS[:1], SIZE), 0.5)
    drawn = pixels(host, host.run(official.kontext("a cat", 1, PHOTOS[:1], SIZE)))
    differ(host, drawn, official.kontext("a cat", 1, PHOTOS[:1], SIZE, guidance=40.0), 0.05)
    drawn = pixels(host, host.run(official.noised("flux1", "a cat", 1, PHOTOS[:1], SIZE)))
    differ(host, drawn, official.noised("flux1", "a cat", 1, PHOTOS[:1], SIZE, denoise=0.9), 0.05)
    options: dict[str, Any] = {"seed": SEED, "scheduler": "flux2"}
    drawn = pixels(host, host.run(ours("flux2 dev", "guided", ["a fox"], SIZE, **options)))
    differ(host, drawn, ours("flux2 dev", "guided", ["a fox"], SIZE, guidance=30.0, **options), 0.05)


@pytest.mark.parametrize("size", [(150, 100), (60, 200)])
def test_kontext_uses_the_size_of_the_hosts_node(host: ComfyServer, size: tuple[int, int]) -> None:
    name = host.put_input(photograph(size, 24), f"shape-{size}.png")
    found = kontext_size(size, 1024 * 1024)
    theirs, mine = (
        {
            "source1": node("LoadImage", image=name),
            "scaled": official.cropped(wanted),
            "out": node("SaveImage", images="@scaled", filename_prefix="scaled"),
        }
        for wanted in (None, found)
    )
    assert same(host, theirs, mine).shape[1::-1] == found


def test_z_image_omni_reads_its_references(host: ComfyServer) -> None:
    def graph(*images: str) -> dict[str, Any]:
        options = {"image": images[0], "references": images[1:], "seed": SEED}
        return ours("z-image omni", f"z-omni {images}", ["a fox"], SIZE, **options)

    drawn = pixels(host, host.run(graph(PHOTOS[0])))
    for images in (PHOTOS[1:2], PHOTOS[:2]):
        differ(host, drawn, graph(*images), 0.05)


@pytest.mark.parametrize("name", ["flux2 dev", "flux kontext", "qwen image edit plus", "omnigen2"])
def test_references_alone_affect_the_first_image(host: ComfyServer, name: str) -> None:
    def graph(*references: str) -> dict[str, Any]:
        mine = ours_of(name, f"sheet {references}", (), (160, 96), seed=SEED)
        for number, image in enumerate(references, 1):
            mine[f"pinned{number}"] = node("LoadImage", image=image)
            mine = changed(mine, "generator", **{f"references.reference_{number}": f"@pinned{number}"})
        return changed(mine, "plan", prompts="a fox")

    drawn = pixels(host, host.run(graph(PHOTOS[0])))
    assert drawn.shape == (96, 160, 3)
    differ(host, drawn, graph(), 0.05)
    differ(host, drawn, graph(PHOTOS[1]), 0.01)


def test_a_text_is_encoded_once(host_home: HostHome) -> None:
    drawn = results_of(host_home, "kept_texts_rig")
    assert drawn["flux2 dev"]["texts"] == ["a house", "a sun"]
    assert drawn["sd15"]["texts"] == ["a house", "grey", "a sun"]
    for family in drawn.values():
        first, second, third, again = family["images"]
        assert first == again and len({first, second, third}) == 3
