"""MODEL, CLIP and VAE of one model family: the host's classes at tiny sizes, random weights.

It is for families whose encoders the host cannot load at another size. Classes, conditioning and sampling are
the host's; only the weights, which loaders would read from gigabytes of files, are made up, the same every
time. A host without a class has no such family.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import comfy.ldm.models.autoencoder
import comfy.ldm.wan.vae
import comfy.model_management
import comfy.model_patcher
import comfy.sd
import comfy.supported_models
import comfy.text_encoders.qwen_vl
import torch

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
VISION3 = {"hidden_size": 64, "intermediate_size": 64, "depth": 2, "deepstack_visual_indexes": [0, 1]}
BOOGU = {
    "image_model": "boogu", "patch_size": 2, "in_channels": 16, "hidden_size": 120, "num_layers": 1,
    "num_double_stream_layers": 1, "num_refiner_layers": 1, "num_attention_heads": 1, "num_kv_heads": 1,
    "multiple_of": 32, "instruction_feat_dim": WIDTH,
}  # fmt: skip
JOY = {
    "image_model": "joyimage", "hidden_size": 128, "num_attention_heads": 1, "text_dim": WIDTH,
    "num_layers": 1,
}  # fmt: skip
MAGE = {
    "image_model": "mage_flow", "in_channels": 128, "num_layers": 1, "num_attention_heads": 1,
    "joint_attention_dim": WIDTH,
}  # fmt: skip
LONGCAT = {
    "image_model": "flux", "in_channels": 16, "out_channels": 16, "vec_in_dim": None, "context_in_dim": WIDTH,
    "hidden_size": 128, "mlp_ratio": 4.0, "num_heads": 1, "depth": 1, "depth_single_blocks": 1,
    "axes_dim": [16, 56, 56], "theta": 10000, "patch_size": 2, "qkv_bias": True, "txt_ids_dims": [1, 2],
    "guidance_embed": False,
}  # fmt: skip
KREA2 = {
    "image_model": "krea2", "features": 128, "tdim": 64, "txtdim": WIDTH, "heads": 1, "kvheads": 1,
    "layers": 1, "txtlayers": 12, "txtheads": 1, "txtkvheads": 1, "channels": 16, "patch": 2,
}  # fmt: skip
IDEOGRAM4 = {
    "image_model": "ideogram4", "in_channels": 128, "num_layers": 1, "num_attention_heads": 1,
    "attention_head_dim": 128, "intermediate_size": 64, "adaln_dim": 32, "llm_features_dim": 13 * WIDTH,
}  # fmt: skip
ERNIE = {
    "image_model": "ernie", "hidden_size": 128, "num_attention_heads": 1, "num_layers": 1,
    "ffn_hidden_size": 128, "text_in_dim": WIDTH,
}  # fmt: skip
HIDREAM_O1 = {
    "image_model": "hidream_o1",
    "text_config_overrides": {
        "hidden_size": 128, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": 128,
    },
    "vision_config_overrides": {
        "hidden_size": 64, "num_heads": 2, "intermediate_size": 64, "depth": 1,
        "deepstack_visual_indexes": (),
    },
}  # fmt: skip
WAN = {
    "image_model": "wan2.1", "model_type": "t2v", "dim": 128, "ffn_dim": 64, "freq_dim": 32, "in_dim": 16,
    "out_dim": 16, "num_heads": 1, "num_layers": 1, "text_dim": WIDTH,
}  # fmt: skip
WITHOUT_WEIGHTS = {"disable_unet_model_creation": True}
SHARP = dict.fromkeys(("modulation", "_mod", "adaln", "adaLN", "tproj"), 3.0)
SHARP |= dict.fromkeys(("norm_q", "norm_k", "key_norm", "query_norm"), 2.0)
SHARP |= {"final_layer2": 0.2, "embed_tokens": 8.0}
"""Names of layers and how much sharper they are than plain noise: prompt and images must show."""


def model(kind: str, config: dict[str, Any]) -> Any:
    """A MODEL of one of the host's supported models, whose fixed sizes give way to these."""
    settings = getattr(comfy.supported_models, kind)(config)
    settings.unet_config.update(config)
    settings.set_inference_dtype(torch.float32, None)
    settings.custom_operations = None
    made = settings.get_model({}, "")
    if not config.get("disable_unet_model_creation"):
        made.diffusion_model.load_state_dict(random_weights(made.diffusion_model, seed=4, gains=SHARP))
    devices = comfy.model_management.get_torch_device(), comfy.model_management.unet_offload_device()
    return comfy.model_patcher.ModelPatcher(made, *devices)


