"""Description of a model family: how it is recognized, how it edits, and what its maker recommends.

The modules in the makers' folders describe one family each. `FAMILIES` in such a module lists the members
that differ in their edit method. The registry finds the modules; the reference page of models, the choices
of the Step Generator and the generated tests are made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ...inputs.model_traits import ModelTraits
from .encode_node import EncodeNode

AUTO = "auto"
REFERENCE = "reference latents"
NOISE = "image to image"
ENCODE = "encode node"
SHARED_METHODS = (REFERENCE, NOISE, ENCODE)
"""Edit methods that belong to no family in particular. Another method is the name of its family."""

Check = Literal["identical", "as documented", "read", "no template", "no comparison", "image to image", "-"]
"""How a task was compared with the host's own graph: pixels are identical to the official template; to a
graph wired as the node's documentation says, since there is no template; the nodes were read, not run; the
family generates, but there is no template; it was not compared; it is done by image to image; it is not
possible."""


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
class Compared:
    """How each task was compared with the host's own graph."""

    text: Check
    edit: Check
    references: Check = "-"


@dataclass(frozen=True)
class Family:
    """One model family, or one of its members with an edit method of its own."""

    name: str
    method: str | None
    """Its edit method. `None`: it needs its own graph between Attempt Start and Attempt End."""
    compared: Compared
    license: str = "see the model card"
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
    clip_type: str = ""
    """Type for the CLIP loader."""
    files: tuple[tuple[str, str], ...] = ()
    """Files of the official workflow: path below `models`, Hugging Face repository."""
    recommended: tuple[Recommended, ...] = ()
    enhancer: str = ""
    """The maker's prompt enhancer, "" for none."""
    ran_in: tuple[str, ...] = ()
    """ComfyUI versions in which the tests compare its pixels. Empty: read, not run."""
    note: str = ""

    @property
    def most_images(self) -> int:
        """Maximum number of images, the edited one included."""
        return self.row.most_images if self.row is not None else self.images

    @property
    def models_name(self) -> str:
        """Name of the models that the method is for, as in "is for a FLUX.1 model"."""
        return self.of or self.name
