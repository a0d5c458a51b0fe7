"""Every edit mode gives the pixels of its family's official graph with the same weights, seed and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from interleave_thinker.backend.story.loop.policy import attempt_seed
from interleave_thinker.nodes.sampling.settings import kontext_size

from ..graphs import families as official
from ..graphs.families import Graph, ours
from ..graphs.klein import image_edit, node, story
from ..server.comfy_server import ComfyServer
from ..server.pixels import PHOTO_SIZE as SIZE
from ..server.pixels import differ, photograph, pixels, same

MIN_DIFF = 0.05
SEED = 11
DRAWN = attempt_seed(SEED, 1, 0)


def sized(size: tuple[int, int], source: str = "@source") -> dict[str, Any]:
    return node(
        "ImageScale", image=source, upscale_method="lanczos", width=size[0], height=size[1], crop="center"
    )


# FLUX.2


@pytest.mark.parametrize("size", [(128, 128), (160, 96)])
def test_klein_with_two_references(
    host: ComfyServer, photos: tuple[str, str, str], size: tuple[int, int]
) -> None:
    area = size[0] * size[1] / 1024**2

    def theirs(*references: str) -> Graph:
        return image_edit("in this style", DRAWN, photos[0], area, references=references)

    mine = story(f"two {size}", ["in this style"], size, image=photos[0], seed=SEED)
    mine["pinned"] = node("LoadImage", image=photos[1])
    mine["generator"]["inputs"]["references.reference_1"] = ["pinned", 0]
    drawn = same(host, mine, theirs(photos[1]))
    differ(host, drawn, theirs(), MIN_DIFF)
    differ(host, drawn, theirs(photos[2]), MIN_DIFF)
    mine["again"] = node("LoadImage", image=photos[2])
    mine["generator"]["inputs"]["references.reference_2"] = ["again", 0]
    same(host, mine, theirs(photos[1], photos[2]))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_flux2_dev(host: ComfyServer, photos: tuple[str, str, str], count: int) -> None:
    image = photos[0] if count else None
    options = {"image": image, "references": photos[1:count], "seed": SEED, "scheduler": "flux2"}
    mine = ours("flux2 dev", f"dev {count}", ["a fox"], SIZE, **options)
    drawn = same(host, mine, official.flux2_dev("a fox", DRAWN, photos[:count], SIZE))
    differ(
        host,
        drawn,
        ours("flux2 dev", f"dev {count}", ["a fox"], SIZE, guidance=30.0, **options),
        MIN_DIFF,
    )


# FLUX.1 Kontext


def test_kontext(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    options = {"edit": "flux kontext", "seed": SEED}
    mine = ours("flux1", "kontext", ["at night"], SIZE, image=photos[0], **options)
    drawn = same(host, mine, official.kontext("at night", DRAWN, photos[0], sized(SIZE)))
    differ(host, drawn, official.kontext("at night", DRAWN, photos[1], sized(SIZE)), MIN_DIFF)
    differ(
        host,
        drawn,
        official.kontext("at night", DRAWN, photos[0], sized(SIZE), guidance=40.0),
        MIN_DIFF,
    )


@pytest.mark.parametrize("size", [(150, 100), (64, 64), (60, 200)])
def test_kontext_at_a_megapixel_uses_the_size_of_the_hosts_node(
    host: ComfyServer, size: tuple[int, int]
) -> None:
    name = host.put_input(photograph(size, 24), f"shape-{size[0]}x{size[1]}.png")
    scaled = node("FluxKontextImageScale", image="@source")
    graph = {"source": node("LoadImage", image=name), "scaled": scaled}
    found = pixels(
        host, host.run(graph | {"out": node("SaveImage", images="@scaled", filename_prefix="scaled")})
    )
    assert (found.shape[1], found.shape[0]) == kontext_size(size, 1024 * 1024)
    fixed = {"source": graph["source"], "scaled": sized(kontext_size(size, 1024 * 1024))}
    again = pixels(
        host, host.run(fixed | {"out": node("SaveImage", images="@scaled", filename_prefix="scaled")})
    )
    np.testing.assert_array_equal(found, again)


def test_kontext_and_flux_from_text(host: ComfyServer) -> None:
    mine = ours("flux1", "kontext text", ["a fox"], SIZE, edit="image to image", seed=SEED)
    same(host, mine, official.text_to_image("flux1", "a fox", DRAWN, SIZE))


def test_flux_dev_image_to_image(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    options = {"image": photos[0], "edit": "image to image", "seed": SEED, "denoise": 0.6}
    mine = ours("flux1", "flux dev edit", ["a fox"], SIZE, **options)
    drawn = same(host, mine, official.image_to_image("flux1", "a fox", DRAWN, photos[0], 0.6))
    differ(host, drawn, official.image_to_image("flux1", "a fox", DRAWN, photos[1], 0.6), MIN_DIFF)
    differ(host, drawn, official.image_to_image("flux1", "a fox", DRAWN, photos[0], 0.9), MIN_DIFF)


# Qwen-Image-Edit


def test_qwen_image_edit(host: ComfyServer) -> None:
    name = host.put_input(photograph((96, 96), 25), "small.png")
    options = {"edit": "qwen image edit", "seed": SEED, "image": name}
    mine = ours("qwen image", "qwen edit", ["remove the sign"], (96, 96), **options)
    drawn = same(host, mine, official.qwen_edit("remove the sign", DRAWN, name))
    differ(host, drawn, official.qwen_edit("add a sign", DRAWN, name), MIN_DIFF)


@pytest.mark.parametrize("count", [1, 2])
def test_qwen_image_edit_plus(host: ComfyServer, photos: tuple[str, str, str], count: int) -> None:
    options = {
        "edit": "qwen image edit plus",
        "seed": SEED,
        "image": photos[0],
        "references": photos[1:count],
    }
    mine = ours("qwen image", f"plus {count}", ["as a drawing"], SIZE, **options)
    scaled = sized(SIZE, "@source1")
    drawn = same(host, mine, official.qwen_edit_plus("as a drawing", DRAWN, photos[:count], scaled))
    differ(
        host,
        drawn,
        official.qwen_edit_plus("as a drawing", DRAWN, (photos[2], *photos[1:count]), scaled),
        MIN_DIFF,
    )


def test_qwen_image_edit_2511_with_a_negative(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    guided = {"cfg": 4.0, "negative": "blurry"}
    mine = ours("qwen image 2511", "2511", ["fur"], SIZE, image=photos[0], seed=SEED, **guided)
    theirs = official.qwen_edit_plus(
        "fur", DRAWN, photos[:1], sized(SIZE, "@source1"), "qwen image 2511", "index_timestep_zero", **guided
    )
    drawn = same(host, mine, theirs)
    plus = official.qwen_edit_plus(
        "fur", DRAWN, photos[:1], sized(SIZE, "@source1"), method="index", **guided
    )
    differ(host, drawn, plus, MIN_DIFF)


# OmniGen2


@pytest.mark.parametrize("count", [0, 1, 2])
def test_omnigen2(host: ComfyServer, photos: tuple[str, str, str], count: int) -> None:
    guided = {"cfg": 5.0, "negative": "blurry"}
    image = photos[0] if count else None
    mine = ours(
        "omnigen2",
        f"omni {count}",
        ["crystal"],
        SIZE,
        image=image,
        references=photos[1:count],
        seed=SEED,
        **guided,
    )
    theirs = official.omnigen2(
        "crystal", DRAWN, photos[:count], SIZE[0] * SIZE[1] / 1024**2, guidance=2.0, **guided
    )
    drawn = same(host, mine, theirs)
    if count:
        other = official.omnigen2(
            "crystal", DRAWN, photos[3 - count :], SIZE[0] * SIZE[1] / 1024**2, guidance=2.0, **guided
        )
        differ(host, drawn, other, MIN_DIFF)


# Models without edits


@pytest.mark.parametrize("family", ["sd15", "sdxl", "z-image"])
def test_image_to_image(host: ComfyServer, photos: tuple[str, str, str], family: str) -> None:
    guided = {"cfg": 3.0, "negative": "text"}
    mine = ours(family, f"{family} text", ["a fox"], SIZE, seed=SEED, **guided)
    same(host, mine, official.text_to_image(family, "a fox", DRAWN, SIZE, **guided))
    mine = ours(family, f"{family} edit", ["a fox"], SIZE, image=photos[0], seed=SEED, denoise=0.6, **guided)
    drawn = same(host, mine, official.image_to_image(family, "a fox", DRAWN, photos[0], 0.6, **guided))
    differ(host, drawn, official.image_to_image(family, "a fox", DRAWN, photos[1], 0.6, **guided), MIN_DIFF)
    differ(host, drawn, official.image_to_image(family, "a fox", DRAWN, photos[0], 0.9, **guided), MIN_DIFF)


def test_z_image_omni_reads_its_references(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    def drawn(image: str | None, *references: str) -> np.ndarray:
        options = {"image": image, "references": references, "seed": SEED}
        graph = ours("z-image omni", f"z-omni {image} {references}", ["a fox"], SIZE, **options)
        return pixels(host, host.run(graph)).astype(int)

    one, other, two = drawn(photos[0]), drawn(photos[1]), drawn(photos[0], photos[1])
    assert one.shape == (128, 128, 3)
    assert np.abs(one - other).mean() > 0.05 and np.abs(one - two).mean() > 0.05


def test_references_alone_affect_the_first_image(host: ComfyServer, photos: tuple[str, str, str]) -> None:
    def drawn(family: str, edit: str, *references: str) -> np.ndarray:
        graph = ours(
            family,
            f"sheet {family} {references}",
            ["a fox"],
            (160, 96),
            edit=edit,
            references=references,
            seed=SEED,
        )
        return pixels(host, host.run(graph)).astype(int)

    for family, edit in (
        ("flux2 dev", "auto"),
        ("flux1", "flux kontext"),
        ("qwen image", "qwen image edit plus"),
        ("omnigen2", "auto"),
    ):
        without, with_one, with_other = (
            drawn(family, edit, *names) for names in ((), photos[:1], photos[1:2])
        )
        assert with_one.shape == without.shape == (96, 160, 3)
        assert np.abs(without - with_one).mean() > 0.05 and np.abs(with_one - with_other).mean() > 0.01, (
            family
        )
