"""A node with MODEL, CLIP and VAE of one model family: the host's classes at tiny sizes, random weights.

It is for families whose encoders the host cannot load at another size. Classes, conditioning and sampling are
the host's; only the weights, which loaders would read from gigabytes of files, are made up, the same every
time.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import comfy.ldm.models.autoencoder
import comfy.ldm.wan.vae
import comfy.model_management
import comfy.model_patcher
import comfy.sd
import comfy.supported_models
import comfy.text_encoders.flux
import comfy.text_encoders.omnigen2
import comfy.text_encoders.qwen_image
import comfy.text_encoders.qwen_vl
import comfy.text_encoders.z_image
import torch
from comfy import sd1_clip, sdxl_clip

from .newer_families import newer_families
from .tiny_weights import random_weights

WIDTH = 8
QWEN = {"hidden_size": WIDTH, "intermediate_size": 16, "num_attention_heads": 1, "num_key_value_heads": 1}
CLIP_SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 1, "num_hidden_layers": 3}
VISION = {"hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "num_layers": 2}
FLUX1 = {
    "image_model": "flux", "in_channels": 16, "out_channels": 16, "vec_in_dim": None,
    "context_in_dim": 3 * WIDTH,
    "hidden_size": 128, "mlp_ratio": 4.0, "num_heads": 1, "depth": 1, "depth_single_blocks": 1,
    "axes_dim": [16, 56, 56], "theta": 10000, "patch_size": 2, "qkv_bias": True, "txt_ids_dims": [],
}  # fmt: skip
FLUX2 = {
    **FLUX1, "image_model": "flux2", "in_channels": 128, "out_channels": 128, "mlp_ratio": 3.0,
    "axes_dim": [32] * 4, "theta": 2000, "patch_size": 1, "qkv_bias": False, "global_modulation": True,
    "mlp_silu_act": True, "ops_bias": False, "default_ref_method": "index", "ref_index_scale": 10.0,
    "txt_ids_dims": [3],
}  # fmt: skip
QWEN_IMAGE = {
    "image_model": "qwen_image", "in_channels": 64, "num_layers": 1, "num_attention_heads": 1,
    "joint_attention_dim": WIDTH,
}  # fmt: skip
OMNIGEN2 = {
    "image_model": "omnigen2", "axes_dim_rope": [40, 40, 40], "axes_lens": [1024, 1664, 1664],
    "ffn_dim_multiplier": None, "hidden_size": 120, "in_channels": 16, "multiple_of": 32, "norm_eps": 1e-5,
    "num_attention_heads": 1, "num_kv_heads": 1, "num_layers": 1, "num_refiner_layers": 1,
    "out_channels": None,
    "patch_size": 2, "text_feat_dim": WIDTH, "timestep_scale": 1000.0,
}  # fmt: skip
Z_IMAGE = {
    "image_model": "lumina2", "patch_size": 2, "in_channels": 16, "dim": 256, "cap_feat_dim": WIDTH,
    "n_layers": 1,
    "qk_norm": True, "n_heads": 2, "n_kv_heads": 2, "axes_dims": [32, 48, 48], "axes_lens": [1536, 512, 512],
    "rope_theta": 256.0, "ffn_dim_multiplier": 8.0 / 3.0, "z_image_modulation": True, "time_scale": 1000.0,
    "pad_tokens_multiple": 32,
}  # fmt: skip
UNET = {
    "image_size": 32, "in_channels": 4, "out_channels": 4, "model_channels": 64, "num_res_blocks": [1, 1],
    "channel_mult": [1, 1], "transformer_depth": [1, 1], "transformer_depth_output": [1, 1, 1, 1],
    "transformer_depth_middle": 1, "use_spatial_transformer": True, "legacy": False, "context_dim": 32,
    "use_linear_in_transformer": False,
}  # fmt: skip
SDXL_UNET = {
    **UNET, "context_dim": 64, "num_classes": "sequential", "adm_in_channels": 32 + 6 * 256
}  # fmt: skip
WAN22 = {
    "image_model": "wan2.1", "model_type": "t2v", "dim": 128, "ffn_dim": 64, "freq_dim": 32, "in_dim": 36,
    "out_dim": 16, "num_heads": 1, "num_layers": 1, "text_dim": WIDTH,
}  # fmt: skip
"""Wan 2.2's models for images have no CLIP vision, so the host takes them for text to video, by `in_dim`."""
WITHOUT_WEIGHTS = {"disable_unet_model_creation": True}
SHARP = {
    "modulation": 3.0,
    "_mod.": 3.0,
    "norm_q": 2.0,
    "norm_k": 2.0,
    "key_norm": 2.0,
    "query_norm": 2.0,
    "adaLN": 3.0,
}


