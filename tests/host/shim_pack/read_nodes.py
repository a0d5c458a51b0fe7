"""Stand-ins for nodes of hosts that cannot be run here, with the inputs and outputs of their documentation.

They do on a tiny FLUX.2 what the documentation says of the real node: encode the prompt, attach the images as
reference latents, return an empty latent. A host that has a node keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import comfy.utils
import node_helpers
import torch
from comfy_api.latest import io

from .declared import TEXT, declared, note, number

PIXELS = 16


def encoded(clip: Any, prompt: str) -> list:
    return clip.encode_from_tokens_scheduled(clip.tokenize(prompt))


def with_images(conditioning: list, vae: Any, images: list[Any]) -> list:
    latents = [vae.encode(image[:, :, :, :3]) for image in images]
    values = {"reference_latents": latents}
    return node_helpers.conditioning_set_values(conditioning, values, append=True) if images else conditioning


def empty(width: int, height: int) -> dict[str, Any]:
    return {"samples": torch.zeros([1, 128, height // PIXELS, width // PIXELS])}


def growing(prefix: str, least: int, most: int) -> io.Autogrow.Input:
    template = io.Autogrow.TemplatePrefix(io.Image.Input("image"), prefix=prefix, min=0, max=most)
    return io.Autogrow.Input("images", template=template, optional=not least)


def in_order(images: dict[str, Any] | None) -> list[Any]:
    names = sorted(images or {}, key=lambda name: int("".join(filter(str.isdigit, name))))
    return [(images or {})[name] for name in names]


STAND_INS: dict[str, type] = {}
PROMPT, NEGATIVE = io.String.Input("prompt"), io.String.Input("negative_prompt")
COND, LATENT, VAE = io.Conditioning.Output, io.Latent.Output, io.Vae.Input("vae", optional=True)
SIZE = [io.Int.Input("width", default=0, max=16384), io.Int.Input("height", default=0, max=16384)]


def stand_in(name: str, inputs: list[Any], *outputs: Any, title: str = "") -> Callable[..., Any]:
    """Declare a function as a node with these inputs and outputs."""

    def declare(function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        def define_schema(cls: type) -> io.Schema:
            made = [output() for output in outputs]
            return io.Schema(node_id=name, display_name=title or None, inputs=inputs, outputs=made)

        def execute(cls: type, **given: Any) -> io.NodeOutput:
            return io.NodeOutput(*function(**given))

        members = {"define_schema": classmethod(define_schema), "execute": classmethod(execute)}
        STAND_INS[name] = type(name, (io.ComfyNode,), members)
        return function

    return declare


SIZES = [
    io.DynamicCombo.Option("keep resolution", []),
    io.DynamicCombo.Option("resize", [io.Float.Input("megapixels", default=1.0)]),
]
ENDS = [io.Conditioning.Input("positive"), io.Conditioning.Input("negative", optional=True), VAE]
RESOLUTION = io.DynamicCombo.Input("resolution", options=SIZES)


@stand_in("ReferenceMultiLatent", [*ENDS, RESOLUTION, growing("image", 0, 100)], COND, COND, LATENT)
def flux3_klein(
    positive: Any, resolution: Any, negative: Any = None, vae: Any = None, images: Any = None
) -> tuple[Any, ...]:
    """FLUX 3 klein: images as reference latents on both conditionings."""
    assert resolution == {"resolution": "keep resolution"}, resolution
    shown = in_order(images)
    latent = {"samples": vae.encode(shown[0][:, :, :, :3]) * 0.0}
    return *(with_images(end, vae, shown) for end in (positive, negative)), latent


CLIP = io.Clip.Input("clip")
FIBO = [CLIP, PROMPT, NEGATIVE, VAE, growing("image_", 0, 16), *SIZE, io.Int.Input("batch_size", default=1)]


@stand_in("TextEncodeFibo2", FIBO, COND, COND, LATENT)
def fibo2(
    clip: Any, prompt: str, negative_prompt: str, width: int, height: int, batch_size: int, **more: Any
) -> tuple[Any, ...]:
    """FIBO 2: both prompts and the latent. A single image is cropped to the size of the result."""
    assert batch_size == 1
    vae, shown = more.get("vae"), in_order(more.get("images"))
    if len(shown) == 1:
        pixels = shown[0].movedim(-1, 1)
        shown = [comfy.utils.common_upscale(pixels, width, height, "lanczos", "center").movedim(1, -1)]
    ends = (with_images(encoded(clip, text), vae, shown) for text in (prompt, negative_prompt))
    return *ends, empty(width, height)


FORMAT = io.Combo.Input("edit_format", options=["ai-toolkit", "ai-toolkit (kv_cache off)", "Moss-Image-Edit"])
MOSS = [CLIP, PROMPT, VAE, FORMAT, growing("image_", 1, 16), io.Float.Input("image_strength", default=1.0)]


@stand_in("TextEncodeMOSSImageEdit", MOSS, COND)
def moss_image(
    clip: Any, prompt: str, edit_format: str, images: Any, image_strength: float, vae: Any = None
) -> tuple[Any]:
    """MOSS-Image's edit LoRA: one conditioning with the images at the size they arrive."""
    assert (edit_format, image_strength) == ("Moss-Image-Edit", 1.0)
    return (with_images(encoded(clip, prompt), vae, in_order(images)),)


