"""Sampling settings without the host: image sizes, and the edit method of each model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.nodes.inputs.named_models import ModelTraits
from interleave_thinker.nodes.sampling.families.family import with_image_numbers
from interleave_thinker.nodes.sampling.families.registry import edit_choice
from interleave_thinker.nodes.sampling.settings import (
    KONTEXT_SIZES,
    SamplingSettings,
    edit_size,
    kontext_size,
    on_grid,
    stepped_size,
)

sides = st.integers(min_value=32, max_value=4096)
areas = st.integers(min_value=256 * 256, max_value=2048 * 2048)
FLUX_DEV = ModelTraits("Flux", distilled_guidance=True)


@given(sides, sides, areas, st.sampled_from([16, 32]))
def test_edits_are_scaled_only_at_the_first_step(width: int, height: int, area: int, grid: int) -> None:
    drawn = on_grid(edit_size((width, height), area, grid), grid)
    assert edit_size(drawn, area, grid) == drawn


@given(sides, sides)
def test_an_edit_keeps_the_aspect_ratio_and_uses_the_given_area(width: int, height: int) -> None:
    area = 1024 * 1024
    scaled = edit_size((width, height), area)
    assert scaled[0] * scaled[1] == pytest.approx(area, rel=16 / min(scaled) * 2)
    assert scaled[0] / scaled[1] == pytest.approx(width / height, rel=2 / min(scaled))


@given(sides, sides, areas)
def test_kontext_uses_a_trained_size_and_keeps_it(width: int, height: int, area: int) -> None:
    size = kontext_size((width, height), area)
    assert on_grid(size) == size and kontext_size(size, area) == size
    assert size[0] * size[1] == pytest.approx(area, rel=0.2)
    if 0.9 < area / 1024**2 < 1.1:
        assert size in KONTEXT_SIZES


@pytest.mark.parametrize(
    ("model", "chosen", "word"),
    [
        # a mode that the model would ignore
        (ModelTraits("SDXL"), "reference latents", "Set 'edit' to"),
        (FLUX_DEV, "omnigen2", "Set 'edit' to"),
        (ModelTraits("SDXL"), "encode node", "does not know an encode node for SDXL"),
        # no single images
        (ModelTraits("Kandinsky5"), "auto", "video model"),
        (ModelTraits("StableAudio1"), "image to image", "cannot generate single images"),
        (ModelTraits("ACEStep15", latent_dimensions=1), "auto", "cannot generate single images"),
        (ModelTraits("QwenImage", layered=True), "auto", "Qwen-Image-Layered"),
        (ModelTraits("HiDream"), "auto", "between Attempt Start and Attempt End"),
    ],
)
def test_a_mode_that_does_not_fit_the_model_is_rejected(model: ModelTraits, chosen: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        edit_choice(model, chosen)


def test_image_models_named_like_video_models_are_accepted() -> None:
    for name in ("HunyuanImage21", "Kandinsky5Image"):
        assert edit_choice(ModelTraits(name), "auto") == "image to image"


@given(sides, sides, areas, st.sampled_from([16, 32]))
def test_a_size_in_whole_steps_is_kept(width: int, height: int, area: int, grid: int) -> None:
    drawn = stepped_size((width, height), area, grid)
    assert on_grid(drawn, grid) == drawn
    assert stepped_size(drawn, area, grid) == drawn


@pytest.mark.parametrize("prompt", ["a <image1> b", "an image of 2 cats", "image 10", "1 image"])
def test_other_numbers_in_a_prompt_stay(prompt: str) -> None:
    assert with_image_numbers(prompt, "<image{}>", 3) == prompt


def test_settings_are_bounded() -> None:
    for wrong in ({"steps": 0}, {"width": 8}, {"denoise": 0.0}, {"guidance": -1.0}, {"unknown": 1}):
        with pytest.raises(ValueError):
            SamplingSettings(**wrong)
    assert replace(FLUX_DEV, name="Flux2").is_flux2
