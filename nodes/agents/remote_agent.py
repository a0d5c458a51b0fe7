"""Node for an agent on a server.

A workflow may come from a stranger, so it names the server, the model and the environment variable of the API
key, never the key. Which server may receive the key is set in the environment: `api_keys.py`.
"""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.prompts.trained_with import say_once
from ...backend.core.remote.api_keys import DEFAULT_VARIABLE, check_variable
from ...backend.core.seams.chat_model import ChatModel
from .. import host
from ..inputs.sockets import AgentSocket, node_schema
from ..inputs.validation import FROM_THE_AGENT, STRICTNESS, fault_of, only_text, require_library
from .managed_chat import ManagedChat
from .reply_inputs import chosen_prompts, prompts_input, reply_inputs, reply_settings

LOCAL_SERVER = "http://127.0.0.1:8000/v1"


class RemoteAgent(io.ComfyNode):
    """Connects to a vision-language model on a server with the OpenAI chat API."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveRemoteAgent",
            shown=("base_url", "model"),
            inputs=[
                io.String.Input("base_url", default=LOCAL_SERVER),
                io.String.Input("model", default=""),
                io.String.Input("key_variable", default=DEFAULT_VARIABLE, optional=True),
                io.Int.Input("timeout", default=300, min=1, max=3600, optional=True),
                io.Combo.Input("strictness", options=list(STRICTNESS), default=FROM_THE_AGENT, optional=True),
                io.Int.Input("deadline", default=1800, min=1, max=86400, optional=True),
                prompts_input(),
                *reply_inputs(),
            ],
            outputs=[AgentSocket.Output("AGENT")],
        )

    @classmethod
    def validate_inputs(cls, key_variable: str | None = DEFAULT_VARIABLE) -> bool | str:
        """Check inputs before anything runs."""

        # A key pasted by mistake must be caught here: the report of an error in `execute` would show it. The
        # host shows the returned error once for every parameter, so there is one. `None` is an input on a
        # wire.
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
        """Connect to the agent."""
        only_text("Remote Agent", prompts=prompts, model=model)
        if not model.strip():
            raise SettingsError(
                "Remote Agent: 'model' is empty.",
                "Enter the model's name. The server lists its models at BASE_URL/models.",
            )
        settings, prompt_set = reply_settings("Remote Agent", replies), chosen_prompts(prompts)
        waits = {"timeout": float(timeout), "deadline": float(deadline)}
        chat = open_remote(f"{model.strip()}@{base_url.strip()}", key_variable.strip(), waits)
        opened = ManagedChat(
            chat, accept_at=STRICTNESS.get(strictness), settings=settings, prompts=prompt_set
        )
        if prompt_set is None and opened.trained and (warning := opened.trained.warning):
            say_once(opened, warning)
            host.NodeProgress().say(warning)
        return io.NodeOutput(opened)


def open_remote(spec: str, key_variable: str, waits: dict[str, float]) -> ChatModel:
    """Open the chat of `MODEL@ADDRESS`.

    Args:
        spec: Model and address.
        key_variable: Name of the environment variable with the API key, "" for none.
        waits: `timeout` and `deadline` in seconds.

    Raises:
        SettingsError: The address or the variable is not valid, or the key may not be sent there.
    """
    from ...backend.models.chat import open_chat

    with require_library("httpx", "tenacity"):
        return open_chat(f"openai:{spec}", key_variable=key_variable, **waits)
