"""Pipelines for clips with a few thousand random weights, saved and loaded like real checkpoints."""

from __future__ import annotations

from pathlib import Path

from support.tiny_text_encoders import t5_tokenizer


def wan(folder: Path, ignores_last: bool = False) -> Path:
    """Save a WanImageToVideoPipeline: lengths 4n+1, sides that are multiples of 16.

    `ignores_last` makes it one of Wan 2.2 5B, whose pipeline takes no last frame.
    """
    import torch
    from diffusers import (
        AutoencoderKLWan,
        FlowMatchEulerDiscreteScheduler,
        WanImageToVideoPipeline,
        WanTransformer3DModel,
    )
    from transformers import UMT5Config, UMT5EncoderModel

    torch.manual_seed(0)
    tokenizer = t5_tokenizer()
    text = UMT5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    pipeline = WanImageToVideoPipeline(
        tokenizer=tokenizer,
        text_encoder=UMT5EncoderModel(text).eval(),
        vae=AutoencoderKLWan(
            base_dim=3,
            z_dim=16,
            dim_mult=[1, 1, 1, 1],
            num_res_blocks=1,
            temperal_downsample=[False, True, True],
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=7.0),
        transformer=WanTransformer3DModel(
            patch_size=(1, 2, 2),
            num_attention_heads=2,
            attention_head_dim=12,
            in_channels=36,
            out_channels=16,
            text_dim=16,
            freq_dim=16,
            ffn_dim=16,
            num_layers=1,
            cross_attn_norm=True,
            qk_norm="rms_norm_across_heads",
            rope_max_seq_len=32,
        ),
        expand_timesteps=ignores_last,
    )
    pipeline.save_pretrained(folder)
    return folder


def ltx(folder: Path) -> Path:
    """Save an LTXPipeline: lengths 8n+1, sides that are multiples of 32."""
    import torch
    from diffusers import (
        AutoencoderKLLTXVideo,
        FlowMatchEulerDiscreteScheduler,
        LTXPipeline,
        LTXVideoTransformer3DModel,
    )
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(0)
    tokenizer = t5_tokenizer()
    text = T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    pipeline = LTXPipeline(
        tokenizer=tokenizer,
        text_encoder=T5EncoderModel(text).eval(),
        vae=AutoencoderKLLTXVideo(
            latent_channels=8,
            block_out_channels=(8, 8, 8, 8),
            decoder_block_out_channels=(8, 8, 8, 8),
            layers_per_block=(1, 1, 1, 1, 1),
            decoder_layers_per_block=(1, 1, 1, 1, 1),
            spatio_temporal_scaling=(True, True, True, False),
            decoder_spatio_temporal_scaling=(True, True, True, False),
            decoder_inject_noise=(False, False, False, False, False),
            upsample_residual=(False, False, False, False),
            upsample_factor=(1, 1, 1, 1),
            timestep_conditioning=False,
            patch_size=4,
            patch_size_t=1,
            encoder_causal=True,
            decoder_causal=False,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(),
        transformer=LTXVideoTransformer3DModel(
            in_channels=8,
            out_channels=8,
            num_attention_heads=2,
            attention_head_dim=8,
            cross_attention_dim=16,
            num_layers=1,
            caption_channels=16,
        ),
    )
    pipeline.save_pretrained(folder)
    return folder
