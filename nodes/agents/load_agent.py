"""The node that loads an agent from the models folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from comfy_api.latest import io

from ...backend.chat.llamacpp.settings import CONTEXT, MAX_CONTEXT, MIN_CONTEXT
from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from .. import host
from ..inputs.requirements import check_library, require_library
from ..inputs.sockets import CATEGORY, AgentSocket
from ..inputs.validation import only_text
from .folders import (
    BUILT_IN,
    NO_ADAPTER,
    adapter_folder,
    adapter_names,
    agent_names,
    agent_spec,
    checkpoint_bytes,
    is_gguf,
    named_agent,
    places,
    weights_stamp,
)
from .managed_chat import managed
from .precision import AUTO, SHARE_LEFT, check_gguf, check_precision, options_of, precisions
from .reply_inputs import reply_inputs, reply_settings
from .strictness import FROM_THE_AGENT, STRICTNESS, STRICTNESS_HELP

SECONDS_BETWEEN_SIGNS = 0.5
AS_MANY_AS_FIT = -1


class LoadAgent(io.ComfyNode):
    """Loads a planner or critic; the weights go onto the card when it first speaks."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        roots = host.agent_roots()
        return io.Schema(
            node_id="InterleaveLoadAgent",
            display_name="Load Agent",
            category=CATEGORY,
            description="Loads a vision-language model that plans or judges. ComfyUI moves it on and off "
            "the card. "
            f"Put Qwen3-VL folders, or .gguf files with their mmproj file, into {places(roots)}.",
            search_aliases=["planner", "critic", "qwen3-vl", "vlm", "llm", "load language model"],
            inputs=[
                io.Combo.Input(
                    "agent",
                    options=agent_names(roots),
                    tooltip="A built-in agent, or a Qwen3-VL folder or .gguf file (run by llama.cpp) in "
                    f"{places(roots)}.",
                ),
                io.Combo.Input(
                    "precision",
                    options=precisions(),
                    default=AUTO,
                    optional=True,
                    tooltip="Number format of the weights; auto takes the one they are stored in. "
                    "8-bit and 4-bit are offered where the library bitsandbytes is installed: "
                    "about 60 and 45 % of the memory.",
                ),
                io.Combo.Input(
                    "adapter",
                    options=adapter_names(roots),
                    default=NO_ADAPTER,
                    optional=True,
                    tooltip=f"LoRA adapter laid over the agent: a folder in {places(roots)}.",
                ),
                io.Combo.Input(
                    "strictness",
                    options=list(STRICTNESS),
                    default=FROM_THE_AGENT,
                    optional=True,
                    tooltip=STRICTNESS_HELP,
                ),
                io.String.Input(
                    "hub_id",
                    default="",
                    optional=True,
                    advanced=True,
                    tooltip="OWNER/NAME of a Qwen3-VL model on the Hugging Face Hub, taken instead of "
                    "'agent' if given. "
                    "Nothing is fetched unless 'download' is on.",
                ),
                io.Boolean.Input(
                    "download",
                    default=False,
                    optional=True,
                    advanced=True,
                    tooltip="Fetch the model named in 'hub_id' (weights and tokenizer, several GB) "
                    "into the agents' folder if it is not there yet. Off: nothing is ever downloaded.",
                ),
                *reply_inputs(),
                io.Int.Input(
                    "context",
                    default=CONTEXT,
                    min=MIN_CONTEXT,
                    max=MAX_CONTEXT,
                    step=1024,
                    optional=True,
                    advanced=True,
                    tooltip="Tokens of question and answer together that a .gguf agent can hold; memory for "
                    "all of them is taken. Other agents have their model's own.",
                ),
                io.Int.Input(
                    "gpu_layers",
                    default=AS_MANY_AS_FIT,
                    min=AS_MANY_AS_FIT,
                    max=9999,
                    optional=True,
                    advanced=True,
                    tooltip="Layers of a .gguf agent on the card: -1 as many as fit, 0 none, which leaves "
                    "the card to the image model.",
                ),
            ],
            outputs=[
                AgentSocket.Output("AGENT", tooltip="Connect it to a Planner, or to a Critic Loop as critic.")
            ],
        )

    @classmethod
    def fingerprint_inputs(
        cls, agent: str = "", adapter: str = NO_ADAPTER, hub_id: str = "", **others: Any
    ) -> str:
        if not all(isinstance(one, str) for one in (agent, adapter, hub_id)):
            return ""
        roots = host.agent_roots()
        name = hub_id.strip() or agent
        return f"{weights_stamp(name, roots)} {weights_stamp(adapter, roots, 'adapter_config.json')}"

    @classmethod
    def validate_inputs(cls, agent: str | None = "") -> bool | str:
        # The host shows what is returned once for every input asked for here, so only the one that most often
        # goes wrong is: a shared workflow names an agent that is not there. The lists are left to the host,
        # the rest to execute.
        if agent is None:
            return True  # what comes over a wire is looked at when the node runs
        try:
            only_text("Load Agent", agent=agent)
            agent_spec(agent, host.agent_roots())
        except SettingsError as error:
            return f"{error} Where hub_id names the agent, any of the list will do."
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
        **replies: Any,
    ) -> io.NodeOutput:
        gguf = gguf_options(replies.pop("context", CONTEXT), replies.pop("gpu_layers", AS_MANY_AS_FIT))
        settings = reply_settings("Load Agent", replies)
        only_text("Load Agent", agent=agent, precision=precision, adapter=adapter, hub_id=hub_id)
        roots = host.agent_roots()
        name = named_agent(agent, hub_id, download, roots)
        check_agent(name, precision, adapter, roots)
        if name not in BUILT_IN and hub_id.strip() and download:
            fetch(name, roots[0])
        if is_gguf(name):
            chat = open_gguf(name, roots, gguf)
        else:
            chat = open_agent(name, precision, adapter_folder(adapter, roots), roots)
        if (family := untested_family(chat)) is not None:
            host.NodeProgress().say(f"untested family: {family}")
        return io.NodeOutput(managed(chat, name not in BUILT_IN, STRICTNESS.get(strictness), settings))


