"""The official graphs of the families that only newer hosts know, in API form; else as in `families.py`."""

from __future__ import annotations

from typing import Any

from .families import CLIP, MODEL, STEPS, VAE, ksampler, loaded, saved, text
from .klein import Graph, node

Size = tuple[int, int]


def total_pixels(size: Size, method: str, source: str = "@source1") -> dict[str, Any]:
    """ImageScaleToTotalPixels to the area of a size, in steps of 16."""
    area = size[0] * size[1] / 1024**2
    return node(
        "ImageScaleToTotalPixels", image=source, upscale_method=method, megapixels=area, resolution_steps=16
    )


def sources(images: tuple[str, ...]) -> Graph:
    """The input images under ids source1, source2..."""
    return {f"source{number}": node("LoadImage", image=name) for number, name in enumerate(images, 1)}


def shown(images: tuple[str, ...], first: str, name: str = "images.image_{}") -> dict[str, str]:
    """The images as inputs of an encode node: the first one as `first`, the others as they are loaded."""
    rest = {name.format(number): f"@source{number}" for number in range(2, len(images) + 1)}
    return {name.format(1): first, **rest}


def custom(seed: int, cfg: float, **ends: Any) -> Graph:
    """SamplerCustom between two conditionings and a saved image."""
    return {
        "sigmas": node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0),
        "sampler": node("KSamplerSelect", sampler_name="euler"),
        "sampled": node(
            "SamplerCustom",
            model=MODEL, add_noise=True, noise_seed=seed, cfg=cfg, positive=ends["positive"],
            negative=ends["negative"], sampler="@sampler", sigmas="@sigmas", latent_image="@latent",
        ),
        **saved(),
    }  # fmt: skip


def boogu_edit(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str = ""
) -> Graph:
    """Boogu-Image-Edit's template; the size is that of its resized image."""
    scaled = {
        "resize_type": "scale total pixels",
        "resize_type.megapixels": size[0] * size[1] / 1024**2,
        "scale_method": "lanczos",
    }
    graph = loaded("boogu") | sources(images)
    graph |= {
        "scaled": node("ResizeImageMaskNode", input="@source1", **scaled),
        "size": node("GetImageSize", image="@scaled"),
        "latent": node("EmptyLatentImage", width=["size", 0], height=["size", 1], batch_size=1),
        "encoded": node(
            "TextEncodeBooguEdit",
            clip=CLIP, vae=VAE, prompt=prompt, negative_prompt=negative, **shown(images, "@source1"),
        ),
    }  # fmt: skip
    return graph | custom(seed, cfg, positive=["encoded", 0], negative=["encoded", 1])


def joyimage_edit(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str = ""
) -> Graph:
    """JoyAI-Image-Edit's template; further images, which it does not show, as the first one."""
    graph = loaded("joyimage") | sources(images)
    for number in range(1, len(images) + 1):
        graph[f"scaled{number}"] = total_pixels(size, "nearest-exact", f"@source{number}")
    inputs = {f"images.image{number}": f"@scaled{number + 1}" for number in range(len(images))}
    for end, words in (("positive", prompt), ("negative", negative)):
        graph[end] = node("TextEncodeJoyImageEdit", clip=CLIP, vae=VAE, prompt=words, **inputs)
    graph["size"] = node("GetImageSize", image="@scaled1")
    graph["latent"] = node("EmptySD3LatentImage", width=["size", 0], height=["size", 1], batch_size=1)
    return graph | ksampler(seed, "@latent", cfg)


def mage_flow(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str = ""
) -> Graph:
    """Return Mage-Flow's template: from text at a size, or the edit with its switch "resize" on.

    Further images are unchanged.
    """
    graph = loaded("mage flow") | sources(images)
    inputs: dict[str, Any] = {"width": size[0], "height": size[1]}
    if images:
        graph["scaled"] = total_pixels(size, "lanczos")
        graph["size"] = node("GetImageSize", image="@scaled")
        inputs = {"width": ["size", 0], "height": ["size", 1], **shown(images, "@scaled")}
    graph["encoded"] = node(
        "TextEncodeMageFlowEdit",
        clip=CLIP, vae=VAE, prompt=prompt, negative_prompt=negative, batch_size=1, **inputs,
    )  # fmt: skip
    ends = {"positive": ["encoded", 0], "negative": ["encoded", 1]}
    return graph | ksampler(seed, ["encoded", 2], cfg, **ends)


