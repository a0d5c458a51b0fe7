"""Sampling, each function as the host's own node of that name does it.

Decision: the pack calls what those nodes call, so that an image is the official graph's to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import comfy.model_management as memory
import comfy.sample
import comfy.samplers
import comfy.utils
import latent_preview
import node_helpers
import torch

from ...backend.counters import count
from .node_registry import call_node
from .progress import report_step


def samplers() -> list[str]:
    """Names of the host's samplers."""
    return list(comfy.samplers.SAMPLER_NAMES)


def schedulers() -> list[str]:
    """Names of the host's noise schedules."""
    return list(comfy.samplers.SCHEDULER_NAMES)


def model_sigmas(model: Any, sampler: str, scheduler: str, steps: int, denoise: float) -> torch.Tensor:
    """Noise levels of one of the host's schedules for this model (KSampler)."""
    plan = comfy.samplers.KSampler(
        model, steps=steps, device=torch.device("cpu"), sampler=sampler, scheduler=scheduler, denoise=denoise
    )
    return plan.sigmas


def flux2_sigmas(steps: int, size: tuple[int, int]) -> torch.Tensor:
    """Noise levels of FLUX.2 for an image of this width and height (Flux2Scheduler)."""
    return call_node("Flux2Scheduler", steps=steps, width=size[0], height=size[1])[0]


def encode_text(clip: Any, text: str) -> list:
    """Conditioning of a prompt (CLIPTextEncode)."""
    return clip.encode_from_tokens_scheduled(clip.tokenize(text))


def zero_out(conditioning: list) -> list:
    """The conditioning with nothing in it (ConditioningZeroOut)."""
    return call_node("ConditioningZeroOut", conditioning=conditioning)[0]


def add_reference(conditioning: list, latent: torch.Tensor) -> list:
    """The conditioning with one more image to edit (ReferenceLatent)."""
    return node_helpers.conditioning_set_values(conditioning, {"reference_latents": [latent]}, append=True)


def add_guidance(conditioning: list, guidance: float) -> list:
    """The conditioning with a distilled guidance (FluxGuidance)."""
    return node_helpers.conditioning_set_values(conditioning, {"guidance": guidance})


def lay_out_references(conditioning: list, method: str) -> list:
    """The conditioning with its references laid out by this method (Edit Model Reference Method)."""
    return node_helpers.conditioning_set_values(conditioning, {"reference_latents_method": method})


def scale(
    pixels: torch.Tensor, size: tuple[int, int], method: str = "nearest-exact", crop: str = "disabled"
) -> torch.Tensor:
    """Images `[B, H, W, C]` at another width and height (ImageScale); `crop` "center" keeps the shape by
    cutting."""
    return comfy.utils.common_upscale(pixels.movedim(-1, 1), size[0], size[1], method, crop).movedim(1, -1)


def empty_latent(model: Any, size: tuple[int, int]) -> torch.Tensor:
    """Zeros of the shape that this model's latents have for an image of this width and height."""
    latent_format = model.get_model_object("latent_format")
    ratio = latent_format.spacial_downscale_ratio
    shape = [1, latent_format.latent_channels, size[1] // ratio, size[0] // ratio]
    empty = torch.zeros(shape, device=memory.intermediate_device())
    return comfy.sample.fix_empty_latent_channels(model, empty)


@dataclass(frozen=True)
class Guidance:
    """The conditionings that guide sampling, and how strongly; with a `middle` one it is guided twice: by
    `cfg` from middle to positive, by `middle_cfg` from negative to middle."""

    positive: list
    negative: list
    cfg: float
    middle: list | None = None
    middle_cfg: float = 1.0

    def guider(self, model: Any) -> Any:
        """The host's own (CFGGuider, or DualCFGGuider with a middle conditioning)."""
        if self.middle is None:
            guider = comfy.samplers.CFGGuider(model)
            guider.set_conds(self.positive, self.negative)
            guider.set_cfg(self.cfg)
            return guider
        strengths = {"cfg_conds": self.cfg, "cfg_cond2_negative": self.middle_cfg, "style": "regular"}
        conds = {"cond1": self.positive, "cond2": self.middle, "negative": self.negative}
        return call_node("DualCFGGuider", model=model, **conds, **strengths)[0]


def sample(
    model: Any, guidance: Guidance, sampler: str, sigmas: torch.Tensor, latent: torch.Tensor, seed: int
) -> torch.Tensor:
    """Latent after sampling (RandomNoise, SamplerCustomAdvanced), reporting every step."""
    previewer = latent_preview.get_previewer(model.load_device, model.model.latent_format)

    def on_step(step: int, denoised: torch.Tensor, noisy: torch.Tensor, total: int) -> None:
        preview = previewer.decode_latent_to_preview_image("JPEG", denoised) if previewer else None
        count(sampler_steps=1)
        report_step((step + 1) / total, preview)

    latent = comfy.sample.fix_empty_latent_channels(model, latent)
    noise = comfy.sample.prepare_noise(latent, seed)
    result = guidance.guider(model).sample(
        noise, latent, comfy.samplers.sampler_object(sampler), sigmas,
        callback=on_step, disable_pbar=not comfy.utils.PROGRESS_BAR_ENABLED, seed=seed,
    )  # fmt: skip
    return result.to(memory.intermediate_device())
