"""Sampling functions, each equal to a node of the host.

They call what those nodes call, so images are bit-identical to those of the official workflow.
"""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import Any

import comfy.model_management as memory
import comfy.sample
import comfy.samplers
import comfy.utils
import latent_preview
import node_helpers
import torch

from ...backend.core.errors import SettingsError
from ..inputs.named_models import ModelTraits
from .progress import report_step
from .running_graph import call_node

TEXT_WIDTHS = (
    "context_in_dim",
    "context_dim",
    "cap_feat_dim",
    "text_feat_dim",
    "instruction_feat_dim",
    "llm_features_dim",
)


def model_traits(model: Any) -> ModelTraits:
    """Return the traits of a MODEL."""
    latent = model.get_model_object("latent_format")
    config = model.model.model_config.unet_config
    width = next((config[key] for key in TEXT_WIDTHS if config.get(key)), None)
    return ModelTraits(
        name=type(model.model).__name__,
        latent_channels=latent.latent_channels,
        latent_dimensions=latent.latent_dimensions,
        pixels_per_latent=latent.spacial_downscale_ratio,
        # A checkpoint with several transformer depths lists one width per depth.
        text_width=width[-1] if isinstance(width, (list, tuple)) else width,
        distilled_guidance=bool(config.get("guidance_embed")),
        image_features=bool(config.get("siglip_feat_dim")),
        timestep_zero=config.get("default_ref_method") == "index_timestep_zero",
        layered=bool(config.get("use_additional_t_cond")),
    )


def pipeline_dtype() -> str:
    """Return the dtype of diffusers pipelines on this device."""
    device = memory.get_torch_device()
    if device.type == "cpu":
        return "float32"
    return "bfloat16" if memory.should_use_bf16(device) else "float16"


def check_vae(model: ModelTraits, vae: Any, by_latents: bool = True) -> None:
    """Check that the VAE's latents fit the model; `by_latents` False checks only that there is a VAE.

    Raises:
        SettingsError: They do not.
    """
    if vae.first_stage_model is None:
        raise SettingsError("The VAE is empty.", "The checkpoint contains no VAE; load one with Load VAE.")
    if not by_latents:
        return
    channels = vae.latent_channels
    if channels != model.latent_channels:
        found = f"its latents have {channels} channels, the model's have {model.latent_channels}"
    elif vae.latent_dim == 3 and model.latent_dimensions == 2:
        found = "it is made for video latents"
    elif vae.spacial_compression_decode() != model.pixels_per_latent:
        found = (
            f"it has {vae.spacial_compression_decode()} pixels to a latent, the model "
            f"{model.pixels_per_latent}"
        )
    else:
        return
    raise SettingsError(
        f"The VAE does not belong to the {model.name} model: {found}.",
        "Connect the VAE that came with the model.",
    )


def check_text(model: ModelTraits, conditioning: list) -> None:
    """Check that the text encoder's vectors have the model's length.

    Raises:
        SettingsError: They do not.
    """
    width = conditioning[0][0].shape[-1]
    if model.text_width is not None and width != model.text_width:
        raise SettingsError(
            f"The text encoder does not belong to the {model.name} model: "
            f"its vectors have {width} values, the model needs {model.text_width}.",
            "Connect the CLIP of the model's own workflow, loaded with the same type.",
        )


def samplers() -> list[str]:
    """Return the names of the host's samplers."""
    return list(comfy.samplers.SAMPLER_NAMES)


def schedulers() -> list[str]:
    """Return the names of the host's noise schedules."""
    return list(comfy.samplers.SCHEDULER_NAMES)


def model_sigmas(model: Any, sampler: str, scheduler: str, steps: int, denoise: float) -> torch.Tensor:
    """Return the noise levels `(steps + 1,)` of one of the host's schedules for this model (KSampler)."""
    plan = comfy.samplers.KSampler(
        model, steps=steps, device=torch.device("cpu"), sampler=sampler, scheduler=scheduler, denoise=denoise
    )
    return plan.sigmas


def flux2_sigmas(steps: int, size: tuple[int, int]) -> torch.Tensor:
    """Return the noise levels `(steps + 1,)` of FLUX.2 for this width and height (Flux2Scheduler)."""
    return call_node("Flux2Scheduler", steps=steps, width=size[0], height=size[1])[0]


