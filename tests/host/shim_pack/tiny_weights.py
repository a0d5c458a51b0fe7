"""Tiny random weights of the FLUX.2 klein family, made by the host's classes, and their sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import comfy.ldm.flux.model
import comfy.ldm.models.autoencoder
import comfy.ops
import comfy.sd
import comfy.text_encoders.llama
import folder_paths
import torch
from safetensors.torch import save_file

TEXT_WIDTH = 8
TEXT_LAYERS = 28
VAE_CHANNELS = 32
LATENT_CHANNELS = 32

FILES = {
    "diffusion_models": (
        "flux-2-klein-4b-fp8.safetensors",
        "flux-2-klein-4b.safetensors",
        "flux-2-klein-base-4b.safetensors",
        "flux-2-klein-base-4b-fp8.safetensors",
        "flux-2-klein-9b-fp8.safetensors",
    ),
    "text_encoders": ("qwen_3_4b.safetensors", "qwen_3_8b_fp8mixed.safetensors"),
    "vae": ("flux2-vae.safetensors",),
}


def text_encoder_config(weights: dict[str, torch.Tensor]) -> dict[str, int]:
    """The sizes of a Qwen3 text encoder as its file has them."""
    vocabulary, width = weights["model.embed_tokens.weight"].shape
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": weights["model.layers.0.mlp.gate_proj.weight"].shape[0],
        "num_hidden_layers": sum(name.endswith("input_layernorm.weight") for name in weights),
        "num_attention_heads": weights["model.layers.0.self_attn.q_proj.weight"].shape[0] // 128,
        "num_key_value_heads": weights["model.layers.0.self_attn.k_proj.weight"].shape[0] // 128,
    }


def accept_tiny_weights() -> None:
    """Replace the three places of `comfy.sd` where the sizes are fixed."""
    detect, autoencoder = comfy.sd.detect_te_model, comfy.sd.AutoencoderKL
    clip_init, vae_init = comfy.sd.CLIP.__init__, comfy.sd.VAE.__init__
    vae_sizes: list[tuple[int, list[int]]] = []

    def is_tiny_text_encoder(weights: dict[str, torch.Tensor]) -> bool:
        query_norm = "model.layers.0.self_attn.q_norm.weight" in weights
        return query_norm and weights["model.embed_tokens.weight"].shape[1] < 1024

    def detect_te_model(weights: dict[str, torch.Tensor]) -> object:
        return comfy.sd.TEModel.QWEN3_4B if is_tiny_text_encoder(weights) else detect(weights)

    def init_clip(self: object, *args: object, **options: Any) -> None:
        weights = options.get("state_dict")
        if isinstance(weights, list) and len(weights) == 1 and is_tiny_text_encoder(weights[0]):
            sizes = {"qwen3_4b_model_config": text_encoder_config(weights[0])}
            options["model_options"] = {**options.get("model_options", {}), **sizes}
        clip_init(self, *args, **options)

    def init_vae(
        self: object, sd: dict[str, torch.Tensor] | None = None, *args: object, **kwargs: object
    ) -> None:
        first = (sd or {}).get("encoder.conv_in.weight")
        if sd and first is not None and first.shape[0] < 128 and "bn.running_mean" in sd:
            channels = first.shape[0]
            rows = [sd[f"encoder.down.{level}.block.0.conv1.weight"].shape[0] for level in range(4)]
            vae_sizes.append((channels, [row // channels for row in rows]))
        try:
            vae_init(self, sd, *args, **kwargs)
        finally:
            vae_sizes.clear()

    def sized_autoencoder(ddconfig: dict, **kwargs: object) -> object:
        if vae_sizes:
            ddconfig = {**ddconfig, "ch": vae_sizes[-1][0], "ch_mult": vae_sizes[-1][1]}
            # Newer hosts size the decoder separately, with the official multipliers; here both are the same.
            kwargs.pop("decoder_ddconfig", None)
        return autoencoder(ddconfig=ddconfig, **kwargs)

    comfy.sd.detect_te_model = detect_te_model
    comfy.sd.CLIP.__init__ = init_clip
    comfy.sd.VAE.__init__ = init_vae
    comfy.sd.AutoencoderKL = sized_autoencoder


def write_tiny_weights() -> None:
    """Write every missing file of FILES below the host's model folders, with the same bytes every time."""
    builders = {"diffusion_models": diffusion_model, "text_encoders": text_encoder, "vae": autoencoder}
    for folder, names in FILES.items():
        directory = Path(folder_paths.models_dir) / folder
        directory.mkdir(parents=True, exist_ok=True)
        weights = None
        for name in names:
            if not (directory / name).exists():
                weights = weights or builders[folder]()
                save_file(weights, directory / name)


