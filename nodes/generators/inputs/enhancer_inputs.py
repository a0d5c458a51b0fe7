"""Inputs for a prompt enhancer, which rewrites the prompts for the image model."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ....backend.errors import SettingsError
from ....backend.generators.protocol import Generator
from ...agents.reply_inputs import settings_of
from ...inputs.connected import AGENT, check_optional
from ...inputs.sockets import AgentSocket
from ...inputs.validation import only_text

ENHANCER = ("enhancer", "enhancer_prompt", "enhancer_edit_prompt")


def enhancer_inputs() -> list[io.Input]:
    """Return the inputs, which follow a node's own."""
    return [
        AgentSocket.Input(
            "enhancer",
            optional=True,
            tooltip="An agent that rewrites every prompt for the image model, as the makers of many models "
            "recommend. The critic judges against the plan's prompt.",
        ),
        _template("enhancer_prompt", "images generated from text"),
        _template("enhancer_edit_prompt", "edits of an image"),
    ]


def with_enhancer(node: str, generator: Generator, given: dict[str, Any]) -> Generator:
    """Return the generator with the enhancer of a node's inputs; without one, the generator itself.

    Args:
        node: Name of the node for messages.
        generator: The generator.
        given: The inputs of the enhancer, by name.

    Raises:
        SettingsError: An input has another type, or a template is given without an enhancer.
    """
    chat, text, edit = (given.get(name) for name in ENHANCER)
    check_optional(node, AGENT, enhancer=chat)
    texts = {"enhancer_prompt": text or "", "enhancer_edit_prompt": edit or ""}
    only_text(node, **texts)
    if chat is None:
        if unused := [name for name, one in texts.items() if one.strip()]:
            raise SettingsError(
                f"{node}, input {unused[0]!r}: no enhancer is connected.",
                "Connect an agent to the input 'enhancer', or disconnect the text.",
            )
        return generator
    from ....backend.agents.writers.enhancer import PromptEnhancer
    from ....backend.generators.enhanced import enhanced
    from ....backend.prompts.enhancer import enhancer_prompts

    return enhanced(generator, PromptEnhancer(chat, enhancer_prompts(*texts.values()), settings_of(chat)))


def _template(name: str, steps: str) -> io.String.Input:
    return io.String.Input(
        name,
        default="",
        force_input=True,
        optional=True,
        tooltip=f"The enhancer's prompt for {steps}, such as the one that the model's maker published. Not "
        "connected: the pack's own.",
    )
