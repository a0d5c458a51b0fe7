"""The node that reaches an agent on a server.

Decision: the workflow names a server, a model and the variable that holds the key, never the key; which
server may see a key is for the environment to say (backend/remote/api_keys.py), since a workflow may come
from a stranger.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.chat.protocol import ChatModel
from ...backend.errors import SettingsError
from ...backend.remote.api_keys import DEFAULT_VARIABLE, check_variable
from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, AgentSocket
from ..inputs.validation import fault_of, only_text
from .managed_chat import ManagedChat
from .reply_inputs import chosen_prompts, prompts_input, reply_inputs, reply_settings
from .strictness import FROM_THE_AGENT, STRICTNESS, STRICTNESS_HELP

LOCAL_SERVER = "http://127.0.0.1:8000/v1"


class RemoteAgent(io.ComfyNode):
    """A vision-language model behind a server that speaks the OpenAI chat protocol."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveRemoteAgent",
            display_name="Remote Agent",
            category=CATEGORY,
            description="A planner or critic on a server that speaks the OpenAI chat protocol: vLLM, "
            "SGLang, LM Studio, llama.cpp, Ollama, or a hosted one. Requests and images are sent there.",
            search_aliases=["openai", "vllm", "lm studio", "ollama", "llama.cpp", "api", "planner", "critic"],
            inputs=[
                io.String.Input(
                    "base_url",
                    default=LOCAL_SERVER,
                    tooltip="Address of the server up to and with /v1.",
                ),
                io.String.Input(
                    "model",
                    default="",
                    tooltip="Name of the model, as the server calls it. It must see images.",
                ),
                io.String.Input(
                    "key_variable",
                    default=DEFAULT_VARIABLE,
                    optional=True,
                    tooltip="Name of the environment variable that holds the key, never the key itself; "
                    "empty for none. A key is sent to this machine, to its own service, and to the hosts "
                    f"in the variable of the same name with _HOSTS ({DEFAULT_VARIABLE}_HOSTS).",
                ),
                io.Int.Input(
                    "timeout",
                    default=300,
                    min=1,
                    max=3600,
                    optional=True,
                    advanced=True,
                    tooltip="Seconds to wait for the connection, and for each piece of the answer.",
                ),
                io.Combo.Input(
                    "strictness",
                    options=list(STRICTNESS),
                    default=FROM_THE_AGENT,
                    optional=True,
                    tooltip=f"{STRICTNESS_HELP} Needs a server that reports log-probabilities.",
                ),
                io.Int.Input(
                    "deadline",
                    default=1800,
                    min=1,
                    max=86400,
                    optional=True,
                    advanced=True,
                    tooltip="Seconds that a whole answer may take, its tries included.",
                ),
                prompts_input(),
                *reply_inputs(),
            ],
            outputs=[
                AgentSocket.Output("AGENT", tooltip="Connect it to a Planner, or to a Critic Loop as critic.")
            ],
        )

    @classmethod
    def validate_inputs(cls, key_variable: str | None = DEFAULT_VARIABLE) -> bool | str:
        # The host shows what is returned once for every input asked for here, so it is one: a key that was
        # pasted where its name belongs would stand in the report of an error that execute raises. None is an
        # input on a wire.
        def check() -> None:
            only_text("Remote Agent", key_variable=key_variable or "")
            check_variable((key_variable or "").strip())

        return fault_of(check)

    @classmethod
    def execute(
        cls,
        base_url: str,
        model: str,
        key_variable: str = DEFAULT_VARIABLE,
        timeout: int = 300,
        strictness: str = FROM_THE_AGENT,
        deadline: int = 1800,
        prompts: str = FROM_THE_AGENT,
        **replies: Any,
    ) -> io.NodeOutput:
        only_text("Remote Agent", prompts=prompts, model=model)
        if not model.strip():
            raise SettingsError(
                "Remote Agent: the name of the model is missing.",
                "The server lists its own at BASE_URL/models.",
            )
        settings, prompt_set = reply_settings("Remote Agent", replies), chosen_prompts(prompts)
        waits = {"timeout": float(timeout), "deadline": float(deadline)}
        chat = open_remote(f"{model.strip()}@{base_url.strip()}", key_variable.strip(), waits)
        accept_at = STRICTNESS.get(strictness)
        return io.NodeOutput(ManagedChat(chat, accept_at=accept_at, settings=settings, prompts=prompt_set))


def open_remote(spec: str, key_variable: str, waits: dict[str, float]) -> ChatModel:
    """The chat of MODEL@ADDRESS; `waits` are its timeout and deadline in seconds. Raises SettingsError."""
    from ...backend.chat import open_chat

    with require_library("httpx", "tenacity"):
        return open_chat(f"openai:{spec}", key_variable=key_variable, **waits)
