"""Node that loads an agent (a vision-language model) from the models folder.

The jobs of an agent are the sockets that its node is connected to. Links through other nodes (switches) are
not followed; the planner or critic then refuses the agent when it gets it. A route explains in the browser,
before a run, that an agent is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from comfy_api.latest import io
from pydantic import BaseModel, ConfigDict, Field

from ...backend.core.errors import SettingsError
from ...backend.core.prompts.agent_card import Role
from ...backend.core.prompts.trained_with import TrainedWith, say_once, trained_with
from ...backend.core.seams.chat_model import ChatModel
from ...backend.models.chat.llamacpp_chat import CONTEXT, MAX_CONTEXT, MIN_CONTEXT
from .. import host
from ..inputs.named_models import (
    AS_MANY_AS_FIT,
    AUTO,
    BUILT_IN,
    NO_ADAPTER,
    SHARE_LEFT,
    adapter_folder,
    adapter_names,
    agent_file,
    agent_names,
    agent_spec,
    check_agent,
    checkpoint_bytes,
    download_command,
    gguf_options,
    is_gguf,
    named_agent,
    options_of,
    places,
    precisions,
    prompts_stamp,
    weights_stamp,
)
from ..inputs.sockets import AgentSocket, node_schema
from ..inputs.validation import FROM_THE_AGENT, STRICTNESS, check_library, only_text, require_library
from .managed_chat import ManagedChat
from .reply_inputs import chosen_prompts, prompts_input, reply_inputs, reply_settings

SECONDS_BETWEEN_SIGNS = 0.5


class LoadAgent(io.ComfyNode):
    """Loads a planner or critic. The weights move to the GPU before the first reply."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        roots = host.agent_roots()
        return node_schema(
            "InterleaveLoadAgent",
            description="Loads a vision-language model (Qwen3-VL) as an agent: it plans a story or judges "
            "images. ComfyUI moves it on and off the GPU. Put Qwen3-VL folders, or .gguf files with their "
            f"mmproj file, into {places(roots)}.",
            shown=("agent", "precision"),
            inputs=[
                io.Combo.Input(
                    "agent",
                    options=agent_names(roots),
                    tooltip="The model: a Qwen3-VL folder or a .gguf file (run by llama.cpp) in "
                    f"{places(roots)}. The tiny world agents are built in and understand only the toy world.",
                ),
                io.Combo.Input("precision", options=precisions(), default=AUTO, optional=True),
                io.Combo.Input(
                    "adapter",
                    options=adapter_names(roots),
                    default=NO_ADAPTER,
                    optional=True,
                    tooltip="LoRA adapter trained for this agent, such as your own critic: a folder in "
                    f"{places(roots)}. Image LoRAs do not fit.",
                ),
                io.Combo.Input("strictness", options=list(STRICTNESS), default=FROM_THE_AGENT, optional=True),
                io.String.Input("hub_id", default="", optional=True),
                io.Boolean.Input("download", default=False, optional=True),
                *reply_inputs(),
                io.Int.Input(
                    "context", default=CONTEXT, min=MIN_CONTEXT, max=MAX_CONTEXT, step=1024, optional=True
                ),
                io.Int.Input(
                    "gpu_layers", default=AS_MANY_AS_FIT, min=AS_MANY_AS_FIT, max=9999, optional=True
                ),
                prompts_input(),
            ],
            hidden=[io.Hidden.dynprompt],
            outputs=[AgentSocket.Output("AGENT")],
        )

    @classmethod
    def fingerprint_inputs(
        cls,
        agent: str = "",
        adapter: str = NO_ADAPTER,
        hub_id: str = "",
        prompts: str = FROM_THE_AGENT,
        **others: Any,
    ) -> str:
        """Return a value that changes when the node must run again."""
        if not all(isinstance(one, str) for one in (agent, adapter, hub_id, prompts)):
            return ""
        roots = host.agent_roots()
        name = hub_id.strip() or agent
        stamps = weights_stamp(name, roots), weights_stamp(adapter, roots, "adapter_config.json")
        return " ".join((*stamps, prompts_stamp(prompts, roots)))

    @classmethod
    def validate_inputs(cls, agent: str | None = "") -> bool | str:
        """Check inputs before anything runs."""
        # The host shows the returned error once for every parameter of this method. So only the most common
        # error is checked here: a shared workflow names an agent that is missing.
        if agent is None:
            return True  # a value on a wire is checked when the node runs
        try:
            only_text("Load Agent", agent=agent)
            agent_spec(agent, host.agent_roots())
        except SettingsError as error:
            return f"{error} If 'Hugging Face model' names the agent, choose any entry of the list."
        return True

    @classmethod
    def execute(
        cls,
        agent: str,
        precision: str = AUTO,
        adapter: str = NO_ADAPTER,
        strictness: str = FROM_THE_AGENT,
        hub_id: str = "",
        download: bool = False,
        prompts: str = FROM_THE_AGENT,
        **replies: Any,
    ) -> io.NodeOutput:
        """Open the agent, downloading it first if requested."""
        gguf = gguf_options(replies.pop("context", CONTEXT), replies.pop("gpu_layers", AS_MANY_AS_FIT))
        settings = reply_settings("Load Agent", replies)
        given = {"agent": agent, "precision": precision, "adapter": adapter, "hub_id": hub_id}
        only_text("Load Agent", **given, prompts=prompts)
        roots = host.agent_roots()
        name = named_agent(agent, hub_id, download, roots)
        check_agent(name, precision, adapter, roots)
        if name not in BUILT_IN and hub_id.strip() and download:
            fetch(name, roots[0])
        own, chosen = record_of(name, adapter, roots), chosen_prompts(prompts)
        accept_at = STRICTNESS.get(strictness)
        if own is not None:
            for role in wired_roles(host.graph_of(cls.hidden.dynprompt), host.running_node()):
                own.check_role(role)
        if is_gguf(name):
            chat = open_gguf(name, roots, gguf)
        else:
            chat = open_agent(name, precision, adapter_folder(adapter, roots), roots)
        opened = ManagedChat(chat, name not in BUILT_IN, accept_at, settings, chosen)
        family = untested_family(chat)
        said = [f"untested family: {family}"] if family else []
        if own is not None and chosen is None and own.warning:
            say_once(opened, own.warning)
            said.append(own.warning)
        if said:
            host.NodeProgress().say(" ".join(said))
        return io.NodeOutput(opened)


