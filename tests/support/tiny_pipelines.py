"""Pipeline folders for tests: diffusers' own classes with a few thousand random weights and byte tokenizers.

Nothing is downloaded or faked: the folders are written by `save_pretrained` and loaded by the generator
exactly like a real checkpoint. Only the sizes are small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.tiny_text_encoders import (
    clip_text_encoder,
    clip_tokenizer,
    qwen2_processor,
    qwen3_processor,
    qwen3_vl,
    qwen25_vl,
    qwen_tokenizer,
    t5_tokenizer,
)


def skip_without(name: str) -> None:
    """Skip the test if this diffusers is too old for a class."""
    import diffusers
    import pytest

    if not hasattr(diffusers, name):
        pytest.skip(f"diffusers {diffusers.__version__} has no {name}.")


def amplify(module: Any, factor: float = 3.0) -> Any:
    """Scale the weights up, since so small a model otherwise hardly reacts to prompt or source."""
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim >= 2:
                parameter.mul_(factor)
    return module


def stable_diffusion(folder: Path, seed: int = 0) -> Path:
    """Save a StableDiffusionPipeline: separate text-to-image and image-to-image classes.

    Sizes are multiples of 4.
    """
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel

    torch.manual_seed(seed)
    tokenizer = clip_tokenizer()
    pipeline = StableDiffusionPipeline(
        vae=AutoencoderKL(
            block_out_channels=(8, 8),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=4,
            norm_num_groups=2,
        ),
        text_encoder=clip_text_encoder(tokenizer),
        tokenizer=tokenizer,
        unet=UNet2DConditionModel(
            block_out_channels=(8, 16),
            layers_per_block=1,
            sample_size=16,
            norm_num_groups=2,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=32,
            attention_head_dim=8,
        ),
        scheduler=DDIMScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    amplify(pipeline.unet)
    pipeline.save_pretrained(folder)
    return folder


def flux2_klein(folder: Path, seed: int = 0) -> Path:
    """Save a Flux2KleinPipeline: the source image is a reference in the token sequence."""
    import torch
    from diffusers import (
        AutoencoderKLFlux2,
        FlowMatchEulerDiscreteScheduler,
        Flux2KleinPipeline,
        Flux2Transformer2DModel,
    )
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    tokenizer = qwen_tokenizer()
    pipeline = Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=AutoencoderKLFlux2(
            sample_size=32,
            down_block_types=("DownEncoderBlock2D",),
            up_block_types=("UpDecoderBlock2D",),
            block_out_channels=(4,),
            layers_per_block=1,
            latent_channels=1,
            norm_num_groups=1,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=Qwen3ForCausalLM(
            Qwen3Config(
                hidden_size=8,
                intermediate_size=8,
                num_hidden_layers=27,  # the pipeline reads the hidden states after layers 9, 18 and 27
                num_attention_heads=1,
                num_key_value_heads=1,
                head_dim=8,
                vocab_size=len(tokenizer),
                initializer_range=0.5,
            )
        ),
        tokenizer=tokenizer,
        transformer=Flux2Transformer2DModel(
            patch_size=1,
            in_channels=4,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=24,
            timestep_guidance_channels=32,
            axes_dims_rope=(4, 4, 4, 4),
            guidance_embeds=False,
        ),
        is_distilled=True,
    )
    amplify(pipeline.transformer)
    pipeline.save_pretrained(folder)
    return folder


def flux_kontext(folder: Path, seed: int = 0) -> Path:
    """Save a FluxKontextPipeline: reference editing, and text-to-image without a source."""
    from diffusers import FluxKontextPipeline

    return flux(FluxKontextPipeline, folder, seed)


def flux_fill(folder: Path, seed: int = 0) -> Path:
    """Save a FluxFillPipeline: it repaints a mask; its transformer reads latents, masked latents and mask."""
    from diffusers import FluxFillPipeline

    return flux(FluxFillPipeline, folder, seed, in_channels=4 + 4 + 4 * 64, out_channels=4)


def flux(kind: Any, folder: Path, seed: int, **channels: int) -> Path:
    """Save a FLUX.1 pipeline of this class."""
    import torch
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(seed)
    tokenizer, tokenizer_2 = clip_tokenizer(), t5_tokenizer()
    pipeline = kind(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=flux_vae(AutoencoderKL, 1),
        text_encoder=clip_text_encoder(tokenizer),
        tokenizer=tokenizer,
        text_encoder_2=T5EncoderModel(
            T5Config(vocab_size=len(tokenizer_2), d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4)
        ),
        tokenizer_2=tokenizer_2,
        transformer=FluxTransformer2DModel(
            patch_size=1,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
            **(channels or {"in_channels": 4}),
        ),
    )
    amplify(pipeline.transformer)
    pipeline.save_pretrained(folder)
    return folder


def flux_vae(kind: Any, channels: int) -> Any:
    """Return FLUX.1's autoencoder, with eight pixels per latent of this many channels."""
    return kind(
        block_out_channels=(4, 4, 4, 4),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=channels,
        norm_num_groups=1,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.06,
        scaling_factor=1.5,
    )


