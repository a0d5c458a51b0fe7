"""The official FLUX.2 klein graphs in API form, with the sizes made small.

Written out by hand, node for node as the host's templates "Flux.2 Klein 4B Distilled" (and the base
model's, which differ in steps, guidance and negative) have them, so that the tests need no front end to
convert a template; `test_templates.py` checks that the installed templates still consist of these nodes and
settings.
"""

from __future__ import annotations

from typing import Any

Graph = dict[str, dict[str, Any]]

MODEL = "flux-2-klein-4b-fp8.safetensors"
CLIP = "qwen_3_4b.safetensors"
VAE = "flux2-vae.safetensors"


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    """Return one node of a graph in API form. An input "@ID" is the first output of node ID."""
    links = {name: [value[1:], 0] if isinstance(value, str) and value.startswith("@") else value
             for name, value in inputs.items()}  # fmt: skip
    return {"class_type": class_type, "inputs": links}


def loaders() -> Graph:
    """Model, text encoder and VAE under ids model, clip, vae."""
    return {
        "model": node("UNETLoader", unet_name=MODEL, weight_dtype="default"),
        "clip": node("CLIPLoader", clip_name=CLIP, type="flux2", device="default"),
        "vae": node("VAELoader", vae_name=VAE),
    }


def text_to_image(
    prompt: str,
    seed: int,
    size: tuple[int, int],
    steps: int = 4,
    cfg: float = 1.0,
    negative: str | None = None,
) -> Graph:
    """Return the text-to-image template; SaveImage "out" has the result.

    `negative` None is the distilled one (ConditioningZeroOut).
    """
    return loaders() | {
        "positive": node("CLIPTextEncode", clip="@clip", text=prompt),
        "negative": negative_node(negative),
        "latent": node("EmptyFlux2LatentImage", width=size[0], height=size[1], batch_size=1),
        "sigmas": node("Flux2Scheduler", steps=steps, width=size[0], height=size[1]),
        **sampling(seed, cfg, "@positive", "@negative"),
    }


def image_edit(
    prompt: str,
    seed: int,
    image: str,
    megapixels: float,
    steps: int = 4,
    cfg: float = 1.0,
    negative: str | None = None,
    references: tuple[str, ...] = (),
) -> Graph:
    """Return the edit template with an input image and `references`, otherwise like `text_to_image`."""
    graph = loaders() | {
        "positive": node("CLIPTextEncode", clip="@clip", text=prompt),
        "negative": negative_node(negative),
    }
    positive, negative_end = "@positive", "@negative"
    for number, name in enumerate((image, *references)):
        mark = str(number or "")
        graph |= {
            f"source{mark}": node("LoadImage", image=name),
            f"scaled{mark}": node(
                "ImageScaleToTotalPixels",
                image=f"@source{mark}", upscale_method="nearest-exact", megapixels=megapixels,
                resolution_steps=1,
            ),
            f"reference{mark}": node("VAEEncode", pixels=f"@scaled{mark}", vae="@vae"),
            f"edit_positive{mark}": node(
                "ReferenceLatent", conditioning=positive, latent=f"@reference{mark}"
            ),
            f"edit_negative{mark}": node(
                "ReferenceLatent", conditioning=negative_end, latent=f"@reference{mark}"
            ),
        }  # fmt: skip
        positive, negative_end = f"@edit_positive{mark}", f"@edit_negative{mark}"
    return graph | {
        "size": node("GetImageSize", image="@scaled"),
        "latent": node("EmptyFlux2LatentImage", width=["size", 0], height=["size", 1], batch_size=1),
        "sigmas": node("Flux2Scheduler", steps=steps, width=["size", 0], height=["size", 1]),
        **sampling(seed, cfg, positive, negative_end),
    }


def negative_node(negative: str | None) -> dict[str, Any]:
    """Distilled models leave the negative empty, base models encode one."""
    if negative is None:
        return node("ConditioningZeroOut", conditioning="@positive")
    return node("CLIPTextEncode", clip="@clip", text=negative)


def sampling(seed: int, cfg: float, positive: str, negative: str) -> Graph:
    """From noise to the saved image, the same in both templates."""
    return {
        "guider": node("CFGGuider", model="@model", positive=positive, negative=negative, cfg=cfg),
        "sampler": node("KSamplerSelect", sampler_name="euler"),
        "noise": node("RandomNoise", noise_seed=seed),
        "sampled": node(
            "SamplerCustomAdvanced",
            noise="@noise", guider="@guider", sampler="@sampler", sigmas="@sigmas", latent_image="@latent",
        ),
        "decoded": node("VAEDecode", samples="@sampled", vae="@vae"),
        "out": node("SaveImage", images="@decoded", filename_prefix="official"),
    }  # fmt: skip


def story(
    request: str,
    prompts: list[str],
    size: tuple[int, int],
    image: str | None = None,
    seed: int = 0,
    steps: int = 4,
    cfg: float = 1.0,
    negative: str = "",
    edit: str = "auto",
    scheduler: str = "flux2",
    critic: str | None = None,
    max_attempts: int = 1,
    denoise: float = 0.75,
) -> Graph:
    """Return a graph that generates a given plan with the pack's nodes and the same model.

    Results: SaveImage "out", PreviewAny "report", Storyboard "board".
    """
    graph = loaders() | {
        "plan": node("InterleaveTestPlan", request=request, prompts="\n".join(prompts)),
        "generator": node(
            "InterleaveStepGenerator",
            model="@model", clip="@clip", vae="@vae", width=size[0], height=size[1], steps=steps, cfg=cfg,
            sampler="euler", scheduler=scheduler, edit=edit, denoise=denoise, negative=negative,
        ),
        "loop": node(
            "InterleaveCriticLoop",
            plan="@plan", generator="@generator", max_attempts=max_attempts, accept_at=0.0, keep="best",
            source="previous", on_failure="keep", seed=seed,
        ),
        "out": node("SaveImage", images="@loop", filename_prefix="ours"),
        "report": node("PreviewAny", source=["loop", 3]),
        "board": node(
            "InterleaveStoryboard", trajectory=["loop", 2], show="chosen", columns=0, cell=96, captions=True
        ),
    }  # fmt: skip
    if image is not None:
        graph["source"] = node("LoadImage", image=image)
        graph["plan"]["inputs"]["images"] = ["source", 0]
    if critic is not None:
        graph["critic"] = node("InterleaveTestAgent", replies=critic)
        graph["loop"]["inputs"]["critic"] = ["critic", 0]
    return graph
