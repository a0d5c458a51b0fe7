"""Options of commands that open models: planner, critic, generator, cast writer, and local models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from ...backend.chat.chat_model import ReplySettings
from ...backend.chat.llamacpp_chat import LlamaCppSettings
from ...backend.pipeline.models import TINY_WORLD
from ...backend.pipeline.story_check import MAX_REOPENED
from .service import ServiceOptions

NONE = "none"
"""Value of `--critic` for a run without a critic."""

PROMPTS_HELP = (
    "Folder of the prompt set that this model was trained with (see `prompts import`). "
    "Default: the one stored with a local checkpoint, otherwise the built-in set."
)


def reply_option(name: str) -> Any:
    """Return an option for a reply setting; None means the default of the setting."""
    field = ReplySettings.model_fields[name]
    return FieldInfo.merge_field_infos(field, default=None)


def gguf_option(name: str) -> Any:
    """Return an option for GGUF agents; None means the default of the setting."""
    return FieldInfo.merge_field_infos(LlamaCppSettings.model_fields[name], default=None)


class LocalOptions(ServiceOptions):
    """Options for loading models and for timeouts.

    Each option is passed to every model that supports it. An option that no model supports is an error.
    """

    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None,
        description="Dtype of local models. Default: the checkpoint's own for agents; for image models "
        "bfloat16 on a "
        "GPU (float16 if it has no bfloat16) and float32 on the CPU.",
    )
    device: str | None = Field(
        default=None,
        description="Device of local models, such as cuda:0 or cpu. Default: the GPU if there is one.",
    )
    quantization: Literal["4bit", "8bit", "fp8"] | None = Field(
        default=None,
        description=(
            "Quantize local agents to need less VRAM: 4bit and 8bit need bitsandbytes, fp8 needs torchao "
            "and a "
            "GPU that computes in fp8."
        ),
    )
    download: bool = Field(default=False, description="Download models that are not in the local cache.")
    deadline: float | None = Field(
        default=None,
        gt=0.0,
        description="Timeout of model servers in seconds. Default: 1800 for an agent's answer, 300 for an "
        "image.",
    )
    engine: str | None = Field(
        default=None,
        description="Decoding and cache settings of local models as NAME=VALUE,NAME=VALUE, such as "
        "prefix_tokens=0. All names: docs/explanation/speed.md.",
    )
    constrained_decoding: Literal["never", "retry", "always"] = Field(
        default="retry",
        description="When to constrain an agent's reply to the form of its answer: after a reply that could "
        "not be parsed (retry), always or never. Local agents need llguidance, servers JSON schemas.",
    )
    mmproj: str | None = gguf_option("mmproj")
    context: int | None = gguf_option("context")
    threads: int | None = gguf_option("threads")
    gpu_layers: int | None = gguf_option("gpu_layers")
    llama_server: str | None = gguf_option("llama_server")


class PlannerOptions(BaseModel):
    """Options of the planner."""

    planner: str = Field(
        default=TINY_WORLD,
        description="Planner: transformers:FOLDER, llamacpp:FILE.gguf, openai:MODEL@URL or tinyworld.",
    )
    planner_adapter: str | None = Field(default=None, description="LoRA adapter of the planner (folder).")
    planner_prompts: str | None = Field(default=None, description=PROMPTS_HELP)
    planner_max_tokens: int | None = reply_option("max_tokens")
    planner_temperature: float | None = reply_option("temperature")
    planner_top_p: float | None = reply_option("top_p")
    planner_top_k: int | None = reply_option("top_k")
    planner_seed: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="Sampling seed of the plan. 0 keeps greedy decoding; any other seed samples, at "
        "temperature 0.7 "
        "unless --planner-temperature is set.",
    )
    planner_max_pixels: int | None = reply_option("max_pixels")


class CastOptions(BaseModel):
    """Options of the cast."""

    cast: str | None = Field(
        default=None,
        description="YAML file with the characters, props and places that look the same in every image. "
        "Default: cast.yaml next to the run folder, if it exists; none ignores it.",
    )
    cast_writer: str | None = Field(
        default=None,
        description="Chat model that reads the finished plan and writes its cast: transformers:FOLDER, "
        "llamacpp:FILE.gguf or openai:MODEL@URL. With --cast, it only writes who is in each step and what is "
        "true there.",
    )


class RewritingOptions(BaseModel):
    """Options of rewriting failed steps."""

    step_rewriter: str | None = Field(
        default=None,
        description="Chat model that describes the whole image of a step whose attempts are used up. The "
        "step is then generated again from this text, without a source image: transformers:FOLDER, "
        "llamacpp:FILE.gguf or openai:MODEL@URL.",
    )


class StoryCheckOptions(BaseModel):
    """Options of the story check."""

    check_story: int = Field(
        default=0,
        ge=0,
        le=MAX_REOPENED,
        description="After the last step, check all images of the story together, and generate up to this "
        "number of images again, each with the later steps that depend on it. 0: no check.",
    )
    story_checker: str | None = Field(
        default=None,
        description="Chat model of the story check: transformers:FOLDER, llamacpp:FILE.gguf or "
        "openai:MODEL@URL. Default: the critic's.",
    )


class CriticOptions(BaseModel):
    """Options of the critic."""

    critic: str = Field(
        default=TINY_WORLD,
        description="Critic: transformers:FOLDER, llamacpp:FILE.gguf, openai:MODEL@URL or tinyworld. "
        "With none, each step is generated once and not judged.",
    )
    critic_adapter: str | None = Field(default=None, description="LoRA adapter of the critic (folder).")
    critic_prompts: str | None = Field(default=None, description=PROMPTS_HELP)
    critic_max_tokens: int | None = reply_option("max_tokens")
    critic_temperature: float | None = reply_option("temperature")
    critic_top_p: float | None = reply_option("top_p")
    critic_top_k: int | None = reply_option("top_k")
    critic_seed: int | None = reply_option("seed")
    critic_max_pixels: int | None = reply_option("max_pixels")
    merge_critic: bool = Field(
        default=False,
        description=(
            "Merge the critic's adapter into a copy of its base model. "
            "The critic answers faster, and the copy needs the memory of one more model."
        ),
    )


class ScorerOptions(BaseModel):
    """Options of the scorer that chooses between attempts."""

    scorer: str | None = Field(
        default=None,
        description="Scorer that chooses the image of a step if several attempts were accepted, or none of "
        "several: judge:CHAT, tinyworld or a plug-in. Default: the critic's verdicts choose.",
    )


class DrawingOptions(BaseModel):
    """Options of the generator, except its model."""

    size: str | None = Field(default=None, description="Image size as WIDTHxHEIGHT in pixels.")
    steps: int | None = Field(default=None, ge=1, description="Sampling steps per image.")
    guidance: float | None = Field(default=None, ge=0.0, description="Guidance scale.")
    strength: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="How much an edit may change its source image, for image-to-image models.",
    )
    lora: str | None = Field(
        default=None, description="LoRA file (safetensors) to load into a diffusers model."
    )
    lora_scale: float | None = Field(
        default=None, ge=-10.0, le=10.0, description="LoRA strength. 1 is the strength of the training."
    )
    mask: str | None = Field(
        default=None,
        description="Mask image for inpainting models (FLUX Fill, FIBO 2): edits change only the white area.",
    )


class GeneratorOptions(DrawingOptions):
    """Options of the generator."""

    generator: str = Field(
        default=TINY_WORLD,
        description="Image model: diffusers:FOLDER, http:URL1,URL2 (services with the same model), "
        "images:MODEL@URL, gemini:MODEL, tinyworld or fake. With none, `run` accepts only plans of text-only "
        "steps.",
    )
    lora_folder: str | None = Field(
        default=None, description="Folder of the LoRA files that steps of the plan name (diffusers models)."
    )
    enhancer: str | None = Field(
        default=None,
        description="Prompt enhancer: transformers:FOLDER, llamacpp:FILE.gguf or openai:MODEL@URL. It "
        "rewrites every prompt for the image model; the critic judges against the plan's prompt.",
    )
    enhancer_prompt: str | None = Field(
        default=None,
        description="Text file with the enhancer's prompt for steps generated from text. Default: the "
        "built-in one.",
    )
    enhancer_edit_prompt: str | None = Field(
        default=None,
        description="Text file with the enhancer's prompt for steps that edit an image. Default: the "
        "built-in one.",
    )
    put_back: bool = Field(
        default=False,
        description="After each edit, put back the pixels of the source image that the edit did not need to "
        "change. Skipped for prompts that ask to change light, weather, style or view.",
    )
    enhancer_max_tokens: int | None = Field(
        default=None,
        ge=1,
        le=65536,
        description="Token limit of an enhanced prompt. Default: 2048.",
    )
