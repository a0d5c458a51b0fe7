"""The official graphs of the other model families in API form, and ours on the same model.

As in `klein.py`, written out node for node; the loaders are one test node with the family's
tiny weights (`shim_pack/tiny_families.py`), and nodes that patch the MODEL are left out, since they stand
before either graph. `test_family_templates.py` checks them against the installed templates.
"""

from __future__ import annotations

from typing import Any

from .klein import Graph, node, story

STEPS = 2


def loaded(family: str) -> Graph:
    """The family's parts under ids model, clip, vae, as far as a link names a first output: see `link`."""
    return {"family": node("InterleaveTestFamily", family=family)}


MODEL, CLIP, VAE = ["family", 0], ["family", 1], ["family", 2]


def ours(family: str, request: str, prompts: list[str], size: tuple[int, int], **options: Any) -> Graph:
    """Return a story with the pack's nodes.

    `references` are names of input images; further options are those of the Step Generator.
    """
    own = {name: options.pop(name) for name in ("guidance", "color_match", "sampler") if name in options}
    references = options.pop("references", ())
    options = {"scheduler": "simple", "steps": STEPS, **options}
    graph = story(request, prompts, size, **options) | loaded(family)
    for name in ("model", "clip", "vae"):
        del graph[name]
    inputs = graph["generator"]["inputs"]
    inputs |= {"model": MODEL, "clip": CLIP, "vae": VAE, **own}
    for number, name in enumerate(references, 1):
        graph[f"pinned{number}"] = node("LoadImage", image=name)
        inputs[f"references.reference_{number}"] = [f"pinned{number}", 0]
    return graph


def saved(vae: Any = VAE) -> Graph:
    """From the sampled latent to the saved image."""
    return {
        "decoded": node("VAEDecode", samples="@sampled", vae=vae),
        "out": node("SaveImage", images="@decoded", filename_prefix="official"),
    }


def ksampler(seed: int, latent: str, cfg: float = 1.0, denoise: float = 1.0, **ends: str) -> Graph:
    """KSampler between two conditionings and a saved image."""
    return {
        "sampled": node(
            "KSampler",
            model=MODEL, positive=ends.get("positive", "@positive"), negative=ends.get("negative",
            "@negative"),
            latent_image=latent, seed=seed, steps=STEPS, cfg=cfg, sampler_name="euler", scheduler="simple",
            denoise=denoise,
        ),
        **saved(),
    }  # fmt: skip


def custom_sampler(seed: int, guider: dict[str, Any], sigmas: dict[str, Any]) -> Graph:
    """SamplerCustomAdvanced with this guider and noise schedule."""
    return {
        "guider": guider,
        "sigmas": sigmas,
        "sampler": node("KSamplerSelect", sampler_name="euler"),
        "noise": node("RandomNoise", noise_seed=seed),
        "sampled": node(
            "SamplerCustomAdvanced",
            noise="@noise", guider="@guider", sampler="@sampler", sigmas="@sigmas", latent_image="@latent",
        ),
        **saved(),
    }  # fmt: skip


def text(prompt: str, negative: str | None) -> Graph:
    """Both prompts; negative None: the positive, zeroed."""
    second = (
        node("ConditioningZeroOut", conditioning="@positive")
        if negative is None
        else node("CLIPTextEncode", clip=CLIP, text=negative)
    )
    return {"positive": node("CLIPTextEncode", clip=CLIP, text=prompt), "negative": second}


def text_to_image(
    family: str, prompt: str, seed: int, size: tuple[int, int], cfg: float = 1.0, negative: str | None = None
) -> Graph:
    """Return the text-to-image template of KSampler families (SD 1.5, SD3, Z-Image, Qwen-Image, FLUX.1)."""
    empty = "EmptyLatentImage" if family in ("sd15", "sdxl") else "EmptySD3LatentImage"
    return (
        loaded(family)
        | text(prompt, negative)
        | {"latent": node(empty, width=size[0], height=size[1], batch_size=1)}
        | ksampler(seed, "@latent", cfg)
    )


def image_to_image(
    family: str,
    prompt: str,
    seed: int,
    image: str,
    denoise: float,
    cfg: float = 1.0,
    negative: str | None = None,
) -> Graph:
    """Load Image, VAE Encode, KSampler with denoise below one."""
    return (
        loaded(family)
        | text(prompt, negative)
        | {
            "source": node("LoadImage", image=image),
            "latent": node("VAEEncode", pixels="@source", vae=VAE),
        }
        | ksampler(seed, "@latent", cfg, denoise)
    )


def kontext(
    prompt: str, seed: int, image: str, scaled: dict[str, Any] | None = None, guidance: float = 2.5
) -> Graph:
    """FLUX.1 Kontext's template with one image; `scaled` replaces FluxKontextImageScale."""
    return (
        loaded("flux1")
        | text(prompt, None)
        | {
            "source": node("LoadImage", image=image),
            "scaled": scaled or node("FluxKontextImageScale", image="@source"),
            "latent": node("VAEEncode", pixels="@scaled", vae=VAE),
            "reference": node("ReferenceLatent", conditioning="@positive", latent="@latent"),
            "guided": node("FluxGuidance", conditioning="@reference", guidance=guidance),
        }
        | ksampler(seed, "@latent", positive="@guided")
    )


