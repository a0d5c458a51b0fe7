"""Families that are chosen by name, or whose nodes newer hosts have, give the pixels of their wired graphs.

Nodes that this host lacks are stand-ins of the same signature. A class that is not known is one of the
host's under another name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from interleave_thinker.backend.story.loop.policy import attempt_seed

from ..graphs import read_families as official
from ..graphs.families import Graph, ours
from ..graphs.klein import node
from ..server.comfy_server import ComfyServer, HostError
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, photograph, same

MIN_DIFF = 0.001
SEED = 12
DRAWN = attempt_seed(SEED, 1, 0)
GUIDED = {"cfg": 4.0, "negative": "blurry"}


@dataclass(frozen=True)
class Case:
    """A family: its graph, the tiny family, the class of the model, its edit method, most images tested."""

    graph: Callable[..., Graph]
    tiny: str
    kind: str
    edit: str
    images: int = 3
    from_text: bool = True


CASES = {
    "flux 3 klein": Case(official.flux3_klein, "flux2 dev", "NotKnownHere", "flux 3 klein"),
    "fibo 2": Case(official.fibo2, "flux2 dev", "NotKnownHere", "fibo 2"),
    "moss image": Case(official.moss_image, "flux2 dev", "NotKnownHere", "moss image edit"),
    "minimax h3 image": Case(official.minimax_h3_image, "flux2 dev", "MiniMaxH3", "minimax h3 image"),
    "sensenova": Case(official.sensenova, "hidream o1", "SenseNovaU15", "auto"),
    "krea 2 identity": Case(official.krea2_identity, "krea2", "", "krea 2 identity edit", images=2),
    "bernini-r": Case(official.bernini, "bernini", "", "bernini-r"),
    "firered": Case(official.firered, "qwen image", "", "firered image edit", from_text=False),
}


def mine(name: str, prompt: str, images: tuple[str, ...] = (), size: Any = SIZE, **options: Any) -> Graph:
    case = CASES[name]
    given = {"image": images[0], "references": images[1:]} if images else {}
    request = f"{name} {prompt} {len(images)} {size} {sorted(options)}"
    graph = ours(case.tiny, request, [prompt], size, edit=case.edit, seed=SEED, **given, **options)
    if case.kind:
        graph["renamed"] = node("InterleaveTestRenamedModel", model=["family", 0], kind=case.kind)
        graph["generator"]["inputs"]["model"] = ["renamed", 0]
    return graph


@pytest.fixture
def case(name: str, known_families: list[str]) -> Case:
    if CASES[name].tiny not in known_families:
        pytest.skip(f"This host does not know {CASES[name].tiny}.")
    return CASES[name]


@pytest.mark.parametrize("guided", [{}, GUIDED], ids=["cfg 1", "cfg 4"])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_edits(
    host: ComfyServer, photos: tuple[str, str, str], case: Case, name: str, count: int, guided: dict[str, Any]
) -> None:
    if count > case.images:
        pytest.skip("It takes fewer images.")
    drawn = same(
        host,
        mine(name, "at night", photos[:count], **guided),
        case.graph("at night", DRAWN, photos[:count], SIZE, **guided),
    )
    differ(host, drawn, case.graph("at noon", DRAWN, photos[:count], SIZE, **guided), MIN_DIFF)
    other = (*photos[: count - 1], photos[(count + 1) % 3])
    differ(host, drawn, case.graph("at night", DRAWN, other, SIZE, **guided), MIN_DIFF)


@pytest.mark.parametrize("guided", [{}, GUIDED], ids=["cfg 1", "cfg 4"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.from_text])
def test_text_to_image(host: ComfyServer, case: Case, name: str, guided: dict[str, Any]) -> None:
    drawn = same(host, mine(name, "a fox", **guided), case.graph("a fox", DRAWN, (), SIZE, **guided))
    differ(host, drawn, case.graph("a dog", DRAWN, (), SIZE, **guided), MIN_DIFF)


@pytest.mark.parametrize("name", ["minimax h3 image"])
def test_an_image_from_text_has_sides_on_the_grid_of_the_node(
    host: ComfyServer, case: Case, name: str
) -> None:
    drawn = same(host, mine(name, "a fox", size=(144, 112)), case.graph("a fox", DRAWN, (), (128, 96)))
    assert drawn.shape[:2] == (96, 128)


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
def test_images_are_numbered_as_the_family_writes_them(
    host: ComfyServer, photos: tuple[str, str, str], case: Case, name: str, written: str
) -> None:
    graph = mine(name, "the hat of image 2", photos[:2])
    drawn = same(host, graph, case.graph(written, DRAWN, photos[:2], SIZE))
    other = "the hat of image 2" if written != "the hat of image 2" else "the hat of image 1"
    differ(host, drawn, case.graph(other, DRAWN, photos[:2], SIZE), MIN_DIFF)


@pytest.mark.parametrize("name", ["moss image", "fibo 2", "minimax h3 image", "bernini-r"])
def test_a_source_of_another_size_keeps_its_shape(host: ComfyServer, case: Case, name: str) -> None:
    wide = host.put_input(photograph((256, 128), 26), "wide.png")
    result = {"moss image": (128, 128)}.get(name, (160, 64) if "h3" in name else (176, 80))
    drawn = same(
        host,
        mine(name, "at night", (wide,), (128, 128)),
        case.graph("at night", DRAWN, (wide,), result),
    )
    assert drawn.shape[1] > 1.5 * drawn.shape[0]


@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("firered", "fibo 2", "Edit method 'fibo 2' is for FIBO 2, but the loaded model is QwenImage"),
        ("moss image", "auto", "'moss image edit' for MOSS-Image with its edit LoRA"),
        ("minimax h3 image", "auto", "For MiniMax-H3-Image, set 'edit' to 'minimax h3 image'"),
        ("minimax h3 image", "image to image", "MiniMaxH3 is a video model"),
    ],
)
def test_a_method_of_another_family_is_an_error(
    host: ComfyServer, case: Case, name: str, edit: str, words: str
) -> None:
    graph = mine(name, "a fox")
    graph["generator"]["inputs"]["edit"] = edit
    with pytest.raises(HostError, match=words):
        host.run(graph)


def test_a_guider_would_ignore_the_patched_model(host: ComfyServer, known_families: list[str]) -> None:
    if "krea2" not in known_families:
        pytest.skip("This host does not know Krea 2.")
    graph = mine("krea 2 identity", "a fox")
    graph["text"] = node("CLIPTextEncode", clip=["family", 1], text="")
    graph["guider"] = node("BasicGuider", model=["family", 0], conditioning="@text")
    graph["options"] = node("InterleaveStepOptions", guider="@guider")
    graph["generator"]["inputs"]["options"] = ["options", 0]
    with pytest.raises(HostError, match="would ignore the model that edit method"):
        host.run(graph)
