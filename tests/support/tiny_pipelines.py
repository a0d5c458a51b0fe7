"""Pipeline folders for tests: diffusers' own classes with a few thousand random weights and byte tokenizers.

Nothing is downloaded or faked: the folders are written by `save_pretrained` and loaded by the generator
exactly like a real checkpoint. Only the sizes are small.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PARTS_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}{{ part['text'] }}{% endfor %}<|im_end|>\n{% endfor %}"
)
QWEN_IMAGE_TOKENS = {
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
}
QWEN_TOKENS = ("<|im_start|>", "<|im_end|>", "<|vision_pad|>", *QWEN_IMAGE_TOKENS.values())
Parts = Callable[[], dict[str, Any]]
VISION = {"depth": 2, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}


def of(name: str, *given: Any, **named: Any) -> Any:
    """Return an object of a class of diffusers or transformers. Without it, the test is skipped."""
    import diffusers
    import transformers

    kind = getattr(diffusers, name, None) or getattr(transformers, name, None)
    if kind is None:
        pytest.skip(f"diffusers {diffusers.__version__} has no {name}.")
    return kind(*given, **named)


def saved(folder: Path, kind: str, parts: Parts, seed: int, factor: float = 3.0) -> Path:
    """Save a pipeline of this class, whose parts have the random weights of a seed."""
    import torch

    torch.manual_seed(seed)
    pipeline = of(kind, **parts())
    # So small a model otherwise hardly reacts to prompt or source.
    with torch.no_grad():
        for parameter in (getattr(pipeline, "transformer", None) or pipeline.unet).parameters():
            if parameter.ndim >= 2:
                parameter.mul_(factor)
    pipeline.save_pretrained(folder)
    return folder


def flow(**settings: Any) -> Any:
    return of("FlowMatchEulerDiscreteScheduler", **settings)


def byte_vocabulary(*special: str) -> dict[str, int]:
    """Return a vocabulary of the special tokens and every byte in the byte-level alphabet."""
    from tokenizers import pre_tokenizers

    tokens = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    return {token: index for index, token in enumerate(tokens)}


def qwen_tokenizer() -> Any:
    """Return Qwen's tokenizer class over single bytes."""
    tokenizer = of("Qwen2TokenizerFast", vocab=byte_vocabulary("<|endoftext|>", *QWEN_TOKENS), merges=[])
    tokenizer.add_special_tokens({"additional_special_tokens": list(QWEN_TOKENS)})
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def t5_tokenizer() -> Any:
    """Return T5's tokenizer class over single characters."""
    pieces = ["<pad>", "</s>", "<unk>", "▁", *(chr(code) for code in range(33, 127))]
    return of("T5TokenizerFast", vocab=[(piece, -1.0) for piece in pieces], extra_ids=0)


def clip_parts() -> dict[str, Any]:
    """Return CLIP's text encoder, and its tokenizer over single bytes, with and without an end."""
    letters = byte_vocabulary("<|startoftext|>", "<|endoftext|>")
    for letter in list(letters)[2:]:
        letters[f"{letter}</w>"] = len(letters)
    tokenizer = of("CLIPTokenizer", vocab=letters, merges=[], model_max_length=77)
    sizes = {"hidden_size": 32, "intermediate_size": 37, "num_attention_heads": 4, "num_hidden_layers": 2}
    tokens = {f"{one}_token_id": getattr(tokenizer, f"{one}_token_id") for one in ("bos", "eos", "pad")}
    config = of("CLIPTextConfig", **sizes, **tokens, projection_dim=32, vocab_size=len(tokenizer))
    return {"text_encoder": of("CLIPTextModel", config), "tokenizer": tokenizer}


def qwen_vl(version: str, tokenizer: Any, layers: int = 2, vision: dict[str, Any] | None = None) -> Any:
    """Return a Qwen-VL with hidden size 16; `version` is that of its class names."""
    text = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_parameters": {"mrope_section": [1, 1, 2], "rope_type": "default", "rope_theta": 1e6},
        "vocab_size": len(tokenizer),
        "initializer_range": 0.5,
    }
    tokens = {name: tokenizer.convert_tokens_to_ids(token) for name, token in QWEN_IMAGE_TOKENS.items()}
    config = of(
        f"{version}Config",
        text_config=text,
        vision_config=VISION | (vision or {}),
        vocab_size=len(tokenizer),
        **tokens,
    )
    return of(f"{version}ForConditionalGeneration", config)