def encode_text(clip: Any, text: str) -> list:
    """Return the conditioning of a prompt (CLIPTextEncode)."""
    return clip.encode_from_tokens_scheduled(clip.tokenize(text))


def zero_out(conditioning: list) -> list:
    """Return the zeroed conditioning (ConditioningZeroOut)."""
    return call_node("ConditioningZeroOut", conditioning=conditioning)[0]


def add_reference(conditioning: list, latent: torch.Tensor) -> list:
    """Return the conditioning with one more reference latent (ReferenceLatent)."""
    return node_helpers.conditioning_set_values(conditioning, {"reference_latents": [latent]}, append=True)


def add_guidance(conditioning: list, guidance: float) -> list:
    """Return the conditioning with a distilled guidance (FluxGuidance)."""
    return node_helpers.conditioning_set_values(conditioning, {"guidance": guidance})


def lay_out_references(conditioning: list, method: str) -> list:
    """Return the conditioning with this reference method (Edit Model Reference Method)."""
    return node_helpers.conditioning_set_values(conditioning, {"reference_latents_method": method})


def with_lora(model: Any, clip: Any, name: str, strength: float) -> tuple[Any, Any]:
    """Return copies of model and CLIP with a LoRA from the host's list (LoraLoader)."""
    inputs = {"lora_name": name, "strength_model": strength, "strength_clip": strength}
    patched, text_encoder, *_ = call_node("LoraLoader", model=model, clip=clip, **inputs)
    return patched, text_encoder


def scale(
    pixels: torch.Tensor, size: tuple[int, int], method: str = "nearest-exact", crop: str = "disabled"
) -> torch.Tensor:
    """Scale images `(batch, height, width, channels)` to another width and height (ImageScale).

    `crop` "center" keeps the shape by cropping.
    """
    return comfy.utils.common_upscale(pixels.movedim(-1, 1), size[0], size[1], method, crop).movedim(1, -1)


