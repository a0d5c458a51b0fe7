"""Node that uses a text encoder loaded by ComfyUI as an agent."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..inputs.connected import CLIP, check_connected
from ..inputs.sockets import CATEGORY, AgentSocket
from ..inputs.strictness import FROM_THE_AGENT
from ..inputs.validation import only_text
from .host_chat import HostChat
from .reply_inputs import AGENT_OUTPUT, chosen_prompts, prompts_input, reply_inputs, reply_settings


class HostAgent(io.ComfyNode):
    """Uses a loaded text encoder that can generate text as the planner or critic."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleaveHostAgent",
            display_name="Agent from CLIP",
            category=CATEGORY,
            description="Uses a loaded Qwen3-VL text encoder as the planner or critic, so no second model is "
            "loaded. Needs a newer ComfyUI. It reports no probabilities, so the critic's own verdict "
            "decides.",
            search_aliases=["clip", "text encoder", "generate text", "textgenerate", "planner", "critic"],
            inputs=[
                io.Clip.Input(
                    "clip",
                    tooltip="A Qwen3-VL text encoder, such as those of Mage-Flow, Krea 2, Boogu, Ideogram 4 "
                    "or Qwen-Image-2.1. The encoder of FLUX.2 klein (Qwen3, text only) does not work.",
                ),
                prompts_input(),
                *reply_inputs(),
            ],
            outputs=[AgentSocket.Output("AGENT", tooltip=AGENT_OUTPUT)],
        )

    @classmethod
    def execute(cls, clip: Any, prompts: str = FROM_THE_AGENT, **replies: Any) -> io.NodeOutput:
        """Create the agent."""
        check_connected("Agent from CLIP", CLIP, clip=clip)
        only_text("Agent from CLIP", prompts=prompts)
        settings = reply_settings("Agent from CLIP", replies)
        return io.NodeOutput(HostChat(clip, settings, chosen_prompts(prompts)))
