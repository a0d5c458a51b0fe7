"""The diffusers generator with small folders of real pipeline classes: images, edits, errors, cancelling."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops
from support import tiny_pipelines

from interleave_thinker import Picture, open_generator
from interleave_thinker.backend.core.errors import Cancelled, GeneratorError, InterleaveError, SettingsError
from interleave_thinker.backend.core.types import Plan, Request, Step, StepImage, StepLora, StepSettings
from interleave_thinker.backend.models.generators.pipelines import kinds
from interleave_thinker.backend.models.generators.pipelines.generator import DiffusersGenerator
from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

Build = Callable[[str], Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    built: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in built:
            built[name] = getattr(tiny_pipelines, name)(tmp_path_factory.mktemp("pipelines") / name)
        return built[name]

    return make


@pytest.fixture(autouse=True)
def small_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen's and Kontext's pipelines scale the source image to a megapixel.

    A few thousand pixels suffice here.
    """
    from diffusers.pipelines.flux import pipeline_flux_kontext
    from diffusers.pipelines.longcat_image import pipeline_longcat_image_edit
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit_plus

    monkeypatch.setattr(pipeline_flux_kontext, "PREFERRED_KONTEXT_RESOLUTIONS", [(64, 64)])
    monkeypatch.setattr(pipeline_longcat_image_edit, "calculate_dimensions", lambda area, ratio: (64, 64))
    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "VAE_IMAGE_SIZE", 64 * 64)
    monkeypatch.setattr(pipeline_qwenimage_edit_plus, "CONDITION_IMAGE_SIZE", 64 * 64)


def scene(seed: int = 0, size: tuple[int, int] = (64, 64)) -> Picture:
    """Return a coarse colorful image."""
    blocks = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    return Picture(Image.fromarray(blocks).resize(size))


def half_white(folder: Path) -> Path:
    """Return a mask whose right half may change."""
    mask = Image.new("L", (64, 64))
    mask.paste(255, (32, 0, 64, 64))
    mask.save(folder / "mask.png")
    return folder / "mask.png"


def open_tiny(folder: Path, **options: object) -> DiffusersGenerator:
    return open_generator(f"diffusers:{folder}", device="cpu", **options)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("stable_diffusion", "img2img", {"steps": 2}),
        ("flux2_klein", "reference", {"steps": 2}),
        ("flux_kontext", "reference", {"steps": 1}),
        ("qwen_image_edit_plus", "reference", {"steps": 1}),
        ("qwen_image21", "reference", {"steps": 1}),
        ("bria_fibo2", "reference", {"steps": 1}),
        ("longcat_image_edit", "reference", {"steps": 1, "size": None}),
        ("flux_fill", "reference", {"steps": 1, "mask": "half"}),
    ],
)
def test_pipelines_draw_and_edit(build: Build, name: str, mode: str, options: dict, tmp_path: Path) -> None:
    if "mask" in options:
        options = {**options, "mask": str(half_white(tmp_path))}
    generator = open_tiny(build(name), **{"size": "64x64", **options})
    assert f"edit={mode}" in generator.identity
    drawn = generator.draw("a red boat", None, 5)
    edited = generator.draw("a red boat", scene(), 5)
    assert drawn.size == edited.size == (64, 64)
    assert generator.draw("a red boat", scene(), 5) == edited, "same arguments, same pixels"
    assert generator.draw("a red boat", scene(), 6) != edited, "the seed matters"
    assert generator.draw("seven green ducks at night", scene(), 5) != edited, "the prompt matters"
    assert generator.draw("a red boat", scene(1), 5) != edited, "the source matters"
    assert edited != drawn