def qwen2_parts(processor: str) -> dict[str, Any]:
    """Return a Qwen2.5-VL as a text encoder, with its tokenizer and a processor under this name."""
    tokenizer = qwen_tokenizer()
    own = of(
        "Qwen2VLProcessor",
        image_processor=of("Qwen2VLImageProcessor"),
        tokenizer=tokenizer,
        video_processor=of("Qwen2VLVideoProcessor"),
    )
    return {"text_encoder": qwen_vl("Qwen2_5_VL", tokenizer), "tokenizer": tokenizer, processor: own}


def qwen3_parts(layers: int = 2) -> dict[str, Any]:
    """Return a Qwen3-VL as a text encoder, with its processor."""
    tokenizer = qwen_tokenizer()
    vision = {"deepstack_visual_indexes": [0], "num_position_embeddings": 16}
    size = {"shortest_edge": 1024, "longest_edge": 4096}
    processor = of(
        "Qwen3VLProcessor",
        image_processor=of("Qwen2VLImageProcessor", patch_size=16, size=size),
        tokenizer=tokenizer,
        video_processor=of("Qwen3VLVideoProcessor"),
        chat_template=PARTS_TEMPLATE,
    )
    return {"text_encoder": qwen_vl("Qwen3VL", tokenizer, layers, vision), "processor": processor}


def autoencoder(kind: str, *channels: int, groups: int = 1, **settings: Any) -> Any:
    """Return an autoencoder of the usual kind, with a block for each number of channels."""
    return of(
        kind,
        block_out_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * len(channels),
        up_block_types=("UpDecoderBlock2D",) * len(channels),
        norm_num_groups=groups,
        **{"use_quant_conv": False, "use_post_quant_conv": False, "layers_per_block": 1} | settings,
    )


def flux_vae(channels: int) -> Any:
    """Return FLUX.1's autoencoder, with eight pixels per latent of this many channels."""
    scaling = {"shift_factor": 0.06, "scaling_factor": 1.5}
    return autoencoder("AutoencoderKL", 4, 4, 4, 4, latent_channels=channels, **scaling)


def transformer(kind: str, joint: int, axes: tuple[int, ...], **settings: Any) -> Any:
    """Return a transformer of the kinds of FLUX and Qwen-Image with one layer."""
    sizes = {"num_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2}
    return of(kind, **sizes, joint_attention_dim=joint, axes_dims_rope=axes, **settings)


def stable_diffusion(folder: Path, seed: int = 0) -> Path:
    """Save a StableDiffusionPipeline: separate text-to-image and image-to-image classes.

    Sizes are multiples of 4.
    """

    def parts() -> dict[str, Any]:
        unet = of(
            "UNet2DConditionModel", block_out_channels=(8, 16), layers_per_block=1, sample_size=16,
            norm_num_groups=2, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=32,
            attention_head_dim=8,
        )  # fmt: skip
        betas = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
        quant = {"use_quant_conv": True, "use_post_quant_conv": True}
        return {
            "vae": autoencoder("AutoencoderKL", 8, 8, groups=2, latent_channels=4, **quant),
            "unet": unet,
            "scheduler": of("DDIMScheduler", **betas, clip_sample=False),
            "safety_checker": None,
            "feature_extractor": None,
            "requires_safety_checker": False,
            **clip_parts(),
        }

    return saved(folder, "StableDiffusionPipeline", parts, seed)


def flux2_klein(folder: Path, seed: int = 0) -> Path:
    """Save a Flux2KleinPipeline: the source image is a reference in the token sequence."""

    def parts() -> dict[str, Any]:
        tokenizer = qwen_tokenizer()
        # The pipeline reads the hidden states after layers 9, 18 and 27.
        sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 27, "head_dim": 8}
        heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "initializer_range": 0.5}
        config = of("Qwen3Config", **sizes, **heads, vocab_size=len(tokenizer))
        own: dict[str, Any] = {"patch_size": 1, "in_channels": 4, "timestep_guidance_channels": 32}
        own |= {"num_single_layers": 1, "guidance_embeds": False}
        return {
            "scheduler": flow(use_dynamic_shifting=True),
            "vae": autoencoder("AutoencoderKLFlux2", 4, sample_size=32, latent_channels=1),
            "text_encoder": of("Qwen3ForCausalLM", config),
            "tokenizer": tokenizer,
            "transformer": transformer("Flux2Transformer2DModel", 24, (4, 4, 4, 4), **own),
            "is_distilled": True,
        }

    return saved(folder, "Flux2KleinPipeline", parts, seed)


