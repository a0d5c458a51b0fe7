"""Stand-ins for nodes of hosts that cannot be run here, with the inputs and outputs of their documentation.

They do on a tiny FLUX.2 what the documentation says of the real node: encode the prompt, attach the images as
reference latents, return an empty latent. A host that has a node keeps its own.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import comfy.utils
import node_helpers
import torch
from comfy_api.latest import io

from .counted import note

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


class ReferenceMultiLatent(io.ComfyNode):
    """FLUX 3 klein: images as reference latents on both conditionings."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        sizes = [
            io.DynamicCombo.Option("keep resolution", []),
            io.DynamicCombo.Option("resize", [io.Float.Input("megapixels", default=1.0)]),
        ]
        return io.Schema(
            node_id="ReferenceMultiLatent",
            inputs=[
                io.Conditioning.Input("positive"),
                io.Conditioning.Input("negative", optional=True),
                io.Vae.Input("vae", optional=True),
                io.DynamicCombo.Input("resolution", options=sizes),
                growing("image", 0, 100),
            ],
            outputs=[io.Conditioning.Output(), io.Conditioning.Output(), io.Latent.Output()],
        )

    @classmethod
    def execute(
        cls, positive: Any, resolution: Any, negative: Any = None, vae: Any = None, images: Any = None
    ) -> io.NodeOutput:
        assert resolution == {"resolution": "keep resolution"}, resolution
        shown = in_order(images)
        latent = {"samples": vae.encode(shown[0][:, :, :, :3]) * 0.0}
        ends = [with_images(end, vae, shown) for end in (positive, negative)]
        return io.NodeOutput(*ends, latent)


class TextEncodeFibo2(io.ComfyNode):
    """FIBO 2: both prompts and the latent. A single image is cropped to the size of the result."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="TextEncodeFibo2",
            inputs=[
                io.Clip.Input("clip"),
                io.String.Input("prompt"),
                io.String.Input("negative_prompt"),
                io.Vae.Input("vae", optional=True),
                growing("image_", 0, 16),
                io.Int.Input("width", default=0, max=16384),
                io.Int.Input("height", default=0, max=16384),
                io.Int.Input("batch_size", default=1),
            ],
            outputs=[io.Conditioning.Output(), io.Conditioning.Output(), io.Latent.Output()],
        )

    @classmethod
    def execute(
        cls,
        clip: Any,
        prompt: str,
        negative_prompt: str,
        width: int,
        height: int,
        batch_size: int,
        vae: Any = None,
        images: Any = None,
    ) -> io.NodeOutput:
        assert batch_size == 1
        shown = in_order(images)
        if len(shown) == 1:
            pixels = shown[0].movedim(-1, 1)
            shown = [comfy.utils.common_upscale(pixels, width, height, "lanczos", "center").movedim(1, -1)]
        ends = [with_images(encoded(clip, text), vae, shown) for text in (prompt, negative_prompt)]
        return io.NodeOutput(*ends, empty(width, height))


class TextEncodeMOSSImageEdit(io.ComfyNode):
    """MOSS-Image's edit LoRA: one conditioning with the images at the size they arrive."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        formats = ["ai-toolkit", "ai-toolkit (kv_cache off)", "Moss-Image-Edit"]
        return io.Schema(
            node_id="TextEncodeMOSSImageEdit",
            inputs=[
                io.Clip.Input("clip"),
                io.String.Input("prompt"),
                io.Vae.Input("vae", optional=True),
                io.Combo.Input("edit_format", options=formats),
                growing("image_", 1, 16),
                io.Float.Input("image_strength", default=1.0),
            ],
            outputs=[io.Conditioning.Output()],
        )

    @classmethod
    def execute(
        cls, clip: Any, prompt: str, edit_format: str, images: Any, image_strength: float, vae: Any = None
    ) -> io.NodeOutput:
        assert (edit_format, image_strength) == ("Moss-Image-Edit", 1.0)
        return io.NodeOutput(with_images(encoded(clip, prompt), vae, in_order(images)))


