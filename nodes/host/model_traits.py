"""Properties of a loaded MODEL and VAE that are known before anything runs.

A VAE or text encoder of another family fails deep inside a layer, with a message about matrices. So
properties are compared first, and the message names the input.
"""

from __future__ import annotations

from typing import Any

import comfy.model_management as memory

from ...backend.errors import SettingsError
from ..inputs.model_traits import ModelTraits

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
