"""With the same weights, seed and prompt, the nodes give the pixels of the official FLUX.2 klein graphs."""

from __future__ import annotations

import numpy as np
import pytest

from interleave_thinker.backend.story.loop.policy import attempt_seed

from ..graphs.klein import image_edit, story, text_to_image
from ..server.comfy_server import ComfyServer
from ..server.pixels import photograph, pixels


@pytest.mark.parametrize("size", [(128, 128), (96, 64), (72, 56)])
def test_text_to_image_equals_the_template(host: ComfyServer, size: tuple[int, int]) -> None:
    prompt = "a red fox in the snow"
    ours = host.run(story(f"text {size}", [prompt], size, seed=3))
    official = host.run(text_to_image(prompt, attempt_seed(3, 1, 0), size))
    np.testing.assert_array_equal(pixels(host, ours), pixels(host, official))


@pytest.mark.parametrize(
    ("source", "size"),
    [((128, 128), (128, 128)), ((150, 100), (128, 128)), ((256, 256), (128, 128)), ((64, 112), (128, 128))],
)
def test_edit_equals_the_template(host: ComfyServer, source: tuple[int, int], size: tuple[int, int]) -> None:
    prompt = "make it a winter night"
    name = host.put_input(photograph(source, seed=1), f"photo-{source[0]}x{source[1]}.png")
    ours = host.run(story(f"edit {source} {size}", [prompt], size, image=name, seed=4))
    official = host.run(image_edit(prompt, attempt_seed(4, 1, 0), name, size[0] * size[1] / 1024**2))
    np.testing.assert_array_equal(pixels(host, ours), pixels(host, official))


def test_base_model_with_guidance_equals_the_template(host: ComfyServer) -> None:
    prompt, name = "a lighthouse", host.put_input(photograph((128, 128), seed=2), "guided.png")
    settings = {"steps": 3, "cfg": 5.0, "negative": "blurry"}
    ours = host.run(story("guided text", [prompt], (128, 128), seed=5, **settings))
    official = host.run(text_to_image(prompt, attempt_seed(5, 1, 0), (128, 128), **settings))
    np.testing.assert_array_equal(pixels(host, ours), pixels(host, official))
    ours = host.run(story("guided edit", [prompt], (128, 128), image=name, seed=5, **settings))
    official = host.run(image_edit(prompt, attempt_seed(5, 1, 0), name, 128 * 128 / 1024**2, **settings))
    np.testing.assert_array_equal(pixels(host, ours), pixels(host, official))


def test_a_story_is_a_chain_of_edits(host: ComfyServer) -> None:
    prompts = ["a house", "add a tree", "at night"]
    ours = host.run(story("a chain", prompts, (128, 128), seed=6))
    first = host.run(text_to_image(prompts[0], attempt_seed(6, 1, 0), (128, 128)))
    np.testing.assert_array_equal(pixels(host, ours, index=0), pixels(host, first))
    for step in (2, 3):
        before = host.image(ours["out"]["images"][step - 2]).convert("RGB")
        name = host.put_input(before, f"chain-{step}.png")
        official = host.run(
            image_edit(prompts[step - 1], attempt_seed(6, step, 0), name, 128 * 128 / 1024**2)
        )
        np.testing.assert_array_equal(pixels(host, ours, index=step - 1), pixels(host, official))


def test_source_prompt_and_seed_all_show_in_the_pixels(host: ComfyServer) -> None:
    """Each input changes the image; otherwise the equalities above would prove nothing."""
    name = host.put_input(photograph((128, 128), seed=3), "sensitive.png")
    other = host.put_input(photograph((128, 128), seed=4), "sensitive-other.png")
    area = 128 * 128 / 1024**2
    base = pixels(host, host.run(image_edit("a cat", 1, name, area))).astype(int)
    for graph in (
        image_edit("a dog", 1, name, area),
        image_edit("a cat", 2, name, area),
        image_edit("a cat", 1, other, area),
    ):
        assert np.abs(pixels(host, host.run(graph)) - base).mean() > 0.5