@stand_in("MiniMaxH3ImageConditioning", [CLIP, VAE, PROMPT, *SIZE, growing("image_", 0, 100)], COND, LATENT)
def minimax_h3_image(
    clip: Any, prompt: str, width: int, height: int, vae: Any = None, images: Any = None
) -> tuple[Any, ...]:
    """MiniMax-H3-Image: one conditioning and the latent."""
    assert width % 32 == height % 32 == 0 < width
    return with_images(encoded(clip, prompt), vae, in_order(images)), empty(width, height)


RATIOS = ["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
GEMINI = [
    io.String.Input("prompt", multiline=True, default=""),
    io.Combo.Input("model", options=["gemini-3-pro-image-preview"]),
    io.Int.Input("seed", default=42, max=0xFFFFFFFFFFFFFFFF, control_after_generate=True),
    io.Combo.Input("aspect_ratio", options=RATIOS, default="auto"),
    io.Combo.Input("resolution", options=["1K", "2K", "4K"]),
    io.Combo.Input("response_modalities", options=["IMAGE+TEXT", "IMAGE"]),
    io.Image.Input("images", optional=True),
    io.Custom("GEMINI_INPUT_FILES").Input("files", optional=True),
    io.String.Input("system_prompt", multiline=True, default="", optional=True),
]
NANO = "Nano Banana Pro (Google Gemini Image)"


@stand_in("GeminiImage2Node", GEMINI, io.Image.Output, io.String.Output, title=NANO)
def gemini(prompt: str, seed: int, **others: Any) -> tuple[Any, ...]:
    """A hosted node, which the test hosts switch off: one color, computed from prompt and seed."""
    note("hosted")
    color = crc32(f"{prompt}|{seed}".encode()).to_bytes(4, "big")[:3]
    return torch.tensor(list(color)).expand(1, 128, 128, 3) / 255, ""


SEEN = {"image": ("IMAGE",), "image_b": ("IMAGE",), "grounding_px": number(768), "system_prompt": TEXT}


@declared("Krea2EditGroundedEncode", "CONDITIONING", needs={"clip": ("CLIP",), "prompt": TEXT}, may=SEEN)
def krea2_encode(
    clip: Any, prompt: str, image: Any = None, image_b: Any = None, **others: Any
) -> tuple[list]:
    """Krea 2 Identity Edit's encode node: here the mean color of the images is added to the text."""
    colors = [one.mean() for one in (image, image_b) if one is not None]
    return ([[text + 10 * sum(colors), extra] for text, extra in encoded(clip, prompt)],)


PATCHED = {"model": ("MODEL",), "source_latent": ("LATENT",)}


@declared("Krea2EditModelPatch", "MODEL", needs=PATCHED, may={"source_latent_b": ("LATENT",)})
def krea2_patch(model: Any, source_latent: Any, source_latent_b: Any = None) -> tuple[Any]:
    """Krea 2 Identity Edit's patch node: here the latents are added to what the model predicts."""
    latents = [one["samples"] for one in (source_latent, source_latent_b) if one is not None]

    def predict(apply: Any, given: dict[str, Any]) -> torch.Tensor:
        predicted = apply(given["input"], given["timestep"], **given["c"])
        for place, latent in enumerate(latents, 1):
            predicted = predicted + latent.to(predicted) / place
        return predicted

    patched = model.clone()
    patched.set_model_unet_function_wrapper(predict)
    return (patched,)