def empty_latent(model: Any, size: tuple[int, int]) -> torch.Tensor:
    """Return an empty latent `(1, channels, height, width)` for an image of this width and height."""
    latent_format = model.get_model_object("latent_format")
    ratio = latent_format.spacial_downscale_ratio
    shape = [1, latent_format.latent_channels, size[1] // ratio, size[0] // ratio]
    empty = torch.zeros(shape, device=memory.intermediate_device())
    return comfy.sample.fix_empty_latent_channels(model, empty)


def last_sigmas(sigmas: torch.Tensor, denoise: float) -> torch.Tensor:
    """Return the end of a noise schedule that replaces this share of an image (SplitSigmasDenoise)."""
    steps = max(1, round((len(sigmas) - 1) * denoise))
    return sigmas[-(steps + 1) :]


def check_guider(guider: Any, model: str) -> None:
    """Check that a guider takes a step's conditionings and guides a model of this class.

    Raises:
        SettingsError: It does not.
    """
    guided = type(guider.model_patcher.model).__name__
    if guided != model:
        raise SettingsError(
            f"Step Options: the guider has a {guided} model, but the Step Generator has a {model} model.",
            "Connect the same model to both.",
        )
    taken = set(inspect.signature(guider.set_conds).parameters)
    if not taken <= {"positive", "negative", "middle"}:
        unknown = ", ".join(sorted(taken - {"positive", "negative", "middle"}))
        raise SettingsError(
            f"Step Options: {type(guider).__name__} needs {unknown}, which a step does not have.",
            "Connect CFGGuider, BasicGuider or DualModelGuider.",
        )


def with_conditionings(guider: Any, guidance: Guidance) -> Any:
    """Return a copy of a graph's guider with the conditionings of a step.

    Raises:
        SettingsError: The guider needs one that the step does not have.
    """
    own = copy.copy(guider)
    own.original_conds = dict(guider.original_conds)
    given = {"positive": guidance.positive, "negative": guidance.negative, "middle": guidance.middle}
    wanted = {name: given[name] for name in inspect.signature(own.set_conds).parameters}
    if wanted.get("middle", ()) is None:
        raise SettingsError(
            "Step Options: DualCFGGuider needs a second conditioning, which only OmniGen2 has.",
            "Connect CFGGuider or BasicGuider.",
        )
    own.set_conds(**wanted)
    return own


APPLIED = ("control", "control_apply_to_uncond", "concat_latent_image", "concat_mask")
"""Entries that can be copied from one conditioning to another, since they do not depend on the text."""


def applied_to(conditioning: list) -> dict[str, Any]:
    """Return what is applied to a conditioning, such as ControlNet.

    Raises:
        SettingsError: Nothing is applied, or the conditioning is a combination of several.
    """
    found = [{key: extra[key] for key in APPLIED if key in extra} for _, extra in conditioning]
    if len(found) != 1 or not found[0]:
        raise SettingsError(
            "Step Options: nothing that every step could use is applied to the connected conditioning."
            if len(found) == 1
            else "Step Options: the connected conditioning is a combination of several.",
            "Connect the output of Apply ControlNet for any text; the text itself is ignored.",
        )
    return found[0]


def with_applied(applied: list, *conditionings: list | None) -> list[list | None]:
    """Return conditionings, positive first, with what is applied to another one.

    It is applied like the host's nodes do for positive and negative.
    """
    extra = applied_to(applied)
    # If it is applied to the positive only, the host copies it to the others.
    alone = extra.get("control_apply_to_uncond", False)
    return [
        one if one is None or (number and alone) else node_helpers.conditioning_set_values(one, dict(extra))
        for number, one in enumerate(conditionings)
    ]


@dataclass(frozen=True)
class Guidance:
    """Conditionings that guide sampling, with their strengths.

    With a `middle` conditioning there are two: `cfg` from middle to positive, `middle_cfg` from negative to
    middle.
    """

    positive: list
    negative: list
    cfg: float
    middle: list | None = None
    middle_cfg: float = 1.0

    def guider(self, model: Any) -> Any:
        """Return the host's CFGGuider, or DualCFGGuider with a middle conditioning."""
        if self.middle is None:
            guider = comfy.samplers.CFGGuider(model)
            guider.set_conds(self.positive, self.negative)
            guider.set_cfg(self.cfg)
            return guider
        strengths = {"cfg_conds": self.cfg, "cfg_cond2_negative": self.middle_cfg, "style": "regular"}
        conds = {"cond1": self.positive, "cond2": self.middle, "negative": self.negative}
        return call_node("DualCFGGuider", model=model, **conds, **strengths)[0]


@dataclass(frozen=True)
class Sampling:
    """Inputs of the host's sampling.

    Attributes:
        guider: Guider with model and conditionings.
        sampler: Name or object.
        sigmas: Noise levels, `(steps + 1,)`.
        noise: Noise object of the graph, `None` for plain noise.
        mask: Where the latent may change, `(1, 1, height, width)`.
    """

    guider: Any
    sampler: Any
    sigmas: torch.Tensor
    noise: Any = None
    mask: torch.Tensor | None = None

    def sample(self, latent: torch.Tensor, seed: int) -> torch.Tensor:
        """Return the latent after sampling (SamplerCustomAdvanced), and report every step."""
        model = self.guider.model_patcher
        previewer = latent_preview.get_previewer(model.load_device, model.model.latent_format)

        def on_step(step: int, denoised: torch.Tensor, noisy: torch.Tensor, total: int) -> None:
            preview = previewer.decode_latent_to_preview_image("JPEG", denoised) if previewer else None
            report_step((step + 1) / total, preview)

        sampler, masked = self.sampler, {} if self.mask is None else {"denoise_mask": self.mask}
        latent = comfy.sample.fix_empty_latent_channels(model, latent)
        result = self.guider.sample(
            self._noise(latent, seed), latent,
            comfy.samplers.sampler_object(sampler) if isinstance(sampler, str) else sampler, self.sigmas,
            callback=on_step, disable_pbar=not comfy.utils.PROGRESS_BAR_ENABLED, seed=seed, **masked,
        )  # fmt: skip
        return result.to(memory.intermediate_device())

    def _noise(self, latent: torch.Tensor, seed: int) -> torch.Tensor:
        if self.noise is None:
            return comfy.sample.prepare_noise(latent, seed)
        # Each attempt has its own seed, and the graph's object is shared with other nodes.
        own = copy.copy(self.noise)
        own.seed = seed
        return own.generate_noise({"samples": latent})