def longcat_edit(
    prompt: str, seed: int, image: str, size: Size, cfg: float = 1.0, negative: str = ""
) -> Graph:
    """LongCat-Image-Edit's template."""
    graph = loaded("longcat") | sources((image,)) | {"scaled": total_pixels(size, "lanczos")}
    for end, words in (("positive", prompt), ("negative", negative)):
        graph |= {
            end: node("TextEncodeQwenImageEdit", clip=CLIP, vae=VAE, prompt=words, image="@scaled"),
            f"guided_{end}": node("FluxGuidance", conditioning=f"@{end}", guidance=4.5),
            f"laid_{end}": node(
                "FluxKontextMultiReferenceLatentMethod",
                conditioning=f"@guided_{end}", reference_latents_method="index",
            ),
        }  # fmt: skip
    graph["latent"] = node("VAEEncode", pixels="@scaled", vae=VAE)
    return graph | ksampler(seed, "@latent", cfg, positive="@laid_positive", negative="@laid_negative")


def krea2_style(prompt: str, seed: int, images: tuple[str, ...], size: Size) -> Graph:
    """Krea 2's template with reference images."""
    images_shown = shown(images, "@source1", "image{}")
    return (
        loaded("krea2")
        | sources(images)
        | {
            "encoded": node("TextEncodeQwenImageEditPlus", clip=CLIP, vae=VAE, prompt=prompt, **images_shown),
            "positive": node(
                "FluxKontextMultiReferenceLatentMethod",
                conditioning="@encoded", reference_latents_method="index_timestep_zero",
            ),
            "negative": node("ConditioningZeroOut", conditioning="@positive"),
            "latent": node("EmptyLatentImage", width=size[0], height=size[1], batch_size=1),
            "guider": node("CFGGuider", model=MODEL, positive="@positive", negative="@negative", cfg=1.0),
            "sampler": node("KSamplerSelect", sampler_name="euler"),
            "sigmas": node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0),
            "noise": node("RandomNoise", noise_seed=seed),
            "sampled": node(
                "SamplerCustomAdvanced",
                noise="@noise", guider="@guider", sampler="@sampler", sigmas="@sigmas",
                latent_image="@latent",
            ),
        }
        | saved()
    )  # fmt: skip


def hidream_o1(
    prompt: str, seed: int, images: tuple[str, ...], size: Size, cfg: float = 1.0, negative: str = ""
) -> Graph:
    """HiDream-O1's template, its switch "edit" on where there are images."""
    graph = loaded("hidream o1") | sources(images) | text(prompt, negative)
    ends: dict[str, Any] = {"positive": "@positive", "negative": "@negative"}
    if images:
        inputs = shown(images, "@source1")
        graph["references"] = node("HiDreamO1ReferenceImages", **ends, **inputs)
        ends = {"positive": ["references", 0], "negative": ["references", 1]}
    graph["latent"] = node("EmptyHiDreamO1LatentImage", width=size[0], height=size[1], batch_size=1)
    return graph | custom(seed, cfg, **ends)


def from_text(
    family: str, prompt: str, seed: int, size: Size, cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """Return the text-to-image template of Boogu, LongCat-Image, Krea 2 or ERNIE, with its empty latent."""
    kinds = {"ernie": "EmptyFlux2LatentImage", "longcat": "EmptySD3LatentImage"}
    empty = kinds.get(family, "EmptyLatentImage")
    graph = loaded(family) | text(prompt, negative)
    graph["latent"] = node(empty, width=size[0], height=size[1], batch_size=1)
    ends: dict[str, Any] = {}
    if family == "longcat":
        for end in ("positive", "negative"):
            graph[f"guided_{end}"] = node("FluxGuidance", conditioning=f"@{end}", guidance=4.0)
            ends[end] = f"@guided_{end}"
    return graph | ksampler(seed, "@latent", cfg, **ends)