def test_pixels_that_overflowed_are_an_error(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = open_tiny(build("stable_diffusion"), size="64x64", steps=2, dtype="float32")
    drawn = generator.draw("a red boat", scene(), 5)
    official, used = kinds.arguments_of, f"{DiffusersGenerator.__module__}.arguments_of"
    with monkeypatch.context() as patched:
        patched.setattr(used, lambda pipeline: official(pipeline) - {"output_type"})
        assert generator.draw("a red boat", scene(), 5) == drawn, "bytes equal those of diffusers"
    pair = generator._pair
    assert pair.draw is not None and pair.draw.unet is pair.edit.unet, "one set of weights"
    with torch.no_grad():
        for weights in pair.edit.unet.parameters():
            weights.fill_(float("nan"))
    with pytest.raises(GeneratorError, match=r"NaN or infinite.*float32"):
        generator.draw("a red boat", scene(), 5)


def test_an_edit_keeps_the_sources_shape_unless_a_size_is_given(build: Build) -> None:
    for name in ("stable_diffusion", "flux2_klein"):
        generator = open_tiny(build(name), steps=2)
        assert generator.draw("a boat", scene(size=(96, 64)), 1).size == (96, 64)
        assert generator.area(scene(size=(96, 64))) == 96 * 64
        wide = open_tiny(build(name), steps=2, size="96x64")
        assert wide.draw("a boat", scene(size=(64, 128)), 1).size == (96, 64)
        assert wide.area(scene(size=(64, 128))) == wide.area(None) == 96 * 64
    assert generator.draw("a boat", scene(size=(97, 65)), 1).size in {(96, 64), (98, 66)}, (
        "rounded to a multiple"
    )


def test_distilled_klein_generates_in_four_steps(build: Build) -> None:
    asked: list[int] = []
    generator = open_tiny(build("flux2_klein"), size="64x64")
    generator.interrupted = lambda: bool(asked.append(1))
    generator.draw("a boat", None, 1)
    assert len(asked) == 2 + 4, "checked before and after waiting for the lock, and after each of four steps"
    assert "steps=4" in generator.identity


def test_cancels_between_sampling_steps(build: Build) -> None:
    generator = open_tiny(build("stable_diffusion"), size="64x64", steps=20)
    asked: list[int] = []
    generator.interrupted = lambda: len(asked) >= 3 or bool(asked.append(1))
    with pytest.raises(Cancelled):
        generator.draw("a boat", scene(), 1)
    generator.interrupted = None
    assert generator.draw("a boat", scene(), 1).size == (64, 64), "works on after a cancel"


def test_mask_of_a_step_replaces_that_of_the_pipeline(build: Build, tmp_path: Path) -> None:
    half = open_tiny(build("flux_fill"), size="64x64", steps=1, mask=str(half_white(tmp_path)))
    Picture.white((64, 64)).image.save(tmp_path / "white.png")
    whole = open_tiny(build("flux_fill"), size="64x64", steps=1, mask=str(tmp_path / "white.png"))
    step = StepSettings(mask=StepImage(name="white.png", picture=Picture.white((64, 64))))
    assert half.identity != whole.identity
    part, everything = (one.draw("a boat", scene(), 1) for one in (half, whole))
    assert part != everything == half.with_step_settings(step).draw("a boat", scene(), 1)
    assert half.draw("a boat", None, 1) == whole.draw("a boat", None, 1), "from text all may change"


@pytest.mark.parametrize(
    ("name", "options", "settings", "images"),
    [
        ("stable_diffusion", {}, {"denoise", "negative", "size", "lora"}, 1),
        ("stable_diffusion", {"guidance": 1.0}, {"denoise", "size", "lora"}, 1),
        ("flux2_klein", {}, {"reference", "size", "lora"}, 9),
        ("qwen_image_edit_plus", {}, {"negative", "reference", "size", "lora"}, 3),
        ("longcat_image_edit", {}, {"negative"}, 1),
        ("flux_fill", {"mask_later": True}, {"mask", "size", "lora"}, 1),
    ],
)
def test_effective_settings(build: Build, name: str, options: dict, settings: set[str], images: int) -> None:
    generator = open_tiny(build(name), **options)
    assert generator.step_settings == settings and generator.max_reference_images == images - 1


@pytest.fixture(scope="module")
def lora(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a LoRA for the tiny Stable Diffusion."""
    from diffusers import StableDiffusionPipeline, UNet2DConditionModel
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    unet = UNet2DConditionModel.from_pretrained(build("stable_diffusion") / "unet")
    unet.add_adapter(LoraConfig(r=4, lora_alpha=64, init_lora_weights=False, target_modules=["to_q", "to_v"]))
    folder = tmp_path_factory.mktemp("loras")
    StableDiffusionPipeline.save_lora_weights(
        folder, unet_lora_layers=get_peft_model_state_dict(unet), weight_name="style.safetensors"
    )
    return folder / "style.safetensors"


@pytest.mark.parametrize("own", [None, 0.5], ids=["alone", "next to the pipeline's own"])
def test_a_lora_changes_its_step_only(build: Build, lora: Path, own: float | None, tmp_path: Path) -> None:
    options = {} if own is None else {"lora": str(lora), "lora_scale": own}

    def opened(**others: object) -> DiffusersGenerator:
        folder = str(lora.parent)
        return open_tiny(
            build("stable_diffusion"), size="64x64", steps=2, lora_folder=folder, **options, **others
        )

    def drawn(generator: DiffusersGenerator, *settings: dict[str, Any]) -> list[Picture | None]:
        steps = (
            Step(number=number, prompt="a boat", settings=StepSettings(seed=1, source="text", **one))
            for number, one in enumerate(settings, 1)
        )
        journal = Journal(tmp_path / str(len(list(tmp_path.iterdir()))))
        events = run(
            Request(text="a"), Collaborators(None, generator), journal=journal, plan=Plan(steps=tuple(steps))
        )
        return [result.image for result in list(events)[-1].trajectory.results]  # type: ignore[attr-defined]

    name = lora.name
    generator = opened()
    plain = opened().draw("a boat", None, 1)
    images = drawn(generator, {}, {"lora": name}, {}, {"lora": name, "lora_strength": 0.25}, {"lora": name})
    assert [images[0], images[2]] == [plain, plain], "steps before and after it are unchanged"
    assert len({plain, images[1], images[3]}) == 3 and images[1] == images[4]
    alone = open_tiny(
        build("stable_diffusion"), size="64x64", steps=2, lora=str(lora), lora_scale=1.0 + (own or 0.0)
    )
    difference = ImageChops.difference(images[1].image, alone.draw("a boat", None, 1).image)  # type: ignore[union-attr]
    assert max(high for _, high in difference.getextrema()) <= 1, "as if the pipeline was opened with it"


def test_a_lora_of_a_step_reaches_the_text_encoder_behind_the_cache(build: Build, tmp_path: Path) -> None:
    pytest.importorskip("peft", minversion="0.22", reason="transformers 5.24 needs it for text encoders")
    from diffusers import StableDiffusionPipeline
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    generator = open_tiny(build("stable_diffusion"), size="64x64", steps=2, lora_folder=str(tmp_path))
    encoder = copy.deepcopy(generator._pair.edit.text_encoder)
    encoder.add_adapter(
        LoraConfig(r=4, lora_alpha=64, init_lora_weights=False, target_modules=["q_proj", "v_proj"])
    )
    StableDiffusionPipeline.save_lora_weights(
        tmp_path, text_encoder_lora_layers=get_peft_model_state_dict(encoder), weight_name="words.safetensors"
    )
    plain = generator.draw("a boat", None, 1)
    named = StepLora(name="words.safetensors", digest=generator.lora_digest("words.safetensors"))
    with_lora = generator.with_step_settings(StepSettings(lora=named))
    changed = with_lora.draw("a boat", None, 1)
    assert changed != plain, "not the cached encoding of the prompt"
    assert generator.draw("a boat", None, 1) == plain and with_lora.draw("a boat", None, 1) == changed


def test_a_lora_of_a_step_is_inside_the_folder(build: Build, lora: Path, tmp_path: Path) -> None:
    folder = tmp_path / "loras"
    folder.mkdir()
    (folder / "out.safetensors").symlink_to(lora)
    (folder / "styles").mkdir()
    shutil.copy(lora, folder / "styles" / "ink.safetensors")
    generator = open_tiny(build("flux2_klein"), lora_folder=str(folder))
    for name in ("out.safetensors", "none.safetensors"):
        with pytest.raises(SettingsError, match=f"The LoRA '{name}' does not exist in .*loras"):
            generator.lora_digest(name)
    named = StepLora(name="styles\\ink.safetensors", digest=generator.lora_digest("styles/ink.safetensors"))
    with pytest.raises(SettingsError, match=r"Nothing in 'ink\.safetensors' fits Flux2KleinPipeline"):
        generator.with_step_settings(StepSettings(lora=named))
    with pytest.raises(SettingsError, match="has changed since the run began"):
        generator.with_step_settings(StepSettings(lora=named.model_copy(update={"digest": "0"})))
    with pytest.raises(SettingsError, match=r"no LoRA folder is set.*lora_folder"):
        open_tiny(build("stable_diffusion")).lora_digest("a.safetensors")


def test_a_lora_that_does_not_fit_leaves_nothing_behind(build: Build, lora: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(lora)
    last = max(name for name in weights if "lora_A" in name)
    save_file(weights | {last: torch.ones(4, 7)}, tmp_path / "other.safetensors")
    metadata = {"lora_adapter_metadata": json.dumps({"unet.target_modules": "(.+)+Z", "unet.r": 4})}
    save_file(weights, tmp_path / "hostile.safetensors", metadata=metadata)
    (tmp_path / "pickled.safetensors").write_bytes(pickle.dumps({"lora": 1}))
    generator = open_tiny(build("stable_diffusion"), size="64x64", steps=2, lora_folder=str(tmp_path))
    plain = generator.draw("a boat", None, 1)
    said = {"other": "Nothing in 'other", "hostile": "take forever", "pickled": "pickled.safetensors"}
    for name, words in said.items():
        named = StepLora(name=f"{name}.safetensors", digest=generator.lora_digest(f"{name}.safetensors"))
        with pytest.raises(InterleaveError, match=words):
            generator.with_step_settings(StepSettings(lora=named))
        assert generator.draw("a boat", None, 1) == plain


def test_a_step_has_its_own_size(build: Build) -> None:
    halves = Image.new("RGB", (64, 64), "white")
    halves.paste("black", (0, 32, 64, 64))
    cut = halves.crop((0, 16, 64, 48)).resize((128, 64), Image.Resampling.LANCZOS)
    generator = open_tiny(build("stable_diffusion"), size="64x64", steps=2)
    wide = generator.with_step_settings(StepSettings(size="128x64"))
    assert wide.draw("a", Picture(halves), 1) == wide.draw("a", Picture(cut), 1), "an edit crops its source"
    assert open_tiny(build("stable_diffusion"), size="128x64", steps=2).draw("a", None, 1) == wide.draw(
        "a", None, 1
    )
    assert generator.draw("a", None, 1).size == (64, 64)


def test_identity_is_the_content_not_the_path(build: Build, lora: Path, tmp_path: Path) -> None:
    folder = build("stable_diffusion")
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    identity = open_tiny(folder).identity
    assert open_tiny(moved).identity == identity
    options = ({"steps": 3}, {"guidance": 2.0}, {"size": "64x64"}, {"strength": 0.5}, {"dtype": "bfloat16"})
    styled = ({"lora": str(lora)}, {"lora": str(lora), "lora_scale": 2.0})
    assert len({open_tiny(moved, **one).identity for one in (*options, *styled)} | {identity}) == 8
    weights = moved / "unet" / "diffusion_pytorch_model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert open_tiny(moved).identity != identity, "one changed bit of the weights"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("flux2_klein", {"negative": "blur"}, "negative"),
        ("flux_kontext", {"negative": "blur"}, "negative"),
        ("flux2_klein", {"edit": "img2img"}, "image-to-image"),
        ("stable_diffusion", {"edit": "reference"}, "does not accept a reference image"),
        ("stable_diffusion", {"steps": 1, "strength": 0.5}, "leave no sampling step"),
        ("stable_diffusion", {"strength": float("nan")}, "strength"),
        ("stable_diffusion", {"size": "99999x64"}, "WIDTHxHEIGHT"),
        ("stable_diffusion", {"mask": "mask.png"}, "does not support masks"),
        ("flux_fill", {}, "Give a mask"),
        ("longcat_image_edit", {"size": "64x64"}, "chooses the size itself"),
        ("stable_diffusion", {"lora": "/etc/hostname"}, "is not a LoRA"),
    ],
)
def test_ignored_options_are_rejected(build: Build, name: str, options: dict, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        open_tiny(build(name), **options)


def test_failures_are_typed_errors_with_advice(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = open_tiny(build("flux2_klein"), size="64x64", steps=1)
    with pytest.raises(GeneratorError, match="too small"):
        generator.draw("a boat", scene(size=(8, 8)), 1)
    pipeline = generator._pair.edit
    for reason in ("CUDA out of memory. Tried to allocate 20 GiB", "Allocation on device"):

        def exhaust(*_: object, reason: str = reason, **__: object) -> None:
            raise RuntimeError(reason)

        monkeypatch.setattr(pipeline.transformer, "forward", exhaust)
        with pytest.raises(GeneratorError, match=r"Out of memory while generating at 64x64.*Reduce the size"):
            generator.draw("a boat", None, 1)


def test_a_step_can_set_denoise_and_negative_if_the_pipeline_uses_them(build: Build) -> None:
    generator = open_tiny(build("stable_diffusion"), steps=4, size="64x64")
    plain = generator.draw("a boat", scene(), 3)
    little = generator.with_step_settings(StepSettings(denoise=0.3))
    without = generator.with_step_settings(StepSettings(negative="a red sail"))
    assert plain != little.draw("a boat", scene(), 3)
    assert without.draw("a boat", None, 3) != generator.draw("a boat", None, 3)
    assert generator.draw("a boat", scene(), 3) == plain, "the generator itself is unchanged"
    as_opened = open_tiny(build("stable_diffusion"), steps=4, size="64x64", strength=0.3)
    assert as_opened.draw("a boat", scene(), 3) == little.draw("a boat", scene(), 3)
    with pytest.raises(SettingsError, match="leave no sampling step"):
        generator.with_step_settings(StepSettings(denoise=0.1))
