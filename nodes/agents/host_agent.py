"""The node that makes an agent of a text encoder which ComfyUI has loaded."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..inputs.connected import CLIP, check_connected
from ..inputs.sockets import CATEGORY, AgentSocket
from ..inputs.validation import only_text
from .host_chat import HostChat
from .reply_inputs import chosen_prompts, prompts_input, reply_inputs, reply_settings
from .strictness import FROM_THE_AGENT


class HostAgent(io.ComfyNode):
    """A text encoder that can write plans or judges, in ComfyUI's own memory."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveHostAgent",
            display_name="Host Agent",
            category=CATEGORY,
            description="Has a text encoder that ComfyUI has loaded plan or judge, "
            "if it can write (Qwen3-VL, in newer versions of ComfyUI). "
            "It reports no probabilities, so the Critic Loop goes by its word.",
            search_aliases=["clip", "text encoder", "generate text", "textgenerate", "planner", "critic"],
            inputs=[
                io.Clip.Input(
                    "clip",
                    tooltip="A text encoder that can generate text; to judge, it must see images.",
                ),
                prompts_input(),
                *reply_inputs(),
            ],
            outputs=[
                AgentSocket.Output("AGENT", tooltip="Connect it to a Planner, or to a Critic Loop as critic.")
            ],
        )

    @classmethod
    def execute(cls, clip: Any, prompts: str = FROM_THE_AGENT, **replies: Any) -> io.NodeOutput:
        check_connected("Host Agent", CLIP, clip=clip)
        only_text("Host Agent", prompts=prompts)
        settings = reply_settings("Host Agent", replies)
        return io.NodeOutput(HostChat(clip, settings, chosen_prompts(prompts)))