def qwen_image_edit_plus(folder: Path, seed: int = 0) -> Path:
    """Save a QwenImageEditPlusPipeline: edits only.

    The source goes to a Qwen2.5-VL encoder and into the token sequence.
    """
    import torch
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImageEditPlusPipeline,
        QwenImageTransformer2DModel,
    )

    torch.manual_seed(seed)
    tokenizer = qwen_tokenizer()
    pipeline = QwenImageEditPlusPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=AutoencoderKLQwenImage(
            base_dim=4,
            z_dim=4,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=qwen25_vl(tokenizer),
        tokenizer=tokenizer,
        processor=qwen2_processor(tokenizer),
        transformer=QwenImageTransformer2DModel(
            patch_size=2,
            in_channels=16,
            out_channels=4,
            num_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            axes_dims_rope=(8, 4, 4),
        ),
    )
    amplify(pipeline.transformer)
    pipeline.save_pretrained(folder)
    return folder


def longcat_image_edit(folder: Path, seed: int = 0) -> Path:
    """Save a LongCatImageEditPipeline: edits only, at a size of its own choice."""
    import torch
    from diffusers import (
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        LongCatImageEditPipeline,
        LongCatImageTransformer2DModel,
    )

    torch.manual_seed(seed)
    tokenizer = qwen_tokenizer()
    pipeline = LongCatImageEditPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=flux_vae(AutoencoderKL, 16),
        text_encoder=qwen25_vl(tokenizer),
        tokenizer=tokenizer,
        text_processor=qwen2_processor(tokenizer),
        transformer=LongCatImageTransformer2DModel(
            in_channels=64,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=[4, 4, 8],
        ),
    )
    amplify(pipeline.transformer)
    pipeline.save_pretrained(folder)
    return folder


def qwen_image21(folder: Path, seed: int = 0) -> Path:
    """Save a QwenImage21Pipeline: text-to-image and edits, a Qwen3-VL encoder, an RGBA autoencoder."""
    skip_without("QwenImage21Pipeline")
    import torch
    from diffusers import (
        AutoencoderKLQwenImage21,
        FlowMatchEulerDiscreteScheduler,
        QwenImage21Pipeline,
        QwenImage21Transformer2DModel,
    )

    torch.manual_seed(seed)
    tokenizer = qwen_tokenizer()
    pipeline = QwenImage21Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=AutoencoderKLQwenImage21(
            base_dim=4,
            decoder_base_dim=4,
            z_dim=4,
            dim_mult=[1, 1, 1, 1, 1],
            num_res_blocks=1,
            latents_mean=[0.0] * 4,
            latents_std=[1.0] * 4,
        ),
        text_encoder=qwen3_vl(tokenizer),
        processor=qwen3_processor(tokenizer),
        transformer=QwenImage21Transformer2DModel(**QWEN21),
    )
    amplify(pipeline.transformer)
    pipeline.save_pretrained(folder)
    return folder


QWEN21 = {
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "context_in_dim": 16,
    "axes_dims_rope": (4, 6, 6),
}


def bria_fibo2(folder: Path, seed: int = 0) -> Path:
    """Save a BriaFibo2Pipeline: text-to-image and edits; it reads several layers of a Qwen3-VL."""
    skip_without("BriaFibo2Pipeline")
    import torch
    from diffusers import (
        AutoencoderKLFlux2,
        BriaFibo2Pipeline,
        BriaFibo2Transformer2DModel,
        FlowMatchEulerDiscreteScheduler,
    )

    torch.manual_seed(seed)
    tokenizer = qwen_tokenizer()
    pipeline = BriaFibo2Pipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=AutoencoderKLFlux2(
            sample_size=32,
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=(4, 4),
            layers_per_block=1,
            latent_channels=4,
            norm_num_groups=1,
            use_quant_conv=False,
            use_post_quant_conv=False,
        ),
        text_encoder=qwen3_vl(tokenizer, layers=36),
        processor=qwen3_processor(tokenizer),
        transformer=BriaFibo2Transformer2DModel(**FIBO2),
    )
    amplify(pipeline.transformer, 1.5)
    pipeline.save_pretrained(folder)
    return folder


FIBO2 = {
    "in_channels": 4,
    "dim": 32,
    "n_layers": 5,
    "n_refiner_layers": 1,
    "n_heads": 2,
    "min_num_gist_tokens": 4,
    "max_num_gist_tokens": 8,
    "gist_step": 4,
    "cap_feat_dim": 48,
    "injection_layer_ids": (0, 1, 2, 3, 4),
    "axes_dims": (4, 6, 6),
}