def untested_family(chat: ChatModel) -> str | None:
    """The family of an agent that this pack's engine and tests do not know, None for others."""
    base: Any = getattr(chat, "base", None)
    return None if base is None or base.is_tested else base.family


def check_agent(name: str, precision: str, adapter: str, roots: list[Path]) -> None:
    """Raise SettingsError, with what to do, for a precision or an adapter that this agent cannot have."""
    if is_gguf(name):
        check_gguf(precision, adapter)
        return
    check_precision(precision, name in BUILT_IN)
    adapter_folder(adapter, roots)


def gguf_options(context: Any, gpu_layers: Any) -> dict[str, int | None]:
    """The two inputs as options of `open_chat`; raises SettingsError for anything but whole numbers."""
    for name, value in (("context", context), ("gpu_layers", gpu_layers)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingsError(f"Load Agent: {name} is no whole number.")
    return {"context": context, "gpu_layers": None if gpu_layers < 0 else gpu_layers}


def open_gguf(name: str, roots: list[Path], options: dict[str, int | None]) -> ChatModel:
    """The chat of a GGUF file in the models folder; its server starts when it first speaks. The server is
    never named by a workflow, which a stranger may have made: LLAMA_SERVER and the PATH say where it is."""
    from ...backend.chat import open_chat

    with require_library("httpx", "tenacity"):
        return open_chat(agent_spec(name, roots), **options)


def open_agent(name: str, precision: str, adapter: str | None, roots: list[Path]) -> ChatModel:
    """The chat of an agent in the models folder, in host memory; quantised weights go straight onto the
    card."""
    from ...backend.chat import open_chat

    options = options_of(precision)
    quantization = options["quantization"]
    if adapter is not None:
        check_library("peft")
    with require_library("transformers", "torchvision"), host.explaining_out_of_memory():
        spec = agent_spec(name, roots)
        if name in BUILT_IN:
            return open_chat(spec, adapter=adapter, dtype=options["dtype"])
        if quantization is None:
            # The host's memory manager brings it onto the card when it speaks.
            return open_chat(spec, adapter=adapter, device="cpu", **options)
        host.make_room(int(checkpoint_bytes(name, roots) * SHARE_LEFT[quantization]))
        return open_chat(spec, adapter=adapter, device=host.agent_device(), **options)


def fetch(hub_id: str, root: Path) -> None:
    """Download a checkpoint into the agents' folder, showing how far it is; raises Cancelled if the user
    stops it."""
    with require_library("huggingface-hub", "httpx"):
        from ...backend.checkpoints.hub import fetch_checkpoint

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
