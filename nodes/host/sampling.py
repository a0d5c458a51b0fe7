"""Sampling, each function as the host's own node of that name does it.

Decision: the pack calls what those nodes call, so that an image is the official graph's to the bit.
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

from ...backend.counters import count
from ...backend.errors import SettingsError
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


def last_sigmas(sigmas: torch.Tensor, denoise: float) -> torch.Tensor:
    """The end of a noise schedule that redraws this share of an image (SplitSigmasDenoise)."""
    steps = max(1, round((len(sigmas) - 1) * denoise))
    return sigmas[-(steps + 1) :]


def check_guider(guider: Any, model: str) -> None:
    """Raise SettingsError unless the guider takes a step's conditionings and guides a model of this class."""
    guided = type(guider.model_patcher.model).__name__
    if guided != model:
        raise SettingsError(
            f"The connected guider guides a {guided} model, the Step Generator has a {model}.",
            "Connect the same model to both.",
        )
    taken = set(inspect.signature(guider.set_conds).parameters)
    if not taken <= {"positive", "negative", "middle"}:
        unknown = ", ".join(sorted(taken - {"positive", "negative", "middle"}))
        raise SettingsError(
            f"{type(guider).__name__} is guided by {unknown}, which a step does not have.",
            "Connect CFGGuider, BasicGuider or DualModelGuider.",
        )


def with_conditionings(guider: Any, guidance: Guidance) -> Any:
    """A copy of a graph's guider, guided by the conditionings of a step; raises SettingsError if it wants one
    that the step has not."""
    own = copy.copy(guider)
    own.original_conds = dict(guider.original_conds)
    given = {"positive": guidance.positive, "negative": guidance.negative, "middle": guidance.middle}
    wanted = {name: given[name] for name in inspect.signature(own.set_conds).parameters}
    if wanted.get("middle", ()) is None:
        raise SettingsError(
            "DualCFGGuider guides by a second conditioning, which only OmniGen2's steps have.",
            "Connect CFGGuider or BasicGuider.",
        )
    own.set_conds(**wanted)
    return own


APPLIED = ("control", "control_apply_to_uncond", "concat_latent_image", "concat_mask")
"""What may be carried over from one conditioning to another: it does not depend on the text."""


def applied_to(conditioning: list) -> dict[str, Any]:
    """What hangs on a conditioning, such as control nets; raises SettingsError where nothing does."""
    found = [{key: extra[key] for key in APPLIED if key in extra} for _, extra in conditioning]
    if len(found) != 1 or not found[0]:
        raise SettingsError(
            "The connected conditioning has nothing applied to it that every step could take."
            if len(found) == 1
            else "The connected conditioning is combined of several.",
            "Connect what Apply ControlNet gives for any text; the text itself is not used.",
        )
    return found[0]


def with_applied(applied: list, *conditionings: list | None) -> list[list | None]:
    """Conditionings, the positive one first, with what hangs on another one, as the nodes that apply it to
    positive and negative do."""
    extra = applied_to(applied)
    # Applied to the positive alone, the host carries it over to the others by itself.
    alone = extra.get("control_apply_to_uncond", False)
    return [
        one if one is None or (number and alone) else node_helpers.conditioning_set_values(one, dict(extra))
        for number, one in enumerate(conditionings)
    ]


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


@dataclass(frozen=True)
class Sampling:
    """What the host's sampling takes: a guider, a sampler by name or object, sigmas `[steps + 1]`, and noise
    of a kind of its own (None is plain noise); `mask` `[1, 1, H, W]` says where the latent may change."""

    guider: Any
    sampler: Any
    sigmas: torch.Tensor
    noise: Any = None
    mask: torch.Tensor | None = None

    def sample(self, latent: torch.Tensor, seed: int) -> torch.Tensor:
        """Latent after sampling (SamplerCustomAdvanced), reporting every step."""
        model = self.guider.model_patcher
        previewer = latent_preview.get_previewer(model.load_device, model.model.latent_format)

        def on_step(step: int, denoised: torch.Tensor, noisy: torch.Tensor, total: int) -> None:
            preview = previewer.decode_latent_to_preview_image("JPEG", denoised) if previewer else None
            count(sampler_steps=1)
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
        # Each try has a seed of its own; the graph's object is another node's, too.
        own = copy.copy(self.noise)
        own.seed = seed
        return own.generate_noise({"samples": latent})
