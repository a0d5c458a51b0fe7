"""Table of the host's nodes that encode prompt and images, by model.

A row describes how to call the node (id, image inputs, outputs) and how its official workflow sizes the
images; the rest is up to the node. A model class without a row is not guessed: its own workflow can go
between Attempt Start and Attempt End.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from .settings import GRID

Fit = Literal["area", "steps", "steps if needed", "kontext", "as it is"]
"""How images are scaled for the node: to the set area; to the set area in steps of the grid, even to the same
size, or only to another size; to one of Kontext's sizes; not at all (the node scales them)."""
Negative = Literal["second call", "own output"]
"""Source of the negative: a second call of the node, or its second output."""
Latent = Literal["empty", "source", "own output"]
"""Start of sampling: an empty latent of the source's shape, the encoded source, or the node's last output."""


IMAGE_NUMBER = re.compile(r"<image ?(\d{1,2})>|\b(?:image|picture) (\d{1,2})\b", re.IGNORECASE)


@dataclass(frozen=True)
class ImageInputs:
    """Names of a node's image inputs in order; `group` is the growing input around them, "" for none."""

    names: tuple[str, ...]
    group: str = ""


def numbered(name: str, first: int, count: int, group: str = "") -> ImageInputs:
    """Return the inputs `nameFIRST`, `nameFIRST+1`... of a node."""
    return ImageInputs(tuple(f"{name}{number}" for number in range(first, first + count)), group)


@dataclass(frozen=True)
class EncodeNode:
    """One row: a node of the host, and its use in the official workflow of its model."""

    node: str
    images: ImageInputs
    fit: Fit = "area"
    fits_references: bool = True
    """Whether reference images are scaled here too, not by the node."""
    scaling: str = "lanczos"
    grid: int = GRID
    """Side lengths of the result are multiples of this number of pixels."""
    negative: Negative = "second call"
    latent: Latent = "empty"
    mark: str | None = None
    """Notation of an image number in prompts that the model was trained with, `None` for none."""
    layout: str | None = None
    """Reference method of the model (Edit Model Reference Method)."""
    fixed: tuple[tuple[str, object], ...] = ()
    """Inputs with a fixed value."""
    draws_text: bool = False
    """Whether the text-to-image workflow uses this node too."""
    sized: bool = False
    """Whether it has inputs for width and height of the result."""
    after_text: bool = False
    """Whether it takes both conditionings instead of CLIP, prompt and VAE."""


QWEN_EDIT_NODE = EncodeNode("TextEncodeQwenImageEdit", ImageInputs(("image",)), latent="source")
QWEN_PLUS_NODE = EncodeNode(
    "TextEncodeQwenImageEditPlus",
    numbered("image", 1, 3),
    fit="kontext",
    fits_references=False,
    latent="source",
    mark="Picture {}",
)
QWEN_2511_NODE = replace(QWEN_PLUS_NODE, layout="index_timestep_zero")
# The node's own scaling to one megapixel rounds to 8 pixels, but the model's patches need multiples of 16.
Z_OMNI_NODE = EncodeNode(
    "TextEncodeZImageOmni",
    numbered("image", 1, 3),
    scaling="area",
    fixed=(("auto_resize_images", False),),
)

BY_MODEL: dict[str, EncodeNode] = {
    "Boogu": EncodeNode(
        "TextEncodeBooguEdit",
        numbered("image_", 1, 16, "images"),
        fit="as it is",
        grid=8,
        negative="own output",
    ),
    "JoyImage": EncodeNode(
        "TextEncodeJoyImageEdit", numbered("image", 0, 6, "images"), fit="steps", scaling="nearest-exact"
    ),
    "MageFlow": EncodeNode(
        "TextEncodeMageFlowEdit",
        numbered("image_", 1, 16, "images"),
        fit="steps",
        fits_references=False,
        negative="own output",
        latent="own output",
        mark="Image {}",
        draws_text=True,
        sized=True,
    ),
    "QwenImage21": EncodeNode(
        "TextEncodeQwenImage21",
        numbered("image_", 1, 10, "images"),
        fit="steps if needed",
        grid=32,
        negative="own output",
        latent="own output",
        mark="<image{}>",
        # The pack scales the images by the node's own rule, but never twice in a story.
        fixed=(("resolution", 0),),
        draws_text=True,
    ),
    "LongCatImage": EncodeNode(
        "TextEncodeQwenImageEdit", ImageInputs(("image",)), fit="steps", latent="source", layout="index"
    ),
    "HiDreamO1": EncodeNode(
        "HiDreamO1ReferenceImages",
        numbered("image_", 1, 10, "images"),
        fit="as it is",
        grid=32,
        after_text=True,
    ),
    "MingImage": EncodeNode("TextEncodeMingImageEdit", numbered("image_", 1, 8, "images"), fit="steps"),
    "Krea2": EncodeNode(
        "TextEncodeQwenImageEditPlus",
        numbered("image", 1, 3),
        fit="as it is",
        mark="Picture {}",
        layout="index_timestep_zero",
    ),
}
"""Rows by the host's class of the model, for the edit method "encode node"."""


def with_image_numbers(prompt: str, mark: str | None, count: int) -> str:
    """Return the prompt with "image 2", "picture 2" and "<image2>" in the model's notation.

    Only numbers of existing images (1 to `count`) are changed. `mark` is the notation, `None` to change
    nothing.
    """
    if mark is None:
        return prompt

    def written(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        return mark.format(number) if 1 <= number <= count else found[0]

    return IMAGE_NUMBER.sub(written, prompt)


def text_node(model: str) -> EncodeNode | None:
    """Return the row for prompts without images of this model class, `None` for CLIP Text Encode."""
    row = BY_MODEL.get(model)
    return row if row is not None and row.draws_text else None
