"""Nodes that provide agents."""

from __future__ import annotations

from comfy_api.latest import io

from ..backend.errors import SettingsError
from . import host
from .agent_folders import (
    BUILT_IN,
    NO_ADAPTER,
    adapter_folder,
    adapter_names,
    agent_names,
    agent_spec,
    weights_stamp,
)
from .managed_chat import ManagedChat
from .sockets import CATEGORY, AgentSocket
from .surroundings import needing

DTYPES = ["auto", "bfloat16", "float16", "float32"]


class LoadAgent(io.ComfyNode):
    """Loads a planner or critic; the weights go onto the card when it first speaks."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        roots = host.agent_roots()
        return io.Schema(
            node_id="InterleaveLoadAgent",
            display_name="Load Agent",
            category=CATEGORY,
            description="Loads a vision-language model that plans or judges. ComfyUI moves it on and off the card.",
            search_aliases=["planner", "critic", "qwen3-vl", "vlm", "llm", "load language model"],
            inputs=[
                io.Combo.Input(
                    "agent",
                    options=agent_names(roots),
                    tooltip="A built-in agent, or a Qwen3-VL folder in models/interleave_agents.",
                ),
                io.Combo.Input(
                    "dtype",
                    options=DTYPES,
                    default="auto",
                    optional=True,
                    advanced=True,
                    tooltip="Number format of the weights; auto takes the one they are stored in.",
                ),
                io.Combo.Input(
                    "adapter",
                    options=adapter_names(roots),
                    default=NO_ADAPTER,
                    optional=True,
                    advanced=True,
                    tooltip="LoRA adapter laid over the agent; a folder in models/interleave_agents.",
                ),
            ],
            outputs=[
                AgentSocket.Output("AGENT", tooltip="Connect it to a Planner, or to a Critic Loop as critic.")
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, agent: str, dtype: str = "auto", adapter: str = NO_ADAPTER) -> str:
        roots = host.agent_roots()
        return f"{weights_stamp(agent, roots)} {weights_stamp(adapter, roots, 'adapter_config.json')}"

    @classmethod
    def validate_inputs(cls, agent: str, adapter: str = NO_ADAPTER) -> bool | str:
        # Asked for here, the host leaves its own check of these lists out, whose words say nothing of what to do.
        try:
            roots = host.agent_roots()
            agent_spec(agent, roots)
            adapter_folder(adapter, roots)
        except SettingsError as error:
            return str(error)
        return True

    @classmethod
    def execute(cls, agent: str, dtype: str = "auto", adapter: str = NO_ADAPTER) -> io.NodeOutput:
        from ..backend.chat import open_chat

        roots = host.agent_roots()
        built_in = agent in BUILT_IN
        options = {
            "dtype": None if dtype == "auto" else dtype,
            "adapter": adapter_folder(adapter, roots),
            # The host's memory manager brings it onto the card when it speaks.
            "device": None if built_in else "cpu",
        }
        with needing("transformers"):
            chat = open_chat(agent_spec(agent, roots), **options)
        return io.NodeOutput(ManagedChat(chat, on_card=not built_in))
