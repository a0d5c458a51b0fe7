"""What the parts of image models take next to their weights on a GPU, against the plan of memory.

    python -m benchmarks.image_peaks                  # on the GPU; the last line is JSON
    python -m benchmarks.image_peaks --device meta    # tensors only, on a machine without a GPU

Each part has random weights and its published widths. Transformers have two layers of each kind, since depth
does not change what one layer needs. On a GPU the peak contains the workspaces of convolutions, which a count
of tensors cannot see.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from interleave_thinker.backend.vram.image_shapes import KNOWN, ImageShape

from .live_bytes import live_bytes

BF16 = torch.bfloat16
SIDES = (512, 1024, 1536)
SDXL_UNET: dict[str, Any] = {
    "block_out_channels": (320, 640, 1280),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    "transformer_layers_per_block": (1, 2, 10),
    "attention_head_dim": (5, 10, 20),
    "cross_attention_dim": 2048,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
KL_VAE: dict[str, Any] = {
    "block_out_channels": (128, 256, 512, 512),
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "layers_per_block": 2,
}


@dataclass(frozen=True)
class Case:
    """A part of an image model: how to build it, how to call it at a side in pixels, and what is planned."""

    name: str
    build: Callable[[], torch.nn.Module]
    call: Callable[[Any, int], object]
    planned: Callable[[int], float]


def cases() -> Iterator[Case]:
    """Yield the parts of all known image models."""
    import diffusers

    yield _flux2("flux2-klein-4b", heads=24, text=7680)
    yield _flux2("flux2-klein-9b", heads=32, text=12288)
    yield Case(
        "flux1-kontext denoiser",
        lambda: diffusers.FluxTransformer2DModel(num_layers=2, num_single_layers=2, guidance_embeds=True),
        lambda model, side: model(
            hidden_states=_empty(1, 2 * _tokens(side), 64),
            encoder_hidden_states=_empty(1, 512, 4096),
            pooled_projections=_empty(1, 768),
            timestep=_empty(1),
            guidance=_empty(1),
            img_ids=_empty(2 * _tokens(side), 3),
            txt_ids=_empty(512, 3),
        ),
        _denoiser("flux1-kontext"),
    )
    yield Case(
        "qwen-image-edit denoiser",
        lambda: diffusers.QwenImageTransformer2DModel(num_layers=2),
        lambda model, side: model(
            hidden_states=_empty(1, 2 * _tokens(side), 64),
            encoder_hidden_states=_empty(1, 1300, 3584),
            encoder_hidden_states_mask=torch.ones(1, 1300, dtype=torch.bool),
            timestep=_empty(1),
            img_shapes=[[(1, side // 16, side // 16)] * 2],
        ),
        _denoiser("qwen-image-edit"),
    )
    yield Case(
        "sdxl denoiser",
        lambda: diffusers.UNet2DConditionModel(sample_size=128, **SDXL_UNET),
        lambda model, side: model(
            _empty(2, 4, side // 8, side // 8),
            torch.zeros(2),
            _empty(2, 77, 2048),
            added_cond_kwargs={"text_embeds": _empty(2, 1280), "time_ids": _empty(2, 6)},
        ),
        _denoiser("sdxl"),
    )
    yield Case(
        "sd15 denoiser",
        lambda: diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8),
        lambda model, side: model(_empty(2, 4, side // 8, side // 8), torch.zeros(2), _empty(2, 77, 768)),
        _denoiser("sd15"),
    )
    for name, build, channels, latent in (
        ("flux2-klein-4b", diffusers.AutoencoderKLFlux2, 32, ()),
        ("sdxl", lambda: diffusers.AutoencoderKL(latent_channels=4, **KL_VAE), 4, ()),
        ("flux1-kontext", lambda: diffusers.AutoencoderKL(latent_channels=16, **KL_VAE), 16, ()),
        ("qwen-image-edit", diffusers.AutoencoderKLQwenImage, 16, (1,)),
    ):
        yield from _vae(KNOWN[name], build, channels, latent)
    yield Case("flux2-klein-4b encoder", _qwen3, _encode, lambda side: KNOWN["flux2-klein-4b"].encoder.work())


def _flux2(name: str, heads: int, text: int) -> Case:
    from diffusers import Flux2Transformer2DModel

    return Case(
        f"{name} denoiser",
        lambda: Flux2Transformer2DModel(
            num_layers=2,
            num_single_layers=2,
            num_attention_heads=heads,
            joint_attention_dim=text,
            guidance_embeds=False,
        ),
        lambda model, side: model(
            hidden_states=_empty(1, 2 * _tokens(side), 128),
            encoder_hidden_states=_empty(1, 512, text),
            timestep=_empty(1),
            img_ids=torch.empty(1, 2 * _tokens(side), 4),
            txt_ids=torch.empty(1, 512, 4),
            guidance=None,
        ),
        _denoiser(name),
    )


def _vae(shape: ImageShape, build: Any, channels: int, frames: tuple[int, ...]) -> Iterator[Case]:
    vae = shape.vae
    yield Case(
        f"{shape.name} VAE decode",
        build,
        lambda model, side: model.decode(_empty(1, channels, *frames, side // 8, side // 8)),
        lambda side: (vae.decode + vae.decode_workspace) * vae.width * 2 * side * side,
    )
    yield Case(
        f"{shape.name} VAE encode",
        build,
        lambda model, side: model.encode(_empty(1, 3, *frames, side, side)),
        lambda side: (vae.encode + vae.encode_workspace) * vae.width * 2 * side * side,
    )


def _qwen3() -> torch.nn.Module:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=151936,
            num_hidden_layers=36,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            hidden_size=2560,
            intermediate_size=9728,
            tie_word_embeddings=True,
        )
    )


def _encode(model: Any, side: int) -> object:
    """Call the encoder as Flux2KleinPipeline does: padded to 512 tokens, with the states of all layers."""
    tokens = torch.zeros(1, 512, dtype=torch.long)
    return model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens), output_hidden_states=True, use_cache=False
    )


def _denoiser(name: str) -> Callable[[int], float]:
    return lambda side: KNOWN[name].denoiser.work(side * side)


def _tokens(side: int) -> int:
    return (side // 16) ** 2


def _empty(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=BF16)


def measured(case: Case, device: str, sides: Sequence[int] = SIDES) -> dict[str, Any]:
    """Return the peaks of a case by side, and their ratio to the plan."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(BF16)
    try:
        with torch.device(device), torch.no_grad():
            module = case.build().eval()
    finally:
        torch.set_default_dtype(before)
    rows: dict[str, Any] = {"part": case.name}
    for side in sides:
        with torch.device(device), torch.inference_mode(device != "meta"):
            peak = _peak(lambda side=side: case.call(module, side), device, module)
        rows[str(side)] = {"gb": round(peak / 1e9, 4), "over_plan": round(peak / case.planned(side), 3)}
    return rows


def _peak(act: Callable[[], object], device: str, module: torch.nn.Module) -> int:
    if not device.startswith("cuda"):
        with live_bytes(module, fused=True) as count:
            act()
        return count.peak
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    act()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    """Measure the parts and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda", choices=["cuda", "meta"])
    parser.add_argument("--only", default="", help="a part of the names")
    options = parser.parse_args()
    rows = []
    for case in cases():
        if options.only in case.name:
            try:
                rows.append(measured(case, options.device))
            except Exception as error:  # noqa: BLE001 - a part that cannot be measured is a row, not an end
                rows.append({"part": case.name, "not_run": repr(error)[:200]})
            print(json.dumps(rows[-1]), flush=True)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "meta"
    print(json.dumps({"device": name, "rows": rows}))


if __name__ == "__main__":
    main()