@contextmanager
def small_eyes() -> Iterator[None]:
    """Vision towers are built at tiny sizes, which the host fixes in code or in tables."""
    qwen25, qwen3 = comfy.text_encoders.qwen_vl, sys.modules.get("comfy.text_encoders.qwen3vl")
    tower = qwen25.Qwen2VLVisionTransformer
    qwen25.Qwen2VLVisionTransformer = lambda **options: tower(**{**options, **VISION})
    if qwen3 is not None:
        sizes, common = qwen3.QWEN3VL_VISION, qwen3.QWEN3VL_VISION_COMMON
        qwen3.QWEN3VL_VISION = dict.fromkeys(sizes, VISION3)
        qwen3.QWEN3VL_VISION_COMMON = {**common, "num_heads": 2}
    try:
        yield
    finally:
        qwen25.Qwen2VLVisionTransformer = tower
        if qwen3 is not None:
            qwen3.QWEN3VL_VISION, qwen3.QWEN3VL_VISION_COMMON = sizes, common


def clip(encoder: Any, tokenizer: type, **sizes: dict[str, Any]) -> Any:
    """A CLIP whose parts have these sizes."""
    target = SimpleNamespace(params={}, clip=encoder, tokenizer=tokenizer)
    options = {f"{name}_model_config": values for name, values in sizes.items()}
    with small_eyes():
        made = comfy.sd.CLIP(target, model_options={**options, "dtype": torch.float32})
    stage = made.cond_stage_model
    if any(True for _ in stage.parameters()):
        stage.load_state_dict(random_weights(stage, seed=5))
    return made


def encoder(module: str, tokenizer: str, part: str, layers: int = 4, make: str = "te", **options: Any) -> Any:
    """Return a function that makes a CLIP of one of the host's text encoders, imported when it is made."""

    def made() -> Any:
        home = import_module(f"comfy.text_encoders.{module}")
        kind = getattr(home, make)
        kind = kind if isinstance(kind, type) else kind(**options)
        sizes = {part: {**QWEN, "num_hidden_layers": layers}} if part else {}
        return clip(kind, getattr(home, tokenizer), **sizes)

    return made


def sd_clip(module: str, model: str, tokenizer: str, *parts: str) -> Any:
    """The same for the encoders of Stable Diffusion."""

    def made() -> Any:
        home = import_module(f"comfy.{module}")
        return clip(getattr(home, model), getattr(home, tokenizer), **dict.fromkeys(parts, CLIP_SIZES))

    return made


def ernie_clip() -> Any:
    """Return ERNIE's text encoder with Qwen's tokenizer, since its own is part of the checkpoint."""
    import comfy.text_encoders.ernie as ernie
    import comfy.text_encoders.qwen3vl as qwen3vl
    from comfy import sd1_clip

    class Tokenizer(sd1_clip.SD1Tokenizer):
        def __init__(self, embedding_directory: Any = None, tokenizer_data: Any = None) -> None:
            super().__init__(
                embedding_directory=embedding_directory,
                tokenizer_data=tokenizer_data or {},
                name="ministral3_3b",
                tokenizer=lambda *a, **k: qwen3vl.Qwen3VLSDTokenizer(*a, **k, embedding_key="ministral3_3b"),
            )

    return clip(ernie.te(), Tokenizer, ministral3_3b={**QWEN, "num_hidden_layers": 4})


def vae(channels: int, flux2: bool = False) -> Any:
    """A VAE with latents of this many channels, of eight pixels (sixteen for FLUX.2)."""
    config = {
        "double_z": True, "z_channels": channels, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 32,
        "ch_mult": [1, 1, 1, 1], "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0,
        **({"batch_norm_latent": True} if flux2 else {}),
    }  # fmt: skip
    coder = comfy.ldm.models.autoencoder.AutoencoderKL(ddconfig=config, embed_dim=channels)
    params = {"params": {"ddconfig": config, "embed_dim": channels}}
    made = comfy.sd.VAE(sd=random_weights(coder, seed=6), config=params)
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


