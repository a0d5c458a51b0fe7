"""How an agent answers, as inputs of the nodes that give agents: length, sampling, size of the images it
sees, prompt set.

Decision: they belong to the agent and not to Planner and Critic Loop, as its strictness does, so that they
are set once wherever it is used. What is left as it is changes neither answers nor cache keys. A prompt set
is chosen among those found in the agents' folders, never written as a path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comfy_api.latest import io

from ...backend.chat.image_limits import MAX_PIXELS, MAX_PIXELS_BOUND
from ...backend.chat.protocol import ChatModel, ReplySettings
from ...backend.prompts import PromptSet
from .. import host
from ..inputs.validation import checked
from .folders import FROM_THE_AGENT, prompt_set_named, prompt_set_names

HIDDEN: dict[str, Any] = {"optional": True, "advanced": True}
FIELD_OF = {"sampling_seed": "seed"}
"""Inputs whose field of ReplySettings has another name; all others have the field's."""


def reply_inputs() -> list[Any]:
    """The inputs, to stand after a node's own."""
    return [
        io.Int.Input(
            "max_tokens",
            default=0,
            min=0,
            max=65536,
            tooltip="Longest answer, in tokens. "
            "0: 16384 for a plan, 4096 for a verdict, and never more than the model's context has room for.",
            **HIDDEN,
        ),
        io.Float.Input(
            "temperature",
            default=0.0,
            min=0.0,
            max=2.0,
            step=0.05,
            tooltip="0 gives the likeliest answer, always the same; above it answers are drawn.",
            **HIDDEN,
        ),
        io.Float.Input(
            "top_p",
            default=1.0,
            min=0.01,
            max=1.0,
            step=0.01,
            tooltip=(
                "Above temperature 0: draw from the likeliest tokens that together have this probability."
            ),
            **HIDDEN,
        ),
        io.Int.Input(
            "top_k",
            default=0,
            min=0,
            max=1000,
            tooltip="Above temperature 0: draw from so many likeliest tokens, 0 from all. "
            "Servers know it that are vLLM, SGLang or llama.cpp; others refuse it.",
            **HIDDEN,
        ),
        io.Int.Input(
            "sampling_seed",
            default=0,
            min=0,
            max=2**53,
            tooltip="Seed of the answers that are drawn.",
            **HIDDEN,
        ),
        io.Int.Input(
            "max_pixels",
            default=MAX_PIXELS,
            min=1024,
            max=MAX_PIXELS_BOUND,
            tooltip=(
                "Largest area of an image that the agent sees, in pixels; larger ones are scaled down to it. "
                "At its default, an agent that was trained at another size sees that one."
            ),
            **HIDDEN,
        ),
    ]


def prompts_input() -> Any:
    """The choice of a prompt set, for agents that cannot bring their own."""
    return io.Combo.Input(
        "prompts",
        options=prompt_set_names(host.agent_roots()),
        default=FROM_THE_AGENT,
        optional=True,
        tooltip="Wording that the model was trained with: "
        "a folder with a prompt set among the agents' folders. 'from the agent' asks in the pack's own.",
    )


def reply_settings(node: str, inputs: Mapping[str, Any]) -> ReplySettings:
    """The settings that these inputs give, by their names; one that is missing stays as it is. Raises
    SettingsError."""
    values = {FIELD_OF.get(name, name): value for name, value in inputs.items()}
    values["max_tokens"] = values.get("max_tokens") or None
    if values.get("max_pixels") == MAX_PIXELS:
        # Left as it is: an agent that was trained at another size sees that one.
        del values["max_pixels"]
    return checked(ReplySettings, node, **values)


def chosen_prompts(name: str) -> PromptSet | None:
    """The prompt set of a choice; raises SettingsError if there is no such one any more."""
    return prompt_set_named(name, host.agent_roots())


def settings_of(chat: ChatModel, watch_verdict: bool = False) -> ReplySettings:
    """How this agent is to answer; `watch_verdict`: as a critic."""
    settings = getattr(chat, "settings", None) or ReplySettings()
    return settings.model_copy(update={"watch_verdict": watch_verdict})
