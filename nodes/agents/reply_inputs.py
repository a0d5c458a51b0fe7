"""Inputs of the agent nodes that control replies: length, sampling, image size and prompt set.

They belong to the agent and not to Planner and Critic Loop, so they are set once per agent. Defaults change
neither answers nor cache keys. A prompt set is chosen from those in the agents' folders, never given as a
path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comfy_api.latest import io

from ...backend.core.prompts.prompt_set import PromptSet
from ...backend.core.seams.chat_model import MAX_PIXELS, ChatModel, ReplySettings
from .. import host
from ..inputs.loop_inputs import setting_input
from ..inputs.named_models import FROM_THE_AGENT, prompt_set_named, prompt_set_names
from ..inputs.validation import checked

FIELD_OF = {"sampling_seed": "seed"}
"""Fields of ReplySettings whose inputs have another name."""


def reply_inputs() -> list[Any]:
    """Return the inputs, which follow a node's own."""
    return [
        setting_input(ReplySettings, "max_tokens", default=0, min=0, optional=True),
        setting_input(ReplySettings, "temperature", step=0.05, optional=True),
        setting_input(ReplySettings, "top_p", min=0.01, step=0.01, optional=True),
        setting_input(ReplySettings, "top_k", optional=True),
        setting_input(ReplySettings, "seed", id="sampling_seed", optional=True),
        setting_input(ReplySettings, "max_pixels", optional=True),
    ]


def prompts_input() -> Any:
    """Return the input that chooses a prompt set."""
    return io.Combo.Input(
        "prompts",
        options=prompt_set_names(host.agent_roots()),
        default=FROM_THE_AGENT,
        optional=True,
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
