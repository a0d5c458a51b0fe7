"""Description of a model family: how it is recognized, how it edits, and what its maker recommends.

The choices of the Step Generator, the reference page of models and the generated tests are made from them. An
encode node of the host is described by how to call it and how the official workflow sizes the images; a model
class without one is not guessed: its own workflow can go between Attempt Start and Attempt End.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ...inputs.named_models import ModelTraits

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


AUTO = "auto"
REFERENCE = "reference latents"
NOISE = "image to image"
ENCODE = "encode node"
SHARED_METHODS = (REFERENCE, NOISE, ENCODE)
"""Edit methods that belong to no family in particular. Another method is the name of its family."""


@dataclass(frozen=True)
class Recommended:
    """Sampling settings that the official workflow or the maker recommends."""

    steps: int
    cfg: float
    sampler: str = "euler"
    scheduler: str = "simple"
    variant: str = ""
    """Which checkpoint or LoRA they are for, "" for all."""


@dataclass(frozen=True)
class Family:
    """One model family, or one of its members with an edit method of its own."""

    name: str
    method: str | None
    """Its edit method. `None`: it needs its own graph between Attempt Start and Attempt End."""
    models: tuple[str, ...] = ()
    """Names of the host's model classes. Empty: the class is not known, so the user chooses the method."""
    certain: Callable[[ModelTraits], bool] | None = None
    """Whether a model of one of the classes is certainly this family; `None` if no trait tells."""
    guess: bool = True
    """Whether `auto` may choose or mention it. False if most models of the class are of another kind."""
    may_be: tuple[str, ...] = ()
    """Classes of video models that it may share."""
    of: str = ""
    """Name of the models that the method is for, "" for the name of the family."""
    short: str = ""
    """Name next to the choice in an error, "" for the name of the family."""
    row: EncodeNode | None = None
    """Encode node of the host, and how the official workflow uses it."""
    images: int = 1
    """Maximum number of images including the edited one, for families without an encode node."""
    vae_is_checked: bool = True
    """Whether the VAE must have the latents of the model class."""
    recommended: tuple[Recommended, ...] = ()

    @property
    def most_images(self) -> int:
        """Maximum number of images, the edited one included."""
        return self.row.most_images if self.row is not None else self.images

    @property
    def models_name(self) -> str:
        """Name of the models that the method is for, as in "is for a FLUX.1 model"."""
        return self.of or self.name
