"""The pack's socket types, the checks of the values at sockets, and the request of the planning nodes.

Wires carry the backend's own objects (ChatModel, Generator, Trajectory), so any node can be at either end. A
plan alone cannot be run, since its steps may refer to the images of the request. So the plan's wire carries
both.

The host compares declared types only, and outputs of type "any" fit every socket: "any switch" nodes have
one, and return `None` if nothing is connected to them. So a node checks its sockets first. Agents and
generators are recognized by their methods, since any such object is valid; the pack's own types by their
class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.types import MAX_TEXT, Plan, Request, Text, Trajectory, Value
from ...backend.core.types.cast import CastMember
from ..node_texts import node_texts
from .images import checked_batch, to_pictures

CATEGORY = "InterleaveThinker"

AgentSocket = io.Custom("INTERLEAVE_AGENT")
GeneratorSocket = io.Custom("INTERLEAVE_GENERATOR")
StepOptionsSocket = io.Custom("INTERLEAVE_STEP_OPTIONS")
CastSocket = io.Custom("INTERLEAVE_CAST")
PlanSocket = io.Custom("INTERLEAVE_PLAN")
TrajectorySocket = io.Custom("INTERLEAVE_TRAJECTORY")


class PlannedRequest(Value):
    """A request and its plan.

    `planner` is the identity of the agent that wrote it, "" for the user. `prompt_set` is the digest of its
    prompt set.
    """

    request: Request
    plan: Plan
    planner: Text = ""
    prompt_set: Text = ""


WIDGETS = (io.Boolean.Input, io.Combo.Input, io.Float.Input, io.Int.Input, io.String.Input)


def node_schema(
    node_id: str,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    shown: Sequence[str] | None = None,
    **given: Any,
) -> io.Schema:
    """Return the schema of a node with its English texts: name, description and tooltips.

    All widgets but those in `shown` are advanced: the front end folds them (web/fold.js). The texts are only
    in `locales/en/nodeDefs.json`, next to those of the other languages. An input without a text there keeps
    its own: the description of a settings field, or one that names a folder of this machine.
    """
    words = node_texts()[node_id]
    for one in inputs:
        if tooltip := _tooltip(words, one.id):
            one.tooltip = tooltip
        if shown is not None and isinstance(one, WIDGETS) and not one.force_input:
            one.advanced = one.id not in shown
        template = getattr(one, "template", None)
        if template is not None:
            template.input.tooltip = _tooltip(words, f"{one.id}_{template.names[0]}")
    for place, one in enumerate(outputs):
        one.tooltip = words["outputs"][str(place)]["tooltip"]
    texts = {"display_name": words["display_name"], "description": words.get("description", ""), **given}
    texts["search_aliases"] = words["search_aliases"].split(", ")
    return io.Schema(node_id=node_id, category=CATEGORY, inputs=list(inputs), outputs=list(outputs), **texts)


def _tooltip(words: Mapping[str, Any], name: str) -> str | None:
    return words.get("inputs", {}).get(name, {}).get("tooltip")


@dataclass(frozen=True)
class Kind:
    """A type of socket: its name for messages, and the check of a value."""

    name: str
    fits: Callable[[Any], bool]


def can(*methods: str) -> Callable[[Any], bool]:
    """Return a check whether a value is an object with these methods."""
    return lambda value: (
        not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    )


def instance_of(kind: type) -> Callable[[Any], bool]:
    """Return a check whether a value is an instance of this class."""
    return lambda value: isinstance(value, kind)


AGENT = Kind("an agent", can("reply"))
GENERATOR = Kind("a generator", can("draw"))


def _is_cast(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, CastMember) for one in value)


CAST = Kind("a cast", _is_cast)
PLAN = Kind("a plan", instance_of(PlannedRequest))
TRAJECTORY = Kind("a story", instance_of(Trajectory))
MODEL = Kind("a MODEL", can("get_model_object", "clone"))
CLIP = Kind("a CLIP", can("tokenize"))
VAE = Kind("a VAE", can("encode", "decode", "spacial_compression_decode"))


def check_connected(node: str, kind: Kind, **sockets: Any) -> None:
    """Check that the values at sockets have this type.

    Raises:
        SettingsError: One has another type. The message names the node and the input.
    """
    for name, value in sockets.items():
        if not kind.fits(value):
            found = "nothing" if value is None else type(value).__name__
            raise SettingsError(
                f"{node}, input {name!r}: expected {kind.name}, got {found:.60}.",
                "Check what is connected to it.",
            )


def check_optional(node: str, kind: Kind, **sockets: Any) -> None:
    """Check the values at sockets that may be empty.

    Raises:
        SettingsError: As `check_connected`.
    """
    check_connected(node, kind, **{name: value for name, value in sockets.items() if value is not None})


MAX_INPUTS = 16
MAX_IMAGES = 64


def images_input(most: int = MAX_INPUTS) -> io.Autogrow.Input:
    """Return the growing input `images` with at most `most` sockets."""
    image = io.Image.Input("image")
    template = io.Autogrow.TemplatePrefix(image, prefix="image", min=0, max=most)
    return io.Autogrow.Input("images", template=template, optional=True)


def asked_request(text: str, images: Mapping[str, Any] | None) -> Request:
    """Return the request of this text and the connected images.

    Raises:
        SettingsError: The text is too long or not valid, or there are too many images.
    """
    if len(text) > MAX_TEXT:
        raise SettingsError(
            f"The text has {len(text)} characters; at most {MAX_TEXT} are allowed.", "Shorten it."
        )
    if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
        raise SettingsError("The text contains half a character (a lone surrogate).", "Type it again.")
    batches = [checked_batch(batch) for batch in (images or {}).values() if batch is not None]
    count = sum(len(batch) for batch in batches)
    if count > MAX_IMAGES:
        raise SettingsError(
            f"The request has {count} images; at most {MAX_IMAGES} are allowed.", "Connect fewer images."
        )
    return Request(text=text, images=tuple(picture for batch in batches for picture in to_pictures(batch)))