def flux_kontext(folder: Path, seed: int = 0) -> Path:
    """Save a FluxKontextPipeline: reference editing, and text-to-image without a source."""
    return flux("FluxKontextPipeline", folder, seed, in_channels=4)


def flux_fill(folder: Path, seed: int = 0) -> Path:
    """Save a FluxFillPipeline: it repaints a mask; its transformer reads latents, masked latents and mask."""
    return flux("FluxFillPipeline", folder, seed, in_channels=4 + 4 + 4 * 64, out_channels=4)


def flux(kind: str, folder: Path, seed: int, **channels: int) -> Path:
    """Save a FLUX.1 pipeline of this class."""

    def parts() -> dict[str, Any]:
        tokenizer = t5_tokenizer()
        sizes = {"d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4}
        own = {"patch_size": 1, "num_single_layers": 1, "pooled_projection_dim": 32, "guidance_embeds": True}
        return {
            "scheduler": flow(),
            "vae": flux_vae(1),
            "text_encoder_2": of("T5EncoderModel", of("T5Config", vocab_size=len(tokenizer), **sizes)),
            "tokenizer_2": tokenizer,
            "transformer": transformer("FluxTransformer2DModel", 32, (4, 4, 8), **own, **channels),
            **clip_parts(),
        }

    return saved(folder, kind, parts, seed)


def qwen_image_edit_plus(folder: Path, seed: int = 0) -> Path:
    """Save a QwenImageEditPlusPipeline: edits only.

    The source goes to a Qwen2.5-VL encoder and into the token sequence.
    """

    def parts() -> dict[str, Any]:
        vae = of(
            "AutoencoderKLQwenImage", base_dim=4, z_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
            temperal_downsample=[False, True, True], latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
        )  # fmt: skip
        channels = {"patch_size": 2, "in_channels": 16, "out_channels": 4}
        denoiser = transformer("QwenImageTransformer2DModel", 16, (8, 4, 4), **channels)
        return {"scheduler": flow(), "vae": vae, "transformer": denoiser, **qwen2_parts("processor")}

    return saved(folder, "QwenImageEditPlusPipeline", parts, seed)


def longcat_image_edit(folder: Path, seed: int = 0) -> Path:
    """Save a LongCatImageEditPipeline: edits only, at a size of its own choice."""

    def parts() -> dict[str, Any]:
        own = {"in_channels": 64, "num_single_layers": 1, "pooled_projection_dim": 16}
        return {
            "scheduler": flow(use_dynamic_shifting=True),
            "vae": flux_vae(16),
            "transformer": transformer("LongCatImageTransformer2DModel", 16, (4, 4, 8), **own),
            **qwen2_parts("text_processor"),
        }

    return saved(folder, "LongCatImageEditPipeline", parts, seed)


def qwen_image21(folder: Path, seed: int = 0) -> Path:
    """Save a QwenImage21Pipeline: text-to-image and edits, a Qwen3-VL encoder, an RGBA autoencoder."""

    def parts() -> dict[str, Any]:
        vae = of(
            "AutoencoderKLQwenImage21", base_dim=4, decoder_base_dim=4, z_dim=4, dim_mult=[1, 1, 1, 1, 1],
            num_res_blocks=1, latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
        )  # fmt: skip
        return {
            "scheduler": flow(use_dynamic_shifting=True),
            "vae": vae,
            "transformer": of("QwenImage21Transformer2DModel", **QWEN21),
            **qwen3_parts(),
        }

    return saved(folder, "QwenImage21Pipeline", parts, seed)


QWEN21 = {
    "in_channels": 4, "out_channels": 4, "num_layers": 1, "attention_head_dim": 16, "num_attention_heads": 2,
    "context_in_dim": 16, "axes_dims_rope": (4, 6, 6),
}  # fmt: skip


def bria_fibo2(folder: Path, seed: int = 0) -> Path:
    """Save a BriaFibo2Pipeline: text-to-image and edits; it reads several layers of a Qwen3-VL."""

    def parts() -> dict[str, Any]:
        return {
            "scheduler": flow(use_dynamic_shifting=True),
            "vae": autoencoder("AutoencoderKLFlux2", 4, 4, sample_size=32, latent_channels=4),
            "transformer": of("BriaFibo2Transformer2DModel", **FIBO2),
            **qwen3_parts(36),
        }

    return saved(folder, "BriaFibo2Pipeline", parts, seed, factor=1.5)


FIBO2 = {
    "in_channels": 4, "dim": 32, "n_layers": 5, "n_refiner_layers": 1, "n_heads": 2, "min_num_gist_tokens": 4,
    "max_num_gist_tokens": 8, "gist_step": 4, "cap_feat_dim": 48, "injection_layer_ids": (0, 1, 2, 3, 4),
    "axes_dims": (4, 6, 6),
}  # fmt: skip


def clip_text(name: str) -> dict[str, Any]:
    """Return T5's or UMT5's encoder for a pipeline of clips, with its tokenizer."""
    tokenizer = t5_tokenizer()
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    config = of(f"{name}Config", vocab_size=len(tokenizer), **sizes)
    return {"tokenizer": tokenizer, "text_encoder": of(f"{name}EncoderModel", config).eval()}


def wan(folder: Path, ignores_last: bool = False) -> Path:
    """Save a WanImageToVideoPipeline: lengths 4n+1, sides that are multiples of 16.

    `ignores_last` makes it one of Wan 2.2 5B, whose pipeline takes no last frame.
    """

    def parts() -> dict[str, Any]:
        text = clip_text("UMT5")
        vae = of(
            "AutoencoderKLWan", base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
            temperal_downsample=[False, True, True],
        )  # fmt: skip
        denoiser = of(
            "WanTransformer3DModel", patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12,
            in_channels=36, out_channels=16, text_dim=16, freq_dim=16, ffn_dim=16, num_layers=1,
            cross_attn_norm=True, qk_norm="rms_norm_across_heads", rope_max_seq_len=32,
        )  # fmt: skip
        rest = {"scheduler": flow(shift=7.0), "expand_timesteps": ignores_last}
        return {"vae": vae, "transformer": denoiser, **rest, **text}

    return saved(folder, "WanImageToVideoPipeline", parts, seed=0, factor=1.0)


def ltx(folder: Path) -> Path:
    """Save an LTXPipeline: lengths 8n+1, sides that are multiples of 32."""

    def parts() -> dict[str, Any]:
        text = clip_text("T5")
        vae = of(
            "AutoencoderKLLTXVideo", latent_channels=8, block_out_channels=(8, 8, 8, 8),
            decoder_block_out_channels=(8, 8, 8, 8), layers_per_block=(1, 1, 1, 1, 1),
            decoder_layers_per_block=(1, 1, 1, 1, 1), spatio_temporal_scaling=(True, True, True, False),
            decoder_spatio_temporal_scaling=(True, True, True, False), decoder_inject_noise=(False,) * 5,
            upsample_residual=(False,) * 4, upsample_factor=(1, 1, 1, 1), timestep_conditioning=False,
            patch_size=4, patch_size_t=1, encoder_causal=True, decoder_causal=False,
        )  # fmt: skip
        denoiser = of(
            "LTXVideoTransformer3DModel", in_channels=8, out_channels=8, num_attention_heads=2,
            attention_head_dim=8, cross_attention_dim=16, num_layers=1, caption_channels=16,
        )  # fmt: skip
        return {"vae": vae, "transformer": denoiser, "scheduler": flow(), **text}

    return saved(folder, "LTXPipeline", parts, seed=0, factor=1.0)
