"""Child process of `agent_peers.py`: ComfyUI's Qwen3-VL text encoder with small weights.

It reads one question per line and writes one reply per line. ComfyUI knows Qwen3-VL only in its published
sizes, so the size tables of its module are replaced by the small model's; all computation is ComfyUI's own.
Run it with ComfyUI's Python: `python host_writer.py COMFYUI CHECKPOINT`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

COMFY, CHECKPOINT = sys.argv[1:3]
sys.argv = ["main.py", "--cpu"]
sys.path.insert(0, COMFY)

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()

import numpy  # noqa: E402
import torch  # noqa: E402
from comfy.sd import CLIP  # noqa: E402
from comfy.text_encoders import qwen3vl  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

NAME = "qwen3vl_4b"


def small_encoder(folder: Path) -> CLIP:
    """Return ComfyUI's CLIP with the checkpoint's weights."""
    said = json.loads((folder / "config.json").read_text())
    text, vision = said["text_config"], said["vision_config"]

    @dataclass
    class Small(qwen3vl.QWEN3VL_CONFIGS[NAME]):
        vocab_size: int = text["vocab_size"]
        hidden_size: int = text["hidden_size"]
        intermediate_size: int = text["intermediate_size"]
        num_hidden_layers: int = text["num_hidden_layers"]
        num_attention_heads: int = text["num_attention_heads"]
        num_key_value_heads: int = text["num_key_value_heads"]
        head_dim = text["head_dim"]
        rope_dims = text["rope_parameters"]["mrope_section"]
        lm_head: bool = False

    qwen3vl.QWEN3VL_CONFIGS[NAME] = Small
    qwen3vl.QWEN3VL_VISION[NAME] = {
        name: vision[name]
        for name in ("hidden_size", "intermediate_size", "depth", "deepstack_visual_indexes")
    }
    qwen3vl.QWEN3VL_VISION_COMMON |= {
        name: vision[name] for name in ("num_heads", "patch_size", "num_position_embeddings")
    }
    weights = {
        name.replace("model.language_model.", "model.").replace("model.visual.", "visual."): weight.float()
        for name, weight in load_file(folder / "model.safetensors").items()
        if name != "lm_head.weight"
    }

    target = SimpleNamespace(
        clip=qwen3vl.te(dtype_llama=torch.float32, model_type=NAME),
        tokenizer=qwen3vl.tokenizer(model_type=NAME),
        params={},
    )
    clip = CLIP(target, embedding_directory=None, model_options={"dtype": torch.float32}, state_dict=[])
    missing, unexpected = clip.cond_stage_model.load_sd(weights)
    assert not missing and not unexpected, (missing[:3], unexpected[:3])
    return clip


def main() -> None:
    """Run the experiment and print its figures."""
    torch.set_num_threads(1)
    import comfy.model_management

    # Use float32, like the other programs.
    comfy.model_management.should_use_bf16 = lambda *_, **__: False
    clip = small_encoder(Path(CHECKPOINT))
    for line in sys.stdin:
        asked = json.loads(line)
        prompt, images = "", []
        for part in asked["parts"]:
            kind, _, value = part.partition(":")
            if kind == "text":
                prompt += value
                continue
            prompt += "<|vision_start|><|image_pad|><|vision_end|>"
            pixels = numpy.asarray(Image.open(value).convert("RGB"), dtype=numpy.float32) / 255
            images.append(torch.from_numpy(pixels)[None])
        prompt = f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        tokens = clip.tokenize(prompt, images=images, skip_template=True, min_length=1, thinking=True)
        written = clip.generate(tokens, do_sample=False, max_length=asked["tokens"], repetition_penalty=1.0)
        text = clip.decode(written, skip_special_tokens=False)
        print("REPLY " + json.dumps({"text": text, "tokens": len(written)}), flush=True)


if __name__ == "__main__":
    main()
