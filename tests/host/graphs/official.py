"""The official graphs of every model family in API form, and ours on the same model.

They are written out node for node as the host's templates have them, with the sizes made small, so that the
tests need no front end to convert a template. `drawing/test_official_templates.py` compares them with the
installed templates. FLUX.2 klein is loaded from files; the loaders of the other families are one test node
with tiny weights (`shim_pack/tiny_families.py`). Nodes that patch the MODEL are left out, since they stand
before either graph. Nodes that a host lacks are stand-ins of the same signature (`shim_pack/read_nodes.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .stories import Graph, changed, loaders, node, step_generator, story

Size = tuple[int, int]
Images = tuple[str, ...]
Words = str | None

MODEL, CLIP, VAE = ["family", 0], ["family", 1], ["family", 2]
STEPS = 2
ENDS = ("positive", "negative")
SMALL = (64, 64)
GUIDED = {"cfg": 4.0, "negative": "blurry"}


def loaded(family: str) -> Graph:
    """The family's model, text encoder and VAE; see MODEL, CLIP and VAE."""
    return {"family": node("InterleaveTestFamily", family=family)}


def ours(family: str, request: str, prompts: list[str], size: Size, **options: Any) -> Graph:
    """Return a story with the pack's nodes.

    `references` are names of input images; further options are those of `story`.
    """
    references = options.pop("references", ())
    if family == "klein":
        graph = story(request, prompts, size, **options)
    else:
        names = ("image", "critic", "seed", "max_attempts")
        others = {name: options.pop(name) for name in names if name in options}
        models = {"model": MODEL, "clip": CLIP, "vae": VAE, "scheduler": "simple", "steps": STEPS}
        generator = step_generator(size, **{**models, **options})
        graph = story(request, prompts, size, generator=generator, **others) | loaded(family)
    for number, name in enumerate(references, 1):
        graph[f"pinned{number}"] = node("LoadImage", image=name)
        graph = changed(graph, "generator", **{f"references.reference_{number}": f"@pinned{number}"})
    return graph


# Parts


def saved(vae: Any = VAE) -> Graph:
    """From the sampled latent to the saved image."""
    return {
        "decoded": node("VAEDecode", samples="@sampled", vae=vae),
        "out": node("SaveImage", images="@decoded", filename_prefix="official"),
    }


def ksampler(
    seed: int, latent: Any = "@latent", cfg: float = 1.0, denoise: float = 1.0, **ends: Any
) -> Graph:
    """KSampler between two conditionings and a saved image."""
    ends = {"positive": "@positive", "negative": "@negative", **ends}
    settings = {
        "steps": STEPS,
        "cfg": cfg,
        "sampler_name": "euler",
        "scheduler": "simple",
        "denoise": denoise,
    }
    sampled = node("KSampler", model=MODEL, latent_image=latent, seed=seed, **settings, **ends)
    return {"sampled": sampled, **saved()}


def custom(seed: int, cfg: float, **ends: Any) -> Graph:
    """SamplerCustom between two conditionings and a saved image."""
    return {
        "sigmas": node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0),
        "sampler": node("KSamplerSelect", sampler_name="euler"),
        "sampled": node(
            "SamplerCustom",
            model=MODEL, add_noise=True, noise_seed=seed, cfg=cfg, sampler="@sampler", sigmas="@sigmas",
            latent_image="@latent", **ends,
        ),
        **saved(),
    }  # fmt: skip


def custom_sampler(seed: int, guider: dict[str, Any], sigmas: dict[str, Any], vae: Any = VAE) -> Graph:
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
        **saved(vae),
    }  # fmt: skip


def text(prompt: str, negative: str | None = None, clip: Any = CLIP) -> Graph:
    """Both prompts; negative `None`: the positive, zeroed."""
    second = (
        node("ConditioningZeroOut", conditioning="@positive")
        if negative is None
        else node("CLIPTextEncode", clip=clip, text=negative)
    )
    return {"positive": node("CLIPTextEncode", clip=clip, text=prompt), "negative": second}


def sources(images: Images) -> Graph:
    """The input images under ids source1, source2..."""
    return {f"source{number}": node("LoadImage", image=name) for number, name in enumerate(images, 1)}


def images_as(name: str, images: Images, first: str = "@source1", start: int = 1) -> dict[str, str]:
    """The images as inputs of an encode node: the first one as `first`, the others as they are loaded."""
    rest = {name.format(number + start): f"@source{number + 1}" for number in range(1, len(images))}
    return {name.format(start): first, **rest} if images else {}


