"""Text encoders of the host that Agent from CLIP accepts, built without weights (torch's meta device).

Run as `python writing_rig.py COMFYUI REPOSITORY`; prints for each text encoder why it is refused
(empty: it is taken), and how many of two images it sees in a conversation laid out for it.
"""

from __future__ import annotations

import host_modules  # noqa: F401 - the host and the pack; first

# isort: split

import importlib
import json
from typing import Any

import torch

from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.nodes.agents.host_agent import IMAGE
from interleave_thinker.nodes.host import text

ENCODERS = {
    "sd1": ("sd1_clip", "SD1ClipModel", "SD1Tokenizer", {}),
    "qwen_2.5_vl_7b": ("text_encoders.qwen_image", "te", "QwenImageTokenizer", {}),
    "qwen_3_4b (klein)": ("text_encoders.flux", "klein_te", "KleinTokenizer", {"model_type": "qwen3_4b"}),
    "qwen_3_4b (z-image)": ("text_encoders.z_image", "te", "ZImageTokenizer", {}),
    "qwen3vl_4b": ("text_encoders.qwen3vl", "te", "tokenizer", {"model_type": "qwen3vl_4b"}),
    "qwen3vl_8b": ("text_encoders.qwen3vl", "te", "tokenizer", {"model_type": "qwen3vl_8b"}),
    "boogu": ("text_encoders.boogu", "te", "BooguTokenizer", {}),
    "krea2": ("text_encoders.krea2", "te", "Krea2Tokenizer", {}),
    "mage flow": ("text_encoders.mage_flow", "te", "MageFlowTokenizer", {}),
    "ideogram 4": ("text_encoders.ideogram4", "te_qwen3vl", "Ideogram4Qwen3VLTokenizer", {}),
    "ideogram 4, text alone": ("text_encoders.ideogram4", "te", "Ideogram4Tokenizer", {}),
    "joyimage": ("text_encoders.joyimage", "te", "JoyImageTokenizer", {}),
    "minimax": ("text_encoders.minimax", "te", "", {}),
    "qwen3.5": ("text_encoders.qwen35", "te", "", {"model_type": "qwen35_4b"}),
}


def encoder(module: str, model: str, tokenizer: str, options: dict[str, Any]) -> Any:
    """A CLIP as the host's loader would give it, without weights."""
    home = importlib.import_module(f"comfy.{module}")
    kind = getattr(home, model)
    made = kind(**options) if isinstance(kind, type(encoder)) else kind
    words = getattr(home, tokenizer, None)
    if isinstance(words, type(encoder)):
        words = words(**options)

    import comfy.sd

    clip = comfy.sd.CLIP(no_init=True)
    clip.tokenizer_options = {}
    clip.cond_stage_model = made(device=torch.device("meta"), dtype=torch.bfloat16)
    clip.tokenizer = words() if words else object()
    return clip


def look_at(entry: tuple[str, str, str, dict[str, Any]]) -> dict[str, Any]:
    clip = encoder(*entry)
    try:
        text.check_writes(clip)
    except SettingsError as refused:
        return {"refused": str(refused)}
    if not hasattr(clip.tokenizer, "tokenize_with_weights"):
        return {"refused": ""}
    images = [torch.zeros(1, 64, 64, 3)] * 2
    prompt = f"<|im_start|>user\n{IMAGE}before{IMAGE}after<|im_end|>\n<|im_start|>assistant\n"
    tokens = clip.tokenize(prompt, images=images, skip_template=True, min_length=1, thinking=True)
    return {"refused": "", "seen": text.seen(tokens), "marks": text.chat_marks(clip)}


results = {}
for name, entry in ENCODERS.items():
    try:
        results[name] = look_at(entry)
    except ModuleNotFoundError:
        continue  # a host that does not know it yet
print(f"RESULTS {json.dumps(results)}")
