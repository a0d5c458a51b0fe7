"""Inputs of the agent nodes that control replies: length, sampling, image size and prompt set.

They belong to the agent and not to Planner and Critic Loop, so they are set once per agent. Defaults change
neither answers nor cache keys. A prompt set is chosen from those in the agents' folders, never given as a
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comfy_api.latest import io

from ...backend.chat.image_limits import MAX_PIXELS, MAX_PIXELS_BOUND
from ...backend.chat.protocol import ChatModel, ReplySettings
from ...backend.prompts import PromptSet
from .. import host
from ..inputs.named_models import FROM_THE_AGENT, prompt_set_named, prompt_set_names
from ..inputs.validation import checked

AGENT_OUTPUT = "Connect it to a Planner, or to the critic input of a Critic Loop, Attempt End or Judge."
HIDDEN: dict[str, Any] = {"optional": True, "advanced": True}
NO_OWN_SET = "'from the agent' uses the pack's own prompts."
FIELD_OF = {"sampling_seed": "seed"}
"""Fields of ReplySettings whose inputs have another name."""


def reply_inputs() -> list[Any]:
    """Return the inputs, which follow a node's own."""
    return [
        io.Int.Input(
            "max_tokens",
            default=0,
            min=0,
            max=65536,
            tooltip="Maximum length of an answer in tokens. 0 = automatic: 16384 for a plan, 4096 for a "
            "verdict, never more than the model's context allows.",
            **HIDDEN,
        ),
        io.Float.Input(
            "temperature",
            default=0.0,
            min=0.0,
            max=2.0,
            step=0.05,
            tooltip="Sampling temperature of the agent's answers. 0: greedy decoding, always the same "
            "answer.",
            **HIDDEN,
        ),
        io.Float.Input(
            "top_p",
            default=1.0,
            min=0.01,
            max=1.0,
            step=0.01,
            tooltip="Nucleus sampling (top-p) of the agent's answers. Used above temperature 0.",
            **HIDDEN,
        ),
        io.Int.Input(
            "top_k",
            default=0,
            min=0,
            max=1000,
            tooltip="Sample from this number of most likely tokens; 0 = all. Used above temperature 0. Of "
            "servers, vLLM, SGLang and llama.cpp accept it.",
            **HIDDEN,
        ),
        io.Int.Input(
            "sampling_seed",
            default=0,
            min=0,
            max=2**53,
            tooltip="Sampling seed of the agent's answers. Used above temperature 0.",
            **HIDDEN,
        ),
        io.Int.Input(
            "max_pixels",
            default=MAX_PIXELS,
            min=1024,
            max=MAX_PIXELS_BOUND,
            tooltip="Largest image that the agent sees, in pixels (1048576 = one megapixel). Larger images "
            "are scaled down for the agent. The default uses the size that the agent was trained with, if "
            "known.",
            **HIDDEN,
        ),
    ]


def prompts_input(without: str = NO_OWN_SET) -> Any:
    """Return the input that chooses a prompt set. `without`: sentence about the default."""
    return io.Combo.Input(
        "prompts",
        options=prompt_set_names(host.agent_roots()),
        default=FROM_THE_AGENT,
        optional=True,
        advanced=True,
        tooltip=f"Prompt set that the model was trained with: a folder in the agents' folder. {without}",
    )


def reply_settings(node: str, inputs: Mapping[str, Any]) -> ReplySettings:
    """Return the reply settings of a node's inputs, by their names. Missing inputs keep their default.

    Raises:
        SettingsError: A value is out of range.
    """
    values = {FIELD_OF.get(name, name): value for name, value in inputs.items()}
    values["max_tokens"] = values.get("max_tokens") or None
    if values.get("max_pixels") == MAX_PIXELS:
        # The default leaves the size to the agent, which may have been trained with another one.
        del values["max_pixels"]
    return checked(ReplySettings, node, **values)


def chosen_prompts(name: str) -> PromptSet | None:
    """Return the prompt set of a choice, `None` for the agent's own, else the pack's.

    Raises:
        SettingsError: The prompt set no longer exists.
    """
    return prompt_set_named(name, host.agent_roots())


def settings_of(chat: ChatModel, watch_verdict: bool = False) -> ReplySettings:
    """Return the reply settings of an agent. `watch_verdict`: it answers as a critic."""
    settings = getattr(chat, "settings", None) or ReplySettings()
    return settings.model_copy(update={"watch_verdict": watch_verdict})