def total_pixels(size: Size, method: str, source: str = "@source1", steps: int = 16) -> dict[str, Any]:
    """ImageScaleToTotalPixels to the area of a size."""
    area = size[0] * size[1] / 1024**2
    return node(
        "ImageScaleToTotalPixels",
        image=source, upscale_method=method, megapixels=area, resolution_steps=steps,
    )  # fmt: skip


def resized(size: Size) -> dict[str, Any]:
    """ResizeImageMaskNode to the area of a size."""
    scaled = {"resize_type": "scale total pixels", "resize_type.megapixels": size[0] * size[1] / 1024**2}
    return node("ResizeImageMaskNode", input="@source1", scale_method="lanczos", **scaled)


def empty(kind: str, size: Size | str) -> Graph:
    """An empty latent of this class, at a size or that of the image with an id."""
    size_of: Graph = {"size": node("GetImageSize", image=size)} if isinstance(size, str) else {}
    width, height = (["size", 0], ["size", 1]) if isinstance(size, str) else size
    return size_of | {"latent": node(kind, width=width, height=height, batch_size=1)}


def laid(graph: Graph, method: str, before: str = "") -> dict[str, Any]:
    """Add a node for the method of several references behind both conditionings, and return the ends."""
    for end in ENDS:
        graph[f"laid_{end}"] = node(
            "FluxKontextMultiReferenceLatentMethod",
            conditioning=f"@{before}{end}", reference_latents_method=method,
        )  # fmt: skip
    return {end: f"@laid_{end}" for end in ENDS}


# Families: prompt, seed, images, size; with cfg and negative where the model has them


def klein(
    prompt: str,
    seed: int,
    images: Images,
    size: Size,
    cfg: float = 1.0,
    negative: str | None = None,
    steps: int = 4,
) -> Graph:
    """FLUX.2 klein's templates, from text or with images; `negative` None is the distilled model's."""
    graph = loaders() | text(prompt, negative, ["clip", 0])
    ends = {end: f"@{end}" for end in ENDS}
    for number, name in enumerate(images):
        mark = str(number or "")
        graph |= {
            f"source{mark}": node("LoadImage", image=name),
            f"scaled{mark}": total_pixels(size, "nearest-exact", f"@source{mark}", 1),
            f"reference{mark}": node("VAEEncode", pixels=f"@scaled{mark}", vae="@vae"),
        }
        for end in ENDS:
            graph[f"edit_{end}{mark}"] = node(
                "ReferenceLatent", conditioning=ends[end], latent=f"@reference{mark}"
            )
            ends[end] = f"@edit_{end}{mark}"
    graph |= empty("EmptyFlux2LatentImage", "@scaled" if images else size)
    latent = graph["latent"]["inputs"]
    guider = node("CFGGuider", model="@model", cfg=cfg, **ends)
    sigmas = node("Flux2Scheduler", steps=steps, width=latent["width"], height=latent["height"])
    return graph | custom_sampler(seed, guider, sigmas, ["vae", 0])