def pixel_vae() -> Any:
    return comfy.sd.VAE(sd={"pixel_space_vae": torch.tensor(1.0)})


def flux_vae() -> Any:
    return vae(16)


def flux2_vae() -> Any:
    return vae(32, True)


def sd_vae() -> Any:
    return vae(4)


klein_clip = encoder("flux", "KleinTokenizer", "qwen3_4b", 28, "klein_te", model_type="qwen3_4b")
qwen_clip = encoder("qwen_image", "QwenImageTokenizer", "qwen25_7b", 3)
z_image_clip = encoder("z_image", "ZImageTokenizer", "qwen3_4b", 3)
longcat_clip = encoder("longcat_image", "LongCatImageTokenizer", "qwen25_7b", 3)
hidream_clip = encoder("hidream_o1", "HiDreamO1Tokenizer", "", make="HiDreamO1TE")
sdxl_clip = sd_clip("sdxl_clip", "SDXLClipModel", "SDXLTokenizer", "clip_l", "clip_g")
joy_clip = encoder("joyimage", "JoyImageTokenizer", "qwen3vl_8b")
OMNI = {**Z_IMAGE, "siglip_feat_dim": 16}
BY_STEP = {**QWEN_IMAGE, "default_ref_method": "index_timestep_zero"}
TAPPED = 36
"""Layers of a text encoder whose deep layers are read."""
Parts = tuple[str, str, dict[str, Any], Callable[[], Any], Callable[[], Any]]
KNOWN: list[Parts] = [
    ("flux1", "Flux", {**FLUX1, "guidance_embed": True}, klein_clip, flux_vae),
    ("flux2 dev", "Flux2", {**FLUX2, "guidance_embed": True}, klein_clip, flux2_vae),
    ("qwen image", "QwenImage", QWEN_IMAGE, qwen_clip, wan_vae),
    ("qwen image 2511", "QwenImage", BY_STEP, qwen_clip, wan_vae),
    ("omnigen2", "Omnigen2", OMNIGEN2, encoder("omnigen2", "Omnigen2Tokenizer", "qwen25_3b", 3), flux_vae),
    ("z-image", "ZImage", Z_IMAGE, z_image_clip, flux_vae),
    ("z-image omni", "ZImage", OMNI, z_image_clip, flux_vae),
    ("sd15", "SD15", UNET, sd_clip("sd1_clip", "SD1ClipModel", "SD1Tokenizer", "clip_l"), sd_vae),
    ("sdxl", "SDXL", SDXL_UNET, sdxl_clip, sd_vae),
    ("wan video", "WAN21_T2V", WITHOUT_WEIGHTS, z_image_clip, wan_vae),
    ("wan 2.2 i2v", "WAN21_T2V", WAN22, z_image_clip, wan_vae),
    ("boogu", "Boogu", BOOGU, encoder("boogu", "BooguTokenizer", "qwen3vl_8b"), flux_vae),
    ("joyimage", "JoyImage", JOY, joy_clip, wan_vae),
    ("mage flow", "MageFlow", MAGE, encoder("mage_flow", "MageFlowTokenizer", "qwen3vl_4b"), flux2_vae),
    ("longcat", "LongCatImage", LONGCAT, longcat_clip, flux_vae),
    ("krea2", "Krea2", KREA2, encoder("krea2", "Krea2Tokenizer", "qwen3vl_4b", TAPPED), wan_vae),
    (
        "ideogram4", "Ideogram4", IDEOGRAM4,
        encoder("ideogram4", "Ideogram4Qwen3VLTokenizer", "qwen3vl_8b", TAPPED, "te_qwen3vl"), flux2_vae,
    ),
    ("ernie", "ErnieImage", ERNIE, ernie_clip, flux2_vae),
    ("bernini", "WAN21_T2V", WAN, joy_clip, wan_vae),
    ("hidream o1", "HiDreamO1", HIDREAM_O1, hidream_clip, pixel_vae),
]  # fmt: skip
NEEDED = {"bernini": "Boogu"}
"""A class of the same hosts as a family's text encoder."""
FAMILIES: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {
    name: (functools.partial(model, kind, config), text, vae)
    for name, kind, config, text, vae in KNOWN
    if hasattr(comfy.supported_models, NEEDED.get(name, kind))
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
