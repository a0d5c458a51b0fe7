"""Graphs of families whose nodes were read, not run: wired as their templates and documentation say.

The nodes are stand-ins (`shim_pack/read_nodes.py`) and the model is a tiny one of another class.
"""

from __future__ import annotations

from typing import Any

from .families import CLIP, MODEL, VAE, ksampler, loaded, text
from .klein import Graph, node
from .newer_families import Size, custom, shown, sources, total_pixels


def flux3_klein(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """FLUX 3 Image Klein's template; its own scaling of the images is off."""
    graph = loaded("flux2 dev") | sources(images) | text(prompt, negative)
    ends: dict[str, Any] = {"positive": "@positive", "negative": "@negative"}
    if not images:
        latent: Any = "@latent"
        graph["latent"] = node("EmptyFlux2LatentImage", width=size[0], height=size[1], batch_size=1)
    else:
        inputs = {f"images.image{number}": f"@source{number + 1}" for number in range(len(images))}
        graph["references"] = node(
            "ReferenceMultiLatent", vae=VAE, resolution="keep resolution", **ends, **inputs
        )
        ends = {"positive": ["references", 0], "negative": ["references", 1]}
        latent = ["references", 2]
    return graph | ksampler(seed, latent, cfg, **ends)


def fibo2(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """FIBO 2's template with the width and height of the result."""
    graph = loaded("flux2 dev") | sources(images)
    inputs = shown(images, "@source1") if images else {}
    graph["encoded"] = node(
        "TextEncodeFibo2",
        clip=CLIP, vae=VAE, prompt=prompt, negative_prompt=negative or "", width=size[0], height=size[1],
        batch_size=1, **inputs,
    )  # fmt: skip
    ends: dict[str, Any] = {"positive": ["encoded", 0], "negative": ["encoded", 1]}
    return graph | ksampler(seed, ["encoded", 2], cfg, **ends)


def moss_image(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """MOSS-Image's edit template, its text-to-image template without images."""
    graph = loaded("flux2 dev") | sources(images)
    if not images:
        graph |= text(prompt, negative)
        width, height = size
    else:
        for number in range(1, len(images) + 1):
            graph[f"scaled{number}"] = total_pixels(size, "lanczos", f"@source{number}")
        inputs = {f"images.image_{number}": f"@scaled{number + 1}" for number in range(len(images))}
        for end, words in (("positive", prompt), ("negative", negative or "")):
            graph[end] = node(
                "TextEncodeMOSSImageEdit",
                clip=CLIP, vae=VAE, prompt=words, edit_format="Moss-Image-Edit", image_strength=1.0, **inputs,
            )  # fmt: skip
        graph["size"] = node("GetImageSize", image="@scaled1")
        width, height = ["size", 0], ["size", 1]
    graph["latent"] = node("EmptyFlux2LatentImage", width=width, height=height, batch_size=1)
    return graph | ksampler(seed, "@latent", cfg)


def minimax_h3_image(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """MiniMax-H3-Image with the width and height of the result; a second node for the negative."""
    graph = loaded("flux2 dev") | sources(images)
    inputs = shown(images, "@source1") if images else {}
    for end, words in (("positive", prompt), ("negative", negative or "")):
        graph[end] = node(
            "MiniMaxH3ImageConditioning",
            clip=CLIP, vae=VAE, prompt=words, width=size[0], height=size[1], **inputs,
        )  # fmt: skip
    return graph | ksampler(seed, ["positive", 1], cfg)  # type: ignore[arg-type]


def sensenova(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """SenseNova with CLIP Text Encode and the node for reference images that it shares with HiDream-O1."""
    graph = loaded("hidream o1") | sources(images) | text(prompt, negative)
    ends: dict[str, Any] = {"positive": "@positive", "negative": "@negative"}
    if images:
        graph["references"] = node("HiDreamO1ReferenceImages", **ends, **shown(images, "@source1"))
        ends = {"positive": ["references", 0], "negative": ["references", 1]}
    graph["latent"] = node("EmptyHiDreamO1LatentImage", width=size[0], height=size[1], batch_size=1)
    return graph | custom(seed, cfg, **ends)


def krea2_identity(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """Krea 2 Identity Edit: both nodes of its pack, the second encode node with the same images."""
    graph = loaded("krea2") | sources(images)
    latents, seen = {}, {}
    for number, end in enumerate(("", "_b")[: len(images)], 1):
        graph[f"encoded{number}"] = node("VAEEncode", pixels=f"@source{number}", vae=VAE)
        latents[f"source_latent{end}"] = f"@encoded{number}"
        seen[f"image{end}"] = f"@source{number}"
    if not images:
        graph |= text(prompt, negative)
    for end, words in (("positive", prompt), ("negative", negative or "")) if images else ():
        graph[end] = node("Krea2EditGroundedEncode", clip=CLIP, prompt=words, **seen)
    graph["latent"] = node("EmptySD3LatentImage", width=size[0], height=size[1], batch_size=1)
    graph |= ksampler(seed, "@latent", cfg)
    if images:
        graph["patched"] = node("Krea2EditModelPatch", model=MODEL, **latents)
        graph["sampled"]["inputs"]["model"] = ["patched", 0]
    return graph


def bernini(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """Bernini-R's nodes for one frame, with one of its two models: the first image is edited."""
    graph = loaded("bernini") | sources(images) | text(prompt, negative)
    inputs: dict[str, Any] = {"source_video": "@source1"} if images else {}
    for number in range(2, len(images) + 1):
        inputs[f"reference_images.reference_image_{number - 2}"] = f"@source{number}"
    graph["conditioned"] = node(
        "BerniniConditioning",
        positive="@positive", negative="@negative", vae=VAE, width=size[0], height=size[1], length=1,
        batch_size=1, **inputs,
    )  # fmt: skip
    ends: dict[str, Any] = {"positive": ["conditioned", 0], "negative": ["conditioned", 1]}
    return graph | ksampler(seed, ["conditioned", 2], cfg, **ends)  # type: ignore[arg-type]


def firered(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """FireRed-Image-Edit's template: only the first image is scaled."""
    graph = loaded("qwen image") | sources(images)
    scaled = {"resize_type": "scale total pixels", "resize_type.megapixels": size[0] * size[1] / 1024**2}
    graph["scaled"] = node("ResizeImageMaskNode", input="@source1", scale_method="lanczos", **scaled)
    for end, words in (("positive", prompt), ("negative", negative or "")):
        graph[end] = node(
            "TextEncodeQwenImageEditPlus",
            clip=CLIP, vae=VAE, prompt=words, **shown(images, "@scaled", "image{}"),
        )  # fmt: skip
    graph["latent"] = node("VAEEncode", pixels="@scaled", vae=VAE)
    return graph | ksampler(seed, "@latent", cfg)