def from_text(family: str, prompt: str, seed: int, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """Return the text-to-image template of a KSampler family, with its empty latent."""
    kinds = {"ernie": "EmptyFlux2LatentImage"} | dict.fromkeys(
        ("sd15", "sdxl", "boogu", "krea2"), "EmptyLatentImage"
    )
    graph = loaded(family) | text(prompt, negative) | empty(kinds.get(family, "EmptySD3LatentImage"), size)
    ends: dict[str, Any] = {}
    if family == "longcat":
        for end in ENDS:
            graph[f"guided_{end}"] = node("FluxGuidance", conditioning=f"@{end}", guidance=4.0)
            ends[end] = f"@guided_{end}"
    return graph | ksampler(seed, "@latent", cfg, **ends)


def noised(
    family: str,
    prompt: str,
    seed: int,
    images: Images,
    size: Size,
    cfg: float = 1.0,
    negative: str | None = None,
    denoise: float = 0.6,
) -> Graph:
    """Return image to image: Load Image, VAE Encode, KSampler with denoise below one. Or from text."""
    if not images:
        return from_text(family, prompt, seed, size, cfg, negative)
    latent = node("VAEEncode", pixels="@source1", vae=VAE)
    graph = loaded(family) | text(prompt, negative) | sources(images) | {"latent": latent}
    return graph | ksampler(seed, "@latent", cfg, denoise)


def kontext(prompt: str, seed: int, images: Images, size: Size | None = None, guidance: float = 2.5) -> Graph:
    """FLUX.1 Kontext's template with one image; without a size as FluxKontextImageScale scales it."""
    return (
        loaded("flux1")
        | text(prompt)
        | sources(images)
        | {
            "scaled": cropped(size),
            "latent": node("VAEEncode", pixels="@scaled", vae=VAE),
            "reference": node("ReferenceLatent", conditioning="@positive", latent="@latent"),
            "guided": node("FluxGuidance", conditioning="@reference", guidance=guidance),
        }
        | ksampler(seed, positive="@guided")
    )


def cropped(size: Size | None) -> dict[str, Any]:
    """The first image at this size, or at that of the host's node for Kontext."""
    if size is None:
        return node("FluxKontextImageScale", image="@source1")
    scaling = {"upscale_method": "lanczos", "width": size[0], "height": size[1], "crop": "center"}
    return node("ImageScale", image="@source1", **scaling)


def qwen_edit(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: str = "") -> Graph:
    """Qwen-Image-Edit's template."""
    graph = loaded("qwen image") | sources(images)
    for end, words in zip(ENDS, (prompt, negative), strict=True):
        graph[end] = node("TextEncodeQwenImageEdit", clip=CLIP, vae=VAE, image="@source1", prompt=words)
    graph["latent"] = node("VAEEncode", pixels="@source1", vae=VAE)
    return graph | ksampler(seed, cfg=cfg)


def qwen_edit_plus(
    prompt: str,
    seed: int,
    images: Images,
    size: Size | None = None,
    cfg: float = 1.0,
    negative: str = "",
    method: str = "",
    scaled: dict[str, Any] | None = None,
) -> Graph:
    """Return the template of Qwen-Image-Edit-2509, or 2511 with its `method`; `scaled` is FireRed's."""
    graph = loaded("qwen image 2511" if method else "qwen image") | sources(images)
    graph["scaled"] = scaled or cropped(size)
    for end, words in zip(ENDS, (prompt, negative), strict=True):
        seen = images_as("image{}", images, "@scaled")
        graph[end] = node("TextEncodeQwenImageEditPlus", clip=CLIP, vae=VAE, prompt=words, **seen)
    ends = laid(graph, method) if method else {}
    graph["latent"] = node("VAEEncode", pixels="@scaled", vae=VAE)
    return graph | ksampler(seed, "@latent", cfg, **ends)


def firered(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """FireRed-Image-Edit's template: only the first image is scaled."""
    return qwen_edit_plus(prompt, seed, images, None, cfg, negative or "", scaled=resized(size))


def omnigen2(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """Return OmniGen2's edit template, or text-to-image without images."""
    graph = loaded("omnigen2") | sources(images) | text(prompt, negative)
    ends = {end: f"@{end}" for end in ENDS}
    for number in range(1, len(images) + 1):
        graph[f"scaled{number}"] = total_pixels(size, "area", f"@source{number}", 1)
        graph[f"encoded{number}"] = node("VAEEncode", pixels=f"@scaled{number}", vae=VAE)
        for end in ENDS:
            graph[f"{end}{number}"] = node(
                "ReferenceLatent", conditioning=ends[end], latent=f"@encoded{number}"
            )
            ends[end] = f"@{end}{number}"
    graph |= empty("EmptySD3LatentImage", "@scaled1" if images else size)
    guider = node(
        "DualCFGGuider",
        model=MODEL, cond1=ends["positive"], cond2=ends["negative"], negative="@negative", cfg_conds=cfg,
        cfg_cond2_negative=2.0, style="regular",
    )  # fmt: skip
    sigmas = node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0)
    return graph | custom_sampler(seed, guider, sigmas)


def flux2_dev(prompt: str, seed: int, images: Images, size: Size) -> Graph:
    """FLUX.2 dev's templates with none, one or two images: one is scaled with lanczos, two with area."""
    graph = loaded("flux2 dev") | sources(images)
    graph["positive"] = node("CLIPTextEncode", clip=CLIP, text=prompt)
    graph["guided"] = node("FluxGuidance", conditioning="@positive", guidance=4.0)
    end, method = "@guided", "lanczos" if len(images) == 1 else "area"
    for number in range(1, len(images) + 1):
        graph |= {
            f"scaled{number}": total_pixels(size, method, f"@source{number}", 1),
            f"encoded{number}": node("VAEEncode", pixels=f"@scaled{number}", vae=VAE),
            f"edit{number}": node("ReferenceLatent", conditioning=end, latent=f"@encoded{number}"),
        }
        end = f"@edit{number}"
    graph |= empty("EmptyFlux2LatentImage", "@scaled1" if images else size)
    latent = graph["latent"]["inputs"]
    guider = node("BasicGuider", model=MODEL, conditioning=end)
    sigmas = node("Flux2Scheduler", steps=STEPS, width=latent["width"], height=latent["height"])
    return graph | custom_sampler(seed, guider, sigmas)


def boogu_edit(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """Boogu-Image-Edit's template; the size is that of its resized image. Or from text."""
    if not images:
        return from_text("boogu", prompt, seed, size, cfg, negative)
    graph = loaded("boogu") | sources(images) | {"scaled": resized(size)}
    graph |= empty("EmptyLatentImage", "@scaled")
    words = {"prompt": prompt, "negative_prompt": negative or ""}
    seen = images_as("images.image_{}", images)
    graph["encoded"] = node("TextEncodeBooguEdit", clip=CLIP, vae=VAE, **words, **seen)
    return graph | custom(seed, cfg, positive=["encoded", 0], negative=["encoded", 1])


def joyimage_edit(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: str = "") -> Graph:
    """JoyAI-Image-Edit's template; further images, which it does not show, as the first one."""
    graph = loaded("joyimage") | sources(images)
    for number in range(1, len(images) + 1):
        graph[f"scaled{number}"] = total_pixels(size, "nearest-exact", f"@source{number}")
    inputs = {f"images.image{number}": f"@scaled{number + 1}" for number in range(len(images))}
    for end, words in zip(ENDS, (prompt, negative), strict=True):
        graph[end] = node("TextEncodeJoyImageEdit", clip=CLIP, vae=VAE, prompt=words, **inputs)
    return graph | empty("EmptySD3LatentImage", "@scaled1") | ksampler(seed, "@latent", cfg)


def mage_flow(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: str = "") -> Graph:
    """Return Mage-Flow's template: from text at a size, or the edit with its switch "resize" on.

    Further images are unchanged.
    """
    graph = loaded("mage flow") | sources(images)
    inputs: dict[str, Any] = {"width": size[0], "height": size[1]}
    if images:
        graph["scaled"] = total_pixels(size, "lanczos")
        graph["size"] = node("GetImageSize", image="@scaled")
        seen = images_as("images.image_{}", images, "@scaled")
        inputs = {"width": ["size", 0], "height": ["size", 1], **seen}
    words = {"prompt": prompt, "negative_prompt": negative, "batch_size": 1}
    graph["encoded"] = node("TextEncodeMageFlowEdit", clip=CLIP, vae=VAE, **words, **inputs)
    return graph | encoded_sampler(seed, cfg)


def encoded_sampler(seed: int, cfg: float, encoded: str = "encoded") -> Graph:
    """KSampler with both conditionings and the latent of one node."""
    return ksampler(seed, [encoded, 2], cfg, positive=[encoded, 0], negative=[encoded, 1])


def longcat_edit(
    prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None
) -> Graph:
    """LongCat-Image-Edit's template, or its text-to-image template."""
    if not images:
        return from_text("longcat", prompt, seed, size, cfg, negative)
    graph = loaded("longcat") | sources(images) | {"scaled": total_pixels(size, "lanczos")}
    for end, words in zip(ENDS, (prompt, negative or ""), strict=True):
        graph[end] = node("TextEncodeQwenImageEdit", clip=CLIP, vae=VAE, prompt=words, image="@scaled")
        graph[f"guided_{end}"] = node("FluxGuidance", conditioning=f"@{end}", guidance=4.5)
    ends = laid(graph, "index", "guided_")
    graph["latent"] = node("VAEEncode", pixels="@scaled", vae=VAE)
    return graph | ksampler(seed, "@latent", cfg, **ends)


def krea2_style(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """Krea 2's template with reference images, or from text."""
    if not images:
        return from_text("krea2", prompt, seed, size, cfg, negative)
    seen = images_as("image{}", images)
    graph = loaded("krea2") | sources(images) | empty("EmptyLatentImage", size)
    graph |= {
        "encoded": node("TextEncodeQwenImageEditPlus", clip=CLIP, vae=VAE, prompt=prompt, **seen),
        "positive": node(
            "FluxKontextMultiReferenceLatentMethod",
            conditioning="@encoded", reference_latents_method="index_timestep_zero",
        ),
        "negative": node("ConditioningZeroOut", conditioning="@positive"),
    }  # fmt: skip
    guider = node("CFGGuider", model=MODEL, positive="@positive", negative="@negative", cfg=1.0)
    sigmas = node("BasicScheduler", model=MODEL, scheduler="simple", steps=STEPS, denoise=1.0)
    return graph | custom_sampler(seed, guider, sigmas)


def hidream_o1(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = "") -> Graph:
    """HiDream-O1's template, its switch "edit" on where there are images; SenseNova's documentation."""
    graph = loaded("hidream o1") | sources(images) | text(prompt, negative)
    ends: dict[str, Any] = {end: f"@{end}" for end in ENDS}
    if images:
        seen = images_as("images.image_{}", images)
        graph["references"] = node("HiDreamO1ReferenceImages", **ends, **seen)
        ends = {"positive": ["references", 0], "negative": ["references", 1]}
    return graph | empty("EmptyHiDreamO1LatentImage", size) | custom(seed, cfg, **ends)


# Families whose nodes were read, not run: wired as their templates and documentation say


def flux3_klein(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """FLUX 3 Image Klein's template; its own scaling of the images is off."""
    graph = loaded("flux2 dev") | sources(images) | text(prompt, negative)
    if not images:
        return graph | empty("EmptyFlux2LatentImage", size) | ksampler(seed, "@latent", cfg)
    inputs = images_as("images.image{}", images, start=0)
    ends = {end: f"@{end}" for end in ENDS}
    graph["encoded"] = node("ReferenceMultiLatent", vae=VAE, resolution="keep resolution", **ends, **inputs)
    return graph | encoded_sampler(seed, cfg)


def fibo2(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """FIBO 2's template with the width and height of the result."""
    words = {"prompt": prompt, "negative_prompt": negative or "", "batch_size": 1}
    inputs = {"width": size[0], "height": size[1], **images_as("images.image_{}", images)}
    encoded = node("TextEncodeFibo2", clip=CLIP, vae=VAE, **words, **inputs)
    return loaded("flux2 dev") | sources(images) | {"encoded": encoded} | encoded_sampler(seed, cfg)


def moss_image(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """MOSS-Image's edit template, its text-to-image template without images."""
    graph = loaded("flux2 dev") | sources(images)
    if not images:
        graph |= text(prompt, negative)
    for number in range(1, len(images) + 1):
        graph[f"scaled{number}"] = total_pixels(size, "lanczos", f"@source{number}")
    inputs = {f"images.image_{number}": f"@scaled{number + 1}" for number in range(len(images))}
    for end, words in zip(ENDS, (prompt, negative or ""), strict=True) if images else ():
        graph[end] = node(
            "TextEncodeMOSSImageEdit",
            clip=CLIP, vae=VAE, prompt=words, edit_format="Moss-Image-Edit", image_strength=1.0, **inputs,
        )  # fmt: skip
    graph |= empty("EmptyFlux2LatentImage", "@scaled1" if images else size)
    return graph | ksampler(seed, "@latent", cfg)


def minimax_h3_image(
    prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None
) -> Graph:
    """MiniMax-H3-Image with the width and height of the result; a second node for the negative."""
    graph = loaded("flux2 dev") | sources(images)
    inputs = {"width": size[0], "height": size[1], **images_as("images.image_{}", images)}
    for end, words in zip(ENDS, (prompt, negative or ""), strict=True):
        graph[end] = node("MiniMaxH3ImageConditioning", clip=CLIP, vae=VAE, prompt=words, **inputs)
    return graph | ksampler(seed, ["positive", 1], cfg)


def krea2_identity(
    prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None
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
    for end, words in zip(ENDS, (prompt, negative or ""), strict=True) if images else ():
        graph[end] = node("Krea2EditGroundedEncode", clip=CLIP, prompt=words, **seen)
    graph |= empty("EmptySD3LatentImage", size) | ksampler(seed, "@latent", cfg)
    if images:
        graph["patched"] = node("Krea2EditModelPatch", model=MODEL, **latents)
        graph = changed(graph, "sampled", model="@patched")
    return graph


def bernini(prompt: str, seed: int, images: Images, size: Size, cfg=1.0, negative: Words = None) -> Graph:
    """Bernini-R's nodes for one frame, with one of its two models: the first image is edited."""
    graph = loaded("bernini") | sources(images) | text(prompt, negative)
    inputs: dict[str, Any] = {"source_video": "@source1"} if images else {}
    for number in range(2, len(images) + 1):
        inputs[f"reference_images.reference_image_{number - 2}"] = f"@source{number}"
    ends = {end: f"@{end}" for end in ENDS}
    frame = {"width": size[0], "height": size[1], "length": 1, "batch_size": 1}
    graph["conditioned"] = node("BerniniConditioning", vae=VAE, **ends, **frame, **inputs)
    return graph | encoded_sampler(seed, cfg, "conditioned")


@dataclass(frozen=True)
class Family:
    """A model family and how it is tested.

    Attributes:
        graph: Its official graph, called with prompt, seed, images, size, and cfg and negative.
        tiny: Name of the tiny model.
        edit: Edit method of the Step Generator.
        images: Most images tested.
        kind: Class name of the model, if the host does not know it.
        options: Further inputs of the Step Generator.
        plain: Tested with cfg 1.
        guided: Tested with cfg and a negative.
        text: Tested without an image.
        pinned: All images are references.
    """

    graph: Callable[..., Graph]
    tiny: str
    edit: str = "encode node"
    images: int = 3
    kind: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    plain: bool = True
    guided: bool = True
    text: bool = True
    pinned: bool = False


def of_noise(family: str, guided: bool = True) -> Family:
    """A family that edits by image to image."""
    noise = {"denoise": 0.6}
    graph = partial(noised, family)
    return Family(graph, family, "image to image", 1, options=noise, plain=not guided, guided=guided)


UNKNOWN = "NotKnownHere"
FAMILIES = {
    "flux2 klein": Family(klein, "klein", "auto", guided=False),
    "flux2 dev": Family(flux2_dev, "flux2 dev", "auto", 2, options={"scheduler": "flux2"}, guided=False),
    "flux1": of_noise("flux1", guided=False),
    "flux kontext": Family(kontext, "flux1", "flux kontext", 1, guided=False, text=False),
    "qwen image edit": Family(qwen_edit, "qwen image", "qwen image edit", 1, text=False),
    "qwen image edit plus": Family(qwen_edit_plus, "qwen image", "qwen image edit plus", 2, text=False),
    "qwen image edit 2511": Family(
        partial(qwen_edit_plus, method="index_timestep_zero"), "qwen image 2511", "auto", 1, text=False
    ),
    "omnigen2": Family(omnigen2, "omnigen2", "auto", 2, plain=False),
    **{name: of_noise(name) for name in ("sd15", "sdxl", "z-image", "ernie")},
    "krea2 by noise": of_noise("krea2"),
    "longcat by noise": of_noise("longcat"),
    "boogu": Family(boogu_edit, "boogu"),
    "joyimage": Family(joyimage_edit, "joyimage", images=2, text=False),
    "mage flow": Family(mage_flow, "mage flow"),
    "hidream o1": Family(hidream_o1, "hidream o1"),
    "longcat": Family(longcat_edit, "longcat", images=1),
    "krea2": Family(krea2_style, "krea2", images=2, guided=False, pinned=True),
    "flux 3 klein": Family(flux3_klein, "flux2 dev", "flux 3 klein", kind=UNKNOWN),
    "fibo 2": Family(fibo2, "flux2 dev", "fibo 2", kind=UNKNOWN),
    "moss image": Family(moss_image, "flux2 dev", "moss image edit", kind=UNKNOWN),
    "minimax h3 image": Family(minimax_h3_image, "flux2 dev", "minimax h3 image", kind="MiniMaxH3"),
    "sensenova": Family(hidream_o1, "hidream o1", "auto", kind="SenseNovaU15"),
    "krea 2 identity": Family(krea2_identity, "krea2", "krea 2 identity edit", 2),
    "bernini-r": Family(bernini, "bernini", "bernini-r"),
    "firered": Family(firered, "qwen image", "firered image edit", text=False),
}


def ours_of(name: str, prompt: str, images: Images = (), size: Size = (128, 128), **options: Any) -> Graph:
    """Return our story of one step for a family of FAMILIES, its images as the source and references."""
    family = FAMILIES[name]
    given: dict[str, Any] = {"references": images if family.pinned else images[1:]}
    if images and not family.pinned:
        given["image"] = images[0]
    request = f"{name} {prompt} {len(images)} {size} {sorted(options)}"
    graph = ours(family.tiny, request, [prompt], size, edit=family.edit, **given, **family.options, **options)
    if family.kind:
        graph["renamed"] = node("InterleaveTestRenamedModel", model=MODEL, kind=family.kind)
        graph = changed(graph, "generator", model="@renamed")
    return graph