def model(kind: str, config: dict[str, Any]) -> Any:
    """A MODEL of one of the host's supported models."""
    settings = getattr(comfy.supported_models, kind)(config)
    settings.set_inference_dtype(torch.float32, None)
    settings.custom_operations = None
    made = settings.get_model({}, "")
    if not config.get("disable_unet_model_creation"):
        made.diffusion_model.load_state_dict(random_weights(made.diffusion_model, seed=4, gains=SHARP))
    devices = comfy.model_management.get_torch_device(), comfy.model_management.unet_offload_device()
    return comfy.model_patcher.ModelPatcher(made, *devices)


def clip(encoder: Callable[..., Any], tokenizer: type, sizes: dict[str, dict[str, Any]]) -> Any:
    """A CLIP whose parts have these sizes."""
    target = SimpleNamespace(params={}, clip=encoder, tokenizer=tokenizer)
    options = {f"{name}_model_config": values for name, values in sizes.items()}
    made = comfy.sd.CLIP(target, model_options={**options, "dtype": torch.float32})
    made.cond_stage_model.load_state_dict(random_weights(made.cond_stage_model, seed=5))
    return made


def qwen_vl_clip() -> Any:
    """The encoder of Qwen-Image with its eyes."""
    encoder = comfy.text_encoders.qwen_image
    return with_eyes(encoder.te(), encoder.QwenImageTokenizer)


def with_eyes(encoder: Callable[..., Any], tokenizer: type) -> Any:
    """A CLIP with Qwen2.5-VL's language model and eyes."""
    eyes = comfy.text_encoders.qwen_vl.Qwen2VLVisionTransformer

    def small(**options: Any) -> Any:
        return eyes(**{**options, **VISION})

    comfy.text_encoders.qwen_vl.Qwen2VLVisionTransformer = small
    try:
        return clip(encoder, tokenizer, {"qwen25_7b": {**QWEN, "num_hidden_layers": 3}})
    finally:
        comfy.text_encoders.qwen_vl.Qwen2VLVisionTransformer = eyes


def vae(channels: int, flux2: bool = False) -> Any:
    """A VAE with latents of this many channels, of eight pixels (sixteen for FLUX.2)."""
    config = {
        "double_z": True, "z_channels": channels, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 32,
        "ch_mult": [1, 1, 1, 1], "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0,
        **({"batch_norm_latent": True} if flux2 else {}),
    }  # fmt: skip
    coder = comfy.ldm.models.autoencoder.AutoencoderKL(ddconfig=config, embed_dim=channels)
    made = comfy.sd.VAE(
        sd=random_weights(coder, seed=6), config={"params": {"ddconfig": config, "embed_dim": channels}}
    )
    made.latent_channels = channels * (4 if flux2 else 1)
    made.downscale_ratio = made.upscale_ratio = 16 if flux2 else 8
    return made


def wan_vae() -> Any:
    """The VAE of Qwen-Image, which the host itself reads at any width."""
    coder = comfy.ldm.wan.vae.WanVAE(
        dim=8, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[],
        temperal_downsample=[False, True, True], image_channels=3, dropout=0.0,
    )  # fmt: skip
    return comfy.sd.VAE(sd=random_weights(coder, seed=7))


def klein_clip() -> Any:
    encoder = comfy.text_encoders.flux
    sizes = {"qwen3_4b": {**QWEN, "num_hidden_layers": 28}}
    return clip(encoder.klein_te(model_type="qwen3_4b"), encoder.KleinTokenizer, sizes)


def z_image_clip() -> Any:
    encoder = comfy.text_encoders.z_image
    return clip(encoder.te(), encoder.ZImageTokenizer, {"qwen3_4b": {**QWEN, "num_hidden_layers": 3}})


def omnigen2_clip() -> Any:
    encoder = comfy.text_encoders.omnigen2
    return clip(encoder.te(), encoder.Omnigen2Tokenizer, {"qwen25_3b": {**QWEN, "num_hidden_layers": 3}})


def sd1_clip_pair() -> Any:
    return clip(sd1_clip.SD1ClipModel, sd1_clip.SD1Tokenizer, {"clip_l": CLIP_SIZES})