def untested_family(chat: ChatModel) -> str | None:
    """Return the model family of an agent that the pack was not tested with, `None` for a tested one."""
    base: Any = getattr(chat, "base", None)
    return None if base is None or base.is_tested else base.family


def open_gguf(name: str, roots: list[Path], options: dict[str, int | None]) -> ChatModel:
    """Open the chat of a GGUF file in the models folder. Its server starts before the first reply.

    The program is found by LLAMA_SERVER or the PATH and never named by a workflow, which may come from a
    stranger.
    """
    from ...backend.models.chat import open_chat

    with require_library("httpx", "tenacity"):
        return open_chat(agent_spec(name, roots), **options)


def open_agent(name: str, precision: str, adapter: str | None, roots: list[Path]) -> ChatModel:
    """Open the chat of an agent in the models folder, in RAM; quantized weights directly on the GPU."""
    from ...backend.models.chat import open_chat

    options = options_of(precision)
    quantization = options["quantization"]
    if adapter is not None:
        check_library("peft")
    with require_library("transformers", "torchvision"), host.explaining_out_of_memory():
        spec = agent_spec(name, roots)
        if name in BUILT_IN:
            return open_chat(spec, adapter=adapter, dtype=options["dtype"])
        if quantization is None:
            # ComfyUI's memory manager moves it to the GPU before each reply.
            return open_chat(spec, adapter=adapter, device="cpu", **options)
        host.make_room(int(checkpoint_bytes(name, roots) * SHARE_LEFT[quantization]))
        return open_chat(spec, adapter=adapter, device=host.agent_device(), **options)


def fetch(hub_id: str, root: Path) -> None:
    """Download a checkpoint into the agents' folder and show the progress on the node.

    Raises:
        Cancelled: The user stopped it.
    """
    with require_library("huggingface-hub", "httpx"):
        from ...backend.models.checkpoints.hub import fetch_checkpoint

        progress, shown = host.NodeProgress(), [0.0]

        def show(done: int, total: int) -> None:
            host.stop_if_interrupted()
            if done < total and time.monotonic() - shown[0] < SECONDS_BETWEEN_SIGNS:
                return
            shown[0] = time.monotonic()
            progress.show(done / max(total, 1))
            progress.say(f"downloading {hub_id}: {done / 1e9:.2f} of {total / 1e9:.2f} GB")

        with host.host_interrupts():
            fetch_checkpoint(hub_id, root, show)


SOCKETS: dict[tuple[str, str], Role] = {
    ("InterleavePlanner", "agent"): "planner",
    ("InterleaveJudge", "agent"): "critic",
}
"""Inputs for agents by node and name. An input with the name of a role is for that role in every node."""
ROLES: dict[str, Role] = {"planner": "planner", "critic": "critic"}


def wired_roles(graph: Mapping[str, Mapping[str, Any]], node: str) -> list[Role]:
    """Return the jobs of an agent node: those of the sockets that it is connected to.

    Args:
        graph: All nodes in API form.
        node: Id of the agent node.
    """
    found: set[Role] = set()
    for other in graph.values():
        for name, value in other.get("inputs", {}).items():
            # A link is [node, output]; a loader has one output.
            if isinstance(value, (list, tuple)) and len(value) == 2 and str(value[0]) == node:
                role = SOCKETS.get((str(other.get("class_type")), name)) or ROLES.get(name)
                if role is not None:
                    found.add(role)
    return sorted(found)


def record_of(name: str, adapter: str, roots: Sequence[Path]) -> TrainedWith | None:
    """Return the record of an agent with its adapter, `None` for the built-in agents.

    Raises:
        SettingsError: The agent or adapter was not found, or its card is damaged.
    """
    if name in BUILT_IN:
        return None
    path = agent_file(name, roots)
    base = trained_with(path) if path.is_dir() else trained_with(path.parent, file=path.name)
    lora = adapter_folder(adapter, roots)
    return base if lora is None else trained_with(lora, adapter=True).over(base)


class AskAgent(BaseModel):
    """Question whether an agent is installed."""

    model_config = ConfigDict(extra="forbid")

    agent: str = Field(max_length=500)


class AgentPlace(BaseModel):
    """Whether an agent was found, and the folder and the command that install it.

    `command` is "" if the agent's name is not a name on the Hugging Face Hub.
    """

    found: bool
    folder: str
    command: str


def place_of(asked: AskAgent) -> AgentPlace:
    """Return whether the agent is installed, and how to install it."""
    roots = host.agent_roots()
    try:
        agent_spec(asked.agent, roots)
        found = True
    except SettingsError:
        found = False
    return AgentPlace(found=found, folder=str(roots[0]), command=download_command(asked.agent, roots))


def agent_routes() -> list[host.Route]:
    """Return the route of Load Agent."""
    return [host.Route("GET", "/interleave-thinker/agent", AskAgent, place_of)]
