"""Which node of the host encodes prompt and images of which model: one table.

Decision: a row says only how a node is called (its id, where images go, what it gives) and how its official
graph sizes the images before it; what the node does with them is the host's. A model class without a row is
not guessed at: its own workflow goes between Try Open and Try Close. Rows are written from nodes that were
read; a node whose interface nobody could read has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from .settings import GRID

Fit = Literal["area", "steps", "steps if needed", "kontext", "as it is"]
"""How images are sized before the node sees them: to the set area; to the set area in whole steps of the
grid, also to the same size, or only to another one; to one of Kontext's sizes; not at all (the node does)."""
Negative = Literal["second call", "own output"]
"""What the negative is: the node called once more, or the node's second output."""
Latent = Literal["empty", "source", "own output"]
"""What is sampled from: an empty latent of the source's shape; the encoded source; the node's last output."""


IMAGE_NUMBER = re.compile(r"<image ?(\d{1,2})>|\b(?:image|picture) (\d{1,2})\b", re.IGNORECASE)


@dataclass(frozen=True)
class ImageInputs:
    """Names of a node's image inputs in order; `group` is the growing input that holds them, "" for none."""

    names: tuple[str, ...]
    group: str = ""


def numbered(name: str, first: int, count: int, group: str = "") -> ImageInputs:
    """Inputs `nameFIRST`, `nameFIRST+1`... of a node."""
    return ImageInputs(tuple(f"{name}{number}" for number in range(first, first + count)), group)


@dataclass(frozen=True)
class EncodeNode:
    """One row: a node of the host and how the official graph of its model wires it."""

    node: str
    images: ImageInputs
    fit: Fit = "area"
    fits_references: bool = True
    """The images beside the source are sized, too, not left to the node."""
    scaling: str = "lanczos"
    grid: int = GRID
    """Sides of what is drawn are multiples of this many pixels."""
    negative: Negative = "second call"
    latent: Latent = "empty"
    mark: str | None = None
    """How the model was taught to read an image's number in a prompt; None where it was not."""
    layout: str | None = None
    """How the references are laid out (Edit Model Reference Method)."""
    fixed: tuple[tuple[str, object], ...] = ()
    """Inputs that always have this value."""
    draws_text: bool = False
    """Its text-to-image graph encodes with this node, too."""
    sized: bool = False
    """It takes width and height of the result."""
    after_text: bool = False
    """It takes both conditionings of the prompt instead of CLIP, prompt and VAE."""


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
# Its own scaling to a megapixel rounds to 8 pixels, of which the model's patches need an even number.
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
        # Images stay as the pack has scaled them, by the node's own rule but never twice in a story.
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
"""By the host's class of the model, for edit mode "encode node"."""


def with_image_numbers(prompt: str, mark: str | None, count: int) -> str:
    """The prompt with "image 2", "picture 2" and "<image2>" written as the model was taught to read them, for
    the numbers of images that it is shown; other numbers stay as they are."""
    if mark is None:
        return prompt

    def written(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        return mark.format(number) if 1 <= number <= count else found[0]

    return IMAGE_NUMBER.sub(written, prompt)


def text_node(model: str) -> EncodeNode | None:
    """The row by which a model of this class encodes a prompt without images, None for CLIP Text Encode."""
    row = BY_MODEL.get(model)
    return row if row is not None and row.draws_text else None
