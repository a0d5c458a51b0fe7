"""Estimated working memory, compared with a count of every tensor of a forward pass at full width.

The depth does not affect it (except for caches and hidden states), so two layers of the real width are run on
torch's meta device.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.live_bytes import live_bytes, peak_on_meta

from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat import Message, ReplySettings
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.vram.placement import (
    PREFILL_INNER,
    PREFILL_WIDTHS,
    VISION_WIDTHS,
    agent_work,
)
from interleave_thinker.backend.models.vram.shapes import KNOWN, SHAPES, agent_shape
from interleave_thinker.research.experiments.agents_loops import SMALL, build

BF16 = torch.bfloat16
SIDE = 1024
CLOSE = 0.03


def empty(*shape: int, dtype: Any = BF16) -> Any:
    return torch.empty(shape, dtype=dtype)


def test_denoising_with_a_reference() -> None:
    from diffusers import Flux2Transformer2DModel

    tokens = 2 * (SIDE // 16) ** 2
    shape = KNOWN["flux2-klein-9b"]
    peak = peak_on_meta(
        lambda: Flux2Transformer2DModel(
            num_layers=2,
            num_single_layers=2,
            num_attention_heads=32,
            joint_attention_dim=12288,
            guidance_embeds=False,
        ),
        lambda model: model(
            hidden_states=empty(1, tokens, 128),
            encoder_hidden_states=empty(1, 512, 12288),
            timestep=empty(1),
            img_ids=empty(1, tokens, 4, dtype=torch.float32),
            txt_ids=empty(1, 512, 4, dtype=torch.float32),
            guidance=None,
        ),
        BF16,
    )
    reckoned = shape.denoiser.work(SIDE * SIDE)
    assert peak <= reckoned * (1 + CLOSE) and peak >= 0.9 * reckoned


def test_decoding_and_encoding() -> None:
    from diffusers import AutoencoderKLFlux2

    vae = KNOWN["flux2-klein-4b"].vae
    decode = peak_on_meta(AutoencoderKLFlux2, lambda model: model.decode(empty(1, 32, 128, 128)), BF16)
    encode = peak_on_meta(AutoencoderKLFlux2, lambda model: model.encode(empty(1, 3, SIDE, SIDE)), BF16)
    values = vae.width * 2 * SIDE * SIDE
    assert vae.decode * values == pytest.approx(decode, rel=CLOSE)
    assert vae.encode * values == pytest.approx(encode, rel=CLOSE)


@pytest.mark.parametrize(
    ("name", "decode", "encode"), [("flux2-klein-4b", 2.5543, 1.6172), ("qwen-image-edit", 4.436, 2.8372)]
)
def test_convolution_memory_matches_gpu_measurements(name: str, decode: float, encode: float) -> None:
    """GB at 1024 x 1024 on an H100, measured."""
    vae = KNOWN[name].vae
    assert KNOWN["flux2-klein-4b"].encoder.work() / 1e9 == pytest.approx(0.2536, rel=0.01)
    assert vae.work(SIDE * SIDE) / 1e9 == pytest.approx(decode, rel=0.01)
    assert (vae.encode + vae.encode_workspace) * vae.width * 2 * SIDE**2 / 1e9 == pytest.approx(
        encode, rel=0.01
    )


def test_reading_a_prompt() -> None:
    from transformers import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

    fields = SHAPES["Qwen/Qwen3-VL-8B-Instruct"]
    config = Qwen3VLTextConfig(**{**fields["text_config"], "num_hidden_layers": 2, "vocab_size": 8})
    config._attn_implementation = "sdpa"
    shape, tokens = agent_shape(fields), 3400
    with torch.device("meta"):
        model = Qwen3VLTextModel(config).to(BF16).eval()
        with live_bytes(model, fused=True) as count:
            model(
                inputs_embeds=empty(1, tokens, shape.width),
                position_ids=torch.zeros(3, 1, tokens, dtype=torch.long),
                use_cache=True,
            )
    cache = shape.kv_bytes_per_token // shape.layers * 2 * tokens
    reading = tokens * (PREFILL_WIDTHS * shape.width + PREFILL_INNER * shape.inner) * 2
    assert count.peak == pytest.approx(cache + reading, rel=CLOSE)


def test_seeing_an_image() -> None:
    from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

    fields = SHAPES["Qwen/Qwen3-VL-8B-Instruct"]["vision_config"]
    config = Qwen3VLVisionConfig(**{**fields, "depth": 3, "deepstack_visual_indexes": [0, 1, 2]})
    config._attn_implementation = "sdpa"
    patches = 8 * 8
    model = Qwen3VLVisionModel(config).to(BF16).eval()
    with live_bytes(model, fused=True) as count:
        model(torch.zeros(patches, 1536, dtype=BF16), grid_thw=torch.tensor([[1, 8, 8]]))
    assert count.peak == pytest.approx(
        patches * (VISION_WIDTHS * fields["hidden_size"] + 1536) * 2, rel=CLOSE
    )


def test_complete_reply_needs_the_estimated_memory(tmp_path: Path) -> None:
    folder = build(tmp_path / "agent", default_prompt_set(), SMALL._replace(layers=3), ["x"])
    engine = EngineSettings(prefix_tokens=0)
    chat = local.open(str(folder), dtype="bfloat16", device="cpu", engine=engine)
    words = "the red boat on a quiet sea with a lamp at its bow. " * 60
    message = [Message(role="user", content=(words,))]
    chat.reply(message, ReplySettings(max_tokens=1))
    with live_bytes(chat.model) as count:
        chat.reply(message, ReplySettings(max_tokens=4))
    tokens = len(chat.base.processor.tokenizer(words)["input_ids"])
    shape = agent_shape(json.loads((folder / "config.json").read_text()))
    assert count.peak == pytest.approx(agent_work(shape, tokens, [], 4), rel=0.05)