def diffusion_model() -> dict[str, torch.Tensor]:
    """Return one double block with one head of 128: text, source and seed are all visible in the pixels."""
    flux = comfy.ldm.flux.model.Flux(
        in_channels=128, out_channels=128, vec_in_dim=None, context_in_dim=3 * TEXT_WIDTH, hidden_size=128,
        mlp_ratio=3.0, num_heads=1, depth=1, depth_single_blocks=0, axes_dim=[32] * 4, theta=2000,
        patch_size=1,
        qkv_bias=False, guidance_embed=False, txt_ids_dims=[3], global_modulation=True, mlp_silu_act=True,
        ops_bias=False, dtype=torch.float32, device="cpu", operations=comfy.ops.disable_weight_init,
    )  # fmt: skip
    # Plain initialisation hardly shows a reference image; sharper modulation and attention make a mix-up
    # visible.
    return random_weights(flux, seed=1, gains={"modulation": 3.0, "key_norm": 2.0, "query_norm": 2.0})


def text_encoder() -> dict[str, torch.Tensor]:
    """A Qwen3 with the real vocabulary: the real tokenizer and chat template are used."""
    sizes = {
        "vocab_size": 151936, "hidden_size": TEXT_WIDTH, "intermediate_size": 16,
        "num_hidden_layers": TEXT_LAYERS,
        "num_attention_heads": 1, "num_key_value_heads": 1,
    }  # fmt: skip
    model = comfy.text_encoders.llama.Qwen3_4B(sizes, torch.float32, "cpu", comfy.ops.disable_weight_init)
    return random_weights(model, seed=2)


def autoencoder() -> dict[str, torch.Tensor]:
    """A FLUX.2 VAE of 32 channels; decoded pixels are noise with a mean near grey."""
    config = {
        "double_z": True, "z_channels": LATENT_CHANNELS, "resolution": 256, "in_channels": 3, "out_ch": 3,
        "ch": VAE_CHANNELS, "ch_mult": [1, 1, 1, 1], "num_res_blocks": 2, "attn_resolutions": [],
        "dropout": 0.0,
        "batch_norm_latent": True,
    }  # fmt: skip
    vae = comfy.ldm.models.autoencoder.AutoencoderKL(ddconfig=config, embed_dim=LATENT_CHANNELS)
    return random_weights(vae, seed=3)


def random_weights(
    module: torch.nn.Module, seed: int, gains: dict[str, float] | None = None
) -> dict[str, torch.Tensor]:
    """Fill a state dict: matrices by fan-in, scales with one, the rest with zero, times `gains` by name."""
    generator = torch.Generator().manual_seed(seed)
    weights: dict[str, torch.Tensor] = {}
    for name, shaped in module.state_dict().items():
        gain = next((value for part, value in (gains or {}).items() if part in name), 1.0)
        if not shaped.is_floating_point():
            weights[name] = torch.zeros_like(shaped)
        elif shaped.ndim >= 2:
            fan_in = shaped[0].numel()
            weights[name] = torch.randn(shaped.shape, generator=generator) * (gain / fan_in**0.5)
        elif name.endswith((".bias", "running_mean")):
            weights[name] = torch.zeros(shaped.shape)
        else:
            weights[name] = torch.full(shaped.shape, gain)
    return weights
