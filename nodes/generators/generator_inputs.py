"""Inputs that several generator nodes share: size and sampling, color match, and a prompt enhancer."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.seams.generator import Generator
from ...backend.models.generators.wrappers import MATCHES, OFF
from ..agents.reply_inputs import settings_of
from ..inputs.sockets import AGENT, AgentSocket, check_optional
from ..inputs.validation import in_range, only_text

OWN = -1.0
ENHANCER = ("enhancer", "enhancer_prompt", "enhancer_edit_prompt")


def common_inputs() -> list[io.Input]:
    """Return the inputs of size, steps, guidance and negative prompt."""
    return [
        io.Int.Input("width", default=0, min=0, max=8192, step=16),
        io.Int.Input("height", default=0, min=0, max=8192, step=16),
        io.Int.Input("steps", default=0, min=0, max=1000),
        io.Float.Input("guidance", default=OWN, min=OWN, max=100.0, step=0.1, round=0.01),
        io.String.Input("negative", default="", optional=True),
    ]


def common_options(
    width: int, height: int, steps: int, guidance: float, negative: str = ""
) -> dict[str, Any]:
    """Return the common inputs as options of the generators; `None` for their default.

    Raises:
        SettingsError: A value is out of range, or only one of width and height is set.
    """
    in_range("The generator", 0, 8192, width=width, height=height)
    in_range("The generator", 0, 1000, steps=steps)
    in_range("The generator", OWN, 100, guidance=guidance)
    if bool(width) != bool(height):
        raise SettingsError(
            f"Only one of width and height is set ({width} x {height}).", "Set both, or leave both at 0."
        )
    return {
        "size": f"{width}x{height}" if width else None,
        "steps": steps or None,
        "guidance": None if guidance < 0 else guidance,
        "negative": negative or None,
    }


def color_match_input() -> io.Combo.Input:
    """Return the input that chooses the image whose colors an edit keeps."""
    return io.Combo.Input("color_match", options=list(MATCHES), default=OFF, optional=True)


def enhancer_inputs() -> list[io.Input]:
    """Return the inputs, which follow a node's own."""
    return [
        AgentSocket.Input("enhancer", optional=True),
        _template("enhancer_prompt"),
        _template("enhancer_edit_prompt"),
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
    from ...backend.core.prompts.prompt_set import enhancer_prompts
    from ...backend.models.generators.wrappers import EnhancedGenerator
    from ...backend.story.agents.text_writers import PromptEnhancer

    enhancer = PromptEnhancer(chat, enhancer_prompts(*texts.values()), settings_of(chat))
    return EnhancedGenerator(generator, enhancer.enhance, enhancer.identity)


def _template(name: str) -> io.String.Input:
    return io.String.Input(name, default="", force_input=True, optional=True)
