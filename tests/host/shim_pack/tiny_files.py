"""Stand-in files for the models of the example graphs: the host's own loaders return a tiny family for them.

The graphs keep their official loader nodes and file names. A stand-in is a text file that names a
family; any other file goes through the host's original loader.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import folder_paths
import torch
from safetensors.torch import save_file

import nodes

from .tiny_control import control_net
from .tiny_families import FAMILIES, SDXL_UNET

MODEL, CLIP, VAE = range(3)
MAX_BYTES = 100
MAGE_FLOW = "mage flow, writing"
"""The family whose text encoder answers as an agent would: random weights write nothing that can be read."""
STAND_INS = {
    "diffusion_models/qwen_image_edit_2511_bf16.safetensors": "qwen image 2511",
    "text_encoders/qwen_2.5_vl_7b_fp8_scaled.safetensors": "qwen image 2511",
    "vae/qwen_image_vae.safetensors": "qwen image 2511",
    "checkpoints/sd_xl_base_1.0.safetensors": "sdxl",
    "controlnet/controlnet-canny-sdxl-1.0.safetensors": "sdxl control",
    "diffusion_models/mage_flow_edit_turbo_int8_convrot.safetensors": MAGE_FLOW,
    "text_encoders/qwen3vl_4b_bf16.safetensors": MAGE_FLOW,
    "vae/mage_flow_vae_bf16.safetensors": MAGE_FLOW,
    "diffusion_models/wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors": "wan 2.2 i2v",
    "diffusion_models/wan2.2_i2v_low_noise_14B_fp8_scaled.safetensors": "wan 2.2 i2v",
    "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors": "wan 2.2 i2v",
    "vae/wan_2.1_vae.safetensors": "wan 2.2 i2v",
}

STEPS = [
    {"step_number": 1, "step_name": "Boat", "prompt": "a paper boat", "auxiliary_text": "It is folded."},
    {"step_number": 2, "step_name": "River", "prompt": "it reaches the river", "auxiliary_text": "It sails."},
]
PLAN = f"<think>two steps</think><answer>{json.dumps({'execution_plan': STEPS})}</answer>"
VERDICT = '<think>looked</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'


def writing(clip: Any) -> Any:
    """The CLIP; it answers with a verdict where it is shown images, else with a plan."""

    def generate(tokens: Any, **options: Any) -> str:
        return VERDICT if sees(tokens) else PLAN

    clip.generate, clip.decode = generate, str
    return clip


def sees(tokens: Any) -> bool:
    """Return whether the tokens of a text contain an image."""
    if isinstance(tokens, dict):
        return tokens.get("type") == "image" or any(map(sees, tokens.values()))
    return isinstance(tokens, list | tuple) and any(map(sees, tokens))


STAND_IN_MODELS = {**FAMILIES, "sdxl control": (lambda: control_net(SDXL_UNET),)}
if "mage flow" in FAMILIES:
    unet, clip, vae = FAMILIES["mage flow"]
    STAND_IN_MODELS[MAGE_FLOW] = (unet, lambda: writing(clip()), vae)
UPSCALER = "RealESRGAN_x4plus.safetensors"
LORAS = (
    "Qwen-Image-Edit-2511-Lightning-4steps-V1.0-bf16.safetensors",
    "wan2.2_i2v_lightx2v_4steps_lora_v1_high_noise.safetensors",
    "wan2.2_i2v_lightx2v_4steps_lora_v1_low_noise.safetensors",
)


def write_stand_ins() -> None:
    """Write the stand-ins, and LoRAs that change nothing, below the host's model folders."""
    models = Path(folder_paths.models_dir)
    for name, family in STAND_INS.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        (models / name).write_text(family)
    (models / "loras").mkdir(exist_ok=True)
    for name in LORAS:
        save_file({"nothing": torch.zeros(1)}, models / "loras" / name)
    (models / "upscale_models").mkdir(exist_ok=True)
    save_file(upscaler(), models / "upscale_models" / UPSCALER)


def upscaler() -> dict[str, torch.Tensor]:
    """Random weights of the smallest network of the official upscaler's kind, four times."""
    network = import_module("spandrel.architectures.ESRGAN.__arch.RRDB").RRDBNet
    torch.manual_seed(5)
    with torch.inference_mode(False):
        return network(num_filters=4, num_blocks=1, scale=4).state_dict()


def load_stand_ins() -> None:
    """Have the host's loaders give a family for a file that names one."""
    answer_for(nodes.UNETLoader, "load_unet", "diffusion_models", (MODEL,))
    answer_for(nodes.CLIPLoader, "load_clip", "text_encoders", (CLIP,))
    answer_for(nodes.VAELoader, "load_vae", "vae", (VAE,))
    answer_for(nodes.ControlNetLoader, "load_controlnet", "controlnet", (MODEL,))
    answer_for(nodes.CheckpointLoaderSimple, "load_checkpoint", "checkpoints", (MODEL, CLIP, VAE))


def answer_for(loader: type, method: str, folder: str, parts: tuple[int, ...]) -> None:
    """Wrap one loader."""
    original = getattr(loader, method)

    def load(self: Any, name: str = "", *args: Any, **inputs: Any) -> Any:
        chosen = name or next(value for key, value in inputs.items() if key.endswith("_name"))
        family = family_of(folder_paths.get_full_path(folder, chosen))
        if family is None:
            return original(self, *([name] if name else []), *args, **inputs)
        # Created each time: the host takes a model that outlives its patched clones for a leak, and then
        # collects garbage all the time.
        with torch.inference_mode(False):
            return tuple(STAND_IN_MODELS[family][part]() for part in parts)

    setattr(loader, method, load)


def family_of(path: str | None) -> str | None:
    """The family that a file names, None for a real one."""
    if path is None or Path(path).stat().st_size > MAX_BYTES:
        return None
    named = Path(path).read_text(encoding="utf-8", errors="replace")
    return named if named in STAND_IN_MODELS else None
