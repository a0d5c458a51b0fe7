"""Description of a host node that encodes a prompt and images, and notation of image numbers in prompts.

It describes how to call the node (id, image inputs, outputs) and how the official workflow sizes the images;
the rest is up to the node. A model class without such a node is not guessed: its own workflow can go between
Attempt Start and Attempt End.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

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
    """A node of the host, and its use in the official workflow of its model."""

    node: str
    images: ImageInputs
    source: str = ""
    """Input of the edited image, "" if it is the first of `images`."""
    fit: Fit = "area"
    fits_references: bool = True
    """Whether reference images are scaled here too, not by the node."""
    scaling: str = "lanczos"
    grid: int = 16
    """Side lengths of the result are multiples of this number of pixels."""
    negative: Negative = "second call"
    latent: Latent = "empty"
    mark: str | None = None
    """Notation of an image number in prompts that the model was trained with, `None` for none."""
    first_mark: int = 1
    """Number of the first image in that notation."""
    layout: str | None = None
    """Reference method of the model (Edit Model Reference Method)."""
    fixed: tuple[tuple[str, object], ...] = ()
    """Inputs with a fixed value."""
    draws_text: bool = False
    """Whether the text-to-image workflow uses this node too."""
    sized: bool = False
    """Whether it has inputs for width and height of the result."""
    after_text: bool = False
    """Whether it takes both conditionings instead of CLIP and prompt."""
    takes_vae: bool = True
    """Whether it has an input for the VAE."""

    @property
    def most_images(self) -> int:
        """Maximum number of images, the edited one included."""
        return len(self.images.names) + bool(self.source)


def with_image_numbers(prompt: str, mark: str | None, count: int, first: int = 1) -> str:
    """Return the prompt with "image 2", "picture 2" and "<image2>" in the model's notation.

    Only numbers of existing images (1 to `count`) are changed. `mark` is the notation, `None` to change
    nothing; `first` is the number of the first image in it.
    """
    if mark is None:
        return prompt

    def written(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        return mark.format(number - 1 + first) if 1 <= number <= count else found[0]

    return IMAGE_NUMBER.sub(written, prompt)
