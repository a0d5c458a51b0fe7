"""Inputs that several generator nodes share: size and sampling, color match, and a prompt enhancer."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.generators.generator import Generator
from ...backend.generators.wrappers import MATCHES, OFF
from ..agents.reply_inputs import settings_of
from ..inputs.sockets import AGENT, AgentSocket, check_optional
from ..inputs.validation import in_range, only_text

OWN = -1.0
TO_LOOP = "Connect it to a Critic Loop."
ENHANCER = ("enhancer", "enhancer_prompt", "enhancer_edit_prompt")


def common_inputs(whose: str) -> list[io.Input]:
    """Return the inputs of size, steps, guidance and negative prompt.

    `whose` names the owner of the automatic values in the tooltips, such as "the pipeline".
    """
    return [
        io.Int.Input(
            "width",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip=f"Width in pixels. 0 = automatic: the source image's width, else the default of {whose}.",
        ),
        io.Int.Input(
            "height",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip="Height in pixels. 0 = automatic: the source image's height, else the default of "
            f"{whose}.",
        ),
        io.Int.Input(
            "steps",
            default=0,
            min=0,
            max=1000,
            tooltip=f"Sampling steps. 0 = automatic: the default of {whose}.",
        ),
        io.Float.Input(
            "guidance",
            default=OWN,
            min=OWN,
            max=100.0,
            step=0.1,
            round=0.01,
            tooltip=f"Guidance scale. -1 = automatic: the default of {whose}.",
        ),
        io.String.Input(
            "negative",
            default="",
            optional=True,
            advanced=True,
            tooltip="Negative prompt: what must not appear in the image.",
        ),
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
    return io.Combo.Input(
        "color_match",
        options=list(MATCHES),
        default=OFF,
        optional=True,
        tooltip="Stops color drift, the small color shift that every edit adds. 'to the source' matches the "
        "image that the step edits; 'to the first image' the request's first image, else the first generated "
        "one. Large changes, such as from day to night, stay. 'put back' returns all pixels of the source "
        "image that the edit did not need to change.",
    )


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
    from ...backend.agents.writers.enhancer import PromptEnhancer
    from ...backend.generators.wrappers import EnhancedGenerator
    from ...backend.prompts.enhancer import enhancer_prompts

    enhancer = PromptEnhancer(chat, enhancer_prompts(*texts.values()), settings_of(chat))
    return EnhancedGenerator(generator, enhancer.enhance, enhancer.identity)


def _template(name: str, steps: str) -> io.String.Input:
    return io.String.Input(
        name,
        default="",
        force_input=True,
        optional=True,
        tooltip=f"The enhancer's prompt for {steps}, such as the one that the model's maker published. Not "
        "connected: the pack's own.",
    )