def qwen_edit(prompt: str, seed: int, image: str, cfg: float = 1.0, negative: str = "") -> Graph:
    """Qwen-Image-Edit's template."""

    def encoded(text: str) -> dict[str, Any]:
        return node("TextEncodeQwenImageEdit", clip=CLIP, vae=VAE, image="@source", prompt=text)

    return (
        loaded("qwen image")
        | {
            "source": node("LoadImage", image=image),
            "positive": encoded(prompt),
            "negative": encoded(negative),
            "latent": node("VAEEncode", pixels="@source", vae=VAE),
        }
        | ksampler(seed, "@latent", cfg)
    )


def qwen_edit_plus(
    prompt: str,
    seed: int,
    images: tuple[str, ...],
    scaled: dict[str, Any] | None = None,
    family: str = "qwen image",
    method: str | None = None,
    cfg: float = 1.0,
    negative: str = "",
) -> Graph:
    """Return the template of Qwen-Image-Edit-2509, or 2511 with its `method`.

    `scaled` replaces FluxKontextImageScale.
    """
    graph = loaded(family) | {
        f"source{number}": node("LoadImage", image=name) for number, name in enumerate(images, 1)
    }
    graph["scaled"] = scaled or node("FluxKontextImageScale", image="@source1")
    shown = {"image1": "@scaled", **{f"image{n}": f"@source{n}" for n in range(2, len(images) + 1)}}
    for end, text in (("positive", prompt), ("negative", negative)):
        graph[end] = node("TextEncodeQwenImageEditPlus", clip=CLIP, vae=VAE, prompt=text, **shown)
        if method is not None:
            graph[f"laid_{end}"] = node(
                "FluxKontextMultiReferenceLatentMethod",
                conditioning=f"@{end}",
                reference_latents_method=method,
            )
    graph["latent"] = node("VAEEncode", pixels="@scaled", vae=VAE)
    mark = "@laid_" if method else "@"
    return graph | ksampler(seed, "@latent", cfg, positive=f"{mark}positive", negative=f"{mark}negative")


def omnigen2(
    prompt: str, seed: int, images: tuple[str, ...], area: float, cfg: float, guidance: float, negative: str
) -> Graph:
    """Return OmniGen2's edit template (text-to-image without `images`); `area` is in megapixels."""
    graph = loaded("omnigen2") | text(prompt, negative)
    first, second = "@positive", "@negative"
    for number, name in enumerate(images, 1):
        graph |= {
            f"source{number}": node("LoadImage", image=name),
            f"scaled{number}": node(
                "ImageScaleToTotalPixels",
                image=f"@source{number}", upscale_method="area", megapixels=area, resolution_steps=1,
            ),
            f"encoded{number}": node("VAEEncode", pixels=f"@scaled{number}", vae=VAE),
            f"first{number}": node("ReferenceLatent", conditioning=first, latent=f"@encoded{number}"),
            f"second{number}": node("ReferenceLatent", conditioning=second, latent=f"@encoded{number}"),
        }  # fmt: skip
        first, second = f"@first{number}", f"@second{number}"
    if images:
        graph["size"] = node("GetImageSize", image="@scaled1")
    width, height = (["size", 0], ["size", 1]) if images else (128, 128)
    graph["latent"] = node("EmptySD3LatentImage", width=width, height=height, batch_size=1)
    guider = node(
        "DualCFGGuider",
        model=MODEL, cond1=first, cond2=second, negative="@negative", cfg_conds=cfg,
        cfg_cond2_negative=guidance,
        style="regular",
    )  # fmt: skip
    sigmas = node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0)
    return graph | custom_sampler(seed, guider, sigmas)


def flux2_dev(prompt: str, seed: int, images: tuple[str, ...], size: tuple[int, int]) -> Graph:
    """FLUX.2 dev's templates with none, one or two images: one is scaled with lanczos, two with area."""
    graph = loaded("flux2 dev") | {
        "positive": node("CLIPTextEncode", clip=CLIP, text=prompt),
        "guided": node("FluxGuidance", conditioning="@positive", guidance=4.0),
    }
    end = "@guided"
    for number, name in enumerate(images, 1):
        graph |= {
            f"source{number}": node("LoadImage", image=name),
            f"scaled{number}": node(
                "ImageScaleToTotalPixels",
                image=f"@source{number}", upscale_method="lanczos" if len(images) == 1 else "area",
                megapixels=size[0] * size[1] / 1024**2, resolution_steps=1,
            ),
            f"encoded{number}": node("VAEEncode", pixels=f"@scaled{number}", vae=VAE),
            f"edit{number}": node("ReferenceLatent", conditioning=end, latent=f"@encoded{number}"),
        }  # fmt: skip
        end = f"@edit{number}"
    if images:
        graph["size"] = node("GetImageSize", image="@scaled1")
    width, height = (["size", 0], ["size", 1]) if images else size
    graph["latent"] = node("EmptyFlux2LatentImage", width=width, height=height, batch_size=1)
    guider = node("BasicGuider", model=MODEL, conditioning=end)
    sigmas = node("Flux2Scheduler", steps=STEPS, width=width, height=height)
    return graph | custom_sampler(seed, guider, sigmas)