class MiniMaxH3ImageConditioning(io.ComfyNode):
    """MiniMax-H3-Image: one conditioning and the latent."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="MiniMaxH3ImageConditioning",
            inputs=[
                io.Clip.Input("clip"),
                io.Vae.Input("vae", optional=True),
                io.String.Input("prompt"),
                io.Int.Input("width", default=0, max=16384),
                io.Int.Input("height", default=0, max=16384),
                growing("image_", 0, 100),
            ],
            outputs=[io.Conditioning.Output(), io.Latent.Output()],
        )

    @classmethod
    def execute(
        cls, clip: Any, prompt: str, width: int, height: int, vae: Any = None, images: Any = None
    ) -> io.NodeOutput:
        assert width % 32 == height % 32 == 0 < width
        return io.NodeOutput(with_images(encoded(clip, prompt), vae, in_order(images)), empty(width, height))


class Krea2EditGroundedEncode:
    """Krea 2 Identity Edit's encode node: here the mean color of the images is added to the text."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "encode"
    RETURN_TYPES = ("CONDITIONING",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {"clip": ("CLIP",), "prompt": ("STRING", {"default": ""})},
            "optional": {
                "image": ("IMAGE",),
                "image_b": ("IMAGE",),
                "grounding_px": ("INT", {"default": 768}),
                "system_prompt": ("STRING", {"default": ""}),
            },
        }

    def encode(
        self,
        clip: Any,
        prompt: str,
        image: Any = None,
        image_b: Any = None,
        grounding_px: int = 768,
        system_prompt: str = "",
    ) -> tuple[list]:
        colors = [one.mean() for one in (image, image_b) if one is not None]
        return ([[text + 10 * sum(colors), extra] for text, extra in encoded(clip, prompt)],)


class Krea2EditModelPatch:
    """Krea 2 Identity Edit's patch node: here the latents are added to what the model predicts."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "patch"
    RETURN_TYPES = ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {"model": ("MODEL",), "source_latent": ("LATENT",)},
            "optional": {"source_latent_b": ("LATENT",)},
        }

    def patch(self, model: Any, source_latent: Any, source_latent_b: Any = None) -> tuple[Any]:
        latents = [one["samples"] for one in (source_latent, source_latent_b) if one is not None]

        def predict(apply: Any, given: dict[str, Any]) -> torch.Tensor:
            predicted = apply(given["input"], given["timestep"], **given["c"])
            for number, latent in enumerate(latents, 1):
                predicted = predicted + latent.to(predicted) / number
            return predicted

        patched = model.clone()
        patched.set_model_unet_function_wrapper(predict)
        return (patched,)


class GeminiImage2Node(io.ComfyNode):
    """A hosted node, which the test hosts switch off: one color, computed from prompt and seed."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        ratios = ["auto", "1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"]
        return io.Schema(
            node_id="GeminiImage2Node",
            display_name="Nano Banana Pro (Google Gemini Image)",
            inputs=[
                io.String.Input("prompt", multiline=True, default=""),
                io.Combo.Input("model", options=["gemini-3-pro-image-preview"]),
                io.Int.Input("seed", default=42, max=0xFFFFFFFFFFFFFFFF, control_after_generate=True),
                io.Combo.Input("aspect_ratio", options=ratios, default="auto"),
                io.Combo.Input("resolution", options=["1K", "2K", "4K"]),
                io.Combo.Input("response_modalities", options=["IMAGE+TEXT", "IMAGE"]),
                io.Image.Input("images", optional=True),
                io.Custom("GEMINI_INPUT_FILES").Input("files", optional=True),
                io.String.Input("system_prompt", multiline=True, default="", optional=True),
            ],
            outputs=[io.Image.Output(), io.String.Output()],
        )

    @classmethod
    def execute(cls, prompt: str, seed: int, **others: Any) -> io.NodeOutput:
        note("hosted")
        color = crc32(f"{prompt}|{seed}".encode()).to_bytes(4, "big")[:3]
        return io.NodeOutput(torch.tensor(list(color)).expand(1, 128, 128, 3) / 255, "")


def read_nodes(known: dict[str, Any]) -> dict[str, Any]:
    """Return the stand-ins for the nodes that are not among the known ones."""
    current = (
        ReferenceMultiLatent,
        TextEncodeFibo2,
        TextEncodeMOSSImageEdit,
        MiniMaxH3ImageConditioning,
        GeminiImage2Node,
    )
    nodes = {one.GET_SCHEMA().node_id: one for one in current}
    nodes |= {one.__name__: one for one in (Krea2EditGroundedEncode, Krea2EditModelPatch)}
    return {name: one for name, one in nodes.items() if name not in known}