def sdxl_clip_pair() -> Any:
    sizes = {"clip_l": CLIP_SIZES, "clip_g": CLIP_SIZES}
    return clip(sdxl_clip.SDXLClipModel, sdxl_clip.SDXLTokenizer, sizes)


FAMILIES: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {
    "flux1": (lambda: model("Flux", {**FLUX1, "guidance_embed": True}), klein_clip, lambda: vae(16)),
    "flux2 dev": (
        lambda: model("Flux2", {**FLUX2, "guidance_embed": True}),
        klein_clip,
        lambda: vae(32, True),
    ),
    "qwen image": (lambda: model("QwenImage", QWEN_IMAGE), qwen_vl_clip, wan_vae),
    "qwen image 2511": (
        lambda: model("QwenImage", {**QWEN_IMAGE, "default_ref_method": "index_timestep_zero"}),
        qwen_vl_clip,
        wan_vae,
    ),
    "omnigen2": (lambda: model("Omnigen2", OMNIGEN2), omnigen2_clip, lambda: vae(16)),
    "z-image": (lambda: model("ZImage", Z_IMAGE), z_image_clip, lambda: vae(16)),
    "z-image omni": (
        lambda: model("ZImage", {**Z_IMAGE, "siglip_feat_dim": 16}),
        z_image_clip,
        lambda: vae(16),
    ),
    "sd15": (lambda: model("SD15", UNET), sd1_clip_pair, lambda: vae(4)),
    "sdxl": (
        lambda: model("SDXL", SDXL_UNET),
        sdxl_clip_pair,
        lambda: vae(4),
    ),
    "wan video": (lambda: model("WAN21_T2V", WITHOUT_WEIGHTS), z_image_clip, wan_vae),
    "wan 2.2 i2v": (lambda: model("WAN21_T2V", WAN22), z_image_clip, wan_vae),
    **newer_families(lambda: vae(16), lambda: vae(32, True), wan_vae, with_eyes),
}


def show_encoders_less() -> None:
    """Reduce the image sizes of encode nodes to an eighth per side (JoyImage: a quarter).

    One megapixel takes a minute on a CPU. The host has loaded these nodes under module names of its own.
    """
    eighth = SimpleNamespace(sqrt=lambda value: math.sqrt(value) / 8)
    for name, module in list(sys.modules.items()):
        if name.endswith(("nodes_qwen", "nodes_boogu")):
            module.math = eighth
        if name.endswith("nodes_joyimage"):
            module.BUCKETS_1024 = [(height // 4, width // 4) for height, width in module.BUCKETS_1024]


@functools.cache
def make_family(name: str) -> tuple[Any, Any, Any]:
    """MODEL, CLIP and VAE of one of FAMILIES."""
    with torch.inference_mode(False):
        build_model, build_clip, build_vae = FAMILIES[name]
        return build_model(), build_clip(), build_vae()


class TinyFamily:
    """MODEL, CLIP and VAE of a family."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "load"
    RETURN_TYPES = ("MODEL", "CLIP", "VAE")

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"family": (list(FAMILIES),)}}

    def load(self, family: str) -> tuple[Any, Any, Any]:
        return make_family(family)


class FailingModel:
    """A MODEL that runs out of memory, or fails with these words, when it samples."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "patch"
    RETURN_TYPES = ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"model": ("MODEL",), "words": ("STRING", {"default": ""})}}

    def patch(self, model: Any, words: str) -> tuple[Any]:
        def fail(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError(words) if words else torch.OutOfMemoryError("CUDA out of memory.")

        patched = model.clone()
        patched.set_model_unet_function_wrapper(fail)
        return (patched,)


class RenamedModel:
    """A MODEL whose class has this name, as one would have that this host does not know yet."""

    CATEGORY = "InterleaveThinker tests"
    FUNCTION = "patch"
    RETURN_TYPES = ("MODEL",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"model": ("MODEL",), "kind": ("STRING", {"default": ""})}}

    def patch(self, model: Any, kind: str) -> tuple[Any]:
        patched = model.clone()
        patched.model = copy.copy(model.model)
        patched.model.__class__ = type(kind, (type(model.model),), {})
        return (patched,)


FAMILY_NODES: dict[str, type] = {
    "InterleaveTestRenamedModel": RenamedModel,
    "InterleaveTestFamily": TinyFamily,
    "InterleaveTestFailingModel": FailingModel,
}
