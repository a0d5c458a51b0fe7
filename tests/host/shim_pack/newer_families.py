"""Families that only newer hosts know, at tiny sizes: a host without a class has no such family.

Apart from `tiny_families.py`, since these need modules that an older host lacks; all else as there.
Text encoders are the host's own, with the vision tower, whose sizes the host fixes in tables that are
replaced while the encoder is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import comfy.model_management
import comfy.model_patcher
import comfy.sd
import comfy.supported_models
import torch

from .tiny_weights import random_weights

Family = tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]

WIDTH = 8
LANGUAGE = {
    "hidden_size": WIDTH,
    "intermediate_size": 16,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 4,
}
VISION = {"hidden_size": 64, "intermediate_size": 64, "depth": 2, "deepstack_visual_indexes": [0, 1]}
TAPPED_LAYERS = 36
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
SHARP = {
    "modulation": 3.0,
    "_mod": 3.0,
    "adaln": 3.0,
    "adaLN": 3.0,
    "tproj": 3.0,
    "final_layer2": 0.2,
    "embed_tokens": 8.0,
}
"""Names of layers and how much sharper they are than plain noise: prompt and images must show."""


def model(kind: str, config: dict[str, Any]) -> Any:
    """A MODEL of one of the host's supported models, whose fixed sizes give way to these."""
    settings = getattr(comfy.supported_models, kind)(config)
    settings.unet_config.update(config)
    settings.set_inference_dtype(torch.float32, None)
    settings.custom_operations = None
    made = settings.get_model({}, "")
    made.diffusion_model.load_state_dict(random_weights(made.diffusion_model, seed=4, gains=SHARP))
    devices = comfy.model_management.get_torch_device(), comfy.model_management.unet_offload_device()
    return comfy.model_patcher.ModelPatcher(made, *devices)


@contextmanager
def small_eyes() -> Iterator[None]:
    """Qwen3-VL's vision towers are built at tiny sizes."""
    import comfy.text_encoders.qwen3vl as qwen3vl

    sizes, common = qwen3vl.QWEN3VL_VISION, qwen3vl.QWEN3VL_VISION_COMMON
    qwen3vl.QWEN3VL_VISION = dict.fromkeys(sizes, VISION)
    qwen3vl.QWEN3VL_VISION_COMMON = {**common, "num_heads": 2}
    try:
        yield
    finally:
        qwen3vl.QWEN3VL_VISION, qwen3vl.QWEN3VL_VISION_COMMON = sizes, common


def clip(encoder: type, tokenizer: type, name: str = "", layers: int = 4) -> Any:
    """A CLIP whose language model has tiny sizes."""
    sizes = {f"{name}_model_config": {**LANGUAGE, "num_hidden_layers": layers}} if name else {}
    target = SimpleNamespace(params={}, clip=encoder, tokenizer=tokenizer)
    with small_eyes():
        made = comfy.sd.CLIP(target, model_options={**sizes, "dtype": torch.float32})
    stage = made.cond_stage_model
    if any(True for _ in stage.parameters()):
        stage.load_state_dict(random_weights(stage, seed=5))
    return made


def boogu_clip() -> Any:
    import comfy.text_encoders.boogu as encoder

    return clip(encoder.te(), encoder.BooguTokenizer, "qwen3vl_8b")


def joy_clip() -> Any:
    import comfy.text_encoders.joyimage as encoder

    return clip(encoder.te(), encoder.JoyImageTokenizer, "qwen3vl_8b")


def mage_clip() -> Any:
    import comfy.text_encoders.mage_flow as encoder

    return clip(encoder.te(), encoder.MageFlowTokenizer, "qwen3vl_4b")


def krea2_clip() -> Any:
    import comfy.text_encoders.krea2 as encoder

    return clip(encoder.te(), encoder.Krea2Tokenizer, "qwen3vl_4b", TAPPED_LAYERS)


def ideogram4_clip() -> Any:
    import comfy.text_encoders.ideogram4 as encoder

    return clip(encoder.te_qwen3vl(), encoder.Ideogram4Qwen3VLTokenizer, "qwen3vl_8b", TAPPED_LAYERS)


def hidream_o1_clip() -> Any:
    import comfy.text_encoders.hidream_o1 as encoder

    return clip(encoder.HiDreamO1TE, encoder.HiDreamO1Tokenizer)


def ernie_clip() -> Any:
    """Return ERNIE's text encoder with Qwen's tokenizer, since its own is part of the checkpoint."""
    import comfy.text_encoders.ernie as encoder
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

    return clip(encoder.te(), Tokenizer, "ministral3_3b")


def longcat_clip(eyes: Callable[..., Any]) -> Any:
    """`eyes` builds the encoder of Qwen-Image's family with a small vision tower."""
    import comfy.text_encoders.longcat_image as encoder

    return eyes(encoder.te(), encoder.LongCatImageTokenizer)


def pixel_vae() -> Any:
    return comfy.sd.VAE(sd={"pixel_space_vae": torch.tensor(1.0)})


def newer_families(
    flux_vae: Callable[[], Any],
    flux2_vae: Callable[[], Any],
    wan_vae: Callable[[], Any],
    qwen_eyes: Callable[..., Any],
) -> dict[str, Family]:
    """The families whose classes this host has."""
    families: dict[str, tuple[str, Family]] = {
        "boogu": ("Boogu", (lambda: model("Boogu", BOOGU), boogu_clip, flux_vae)),
        "joyimage": ("JoyImage", (lambda: model("JoyImage", JOY), joy_clip, wan_vae)),
        "mage flow": ("MageFlow", (lambda: model("MageFlow", MAGE), mage_clip, flux2_vae)),
        "longcat": (
            "LongCatImage",
            (lambda: model("LongCatImage", LONGCAT), lambda: longcat_clip(qwen_eyes), flux_vae),
        ),
        "krea2": ("Krea2", (lambda: model("Krea2", KREA2), krea2_clip, wan_vae)),
        "ideogram4": ("Ideogram4", (lambda: model("Ideogram4", IDEOGRAM4), ideogram4_clip, flux2_vae)),
        "ernie": ("ErnieImage", (lambda: model("ErnieImage", ERNIE), ernie_clip, flux2_vae)),
        "bernini": ("Boogu", (lambda: model("WAN21_T2V", WAN), joy_clip, wan_vae)),
        "hidream o1": ("HiDreamO1", (lambda: model("HiDreamO1", HIDREAM_O1), hidream_o1_clip, pixel_vae)),
    }
    return {name: parts for name, (kind, parts) in families.items() if hasattr(comfy.supported_models, kind)}
