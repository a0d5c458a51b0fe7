"""The models that the page offers. The page names them; it never gives a path, an address or an option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ..backend.core.types.run_settings import ImageSize

if TYPE_CHECKING:
    from ..backend.core.seams.generator import Generator
    from ..backend.story.agents.critic import Critic
    from ..backend.story.agents.planner import Planner

Role = Literal["planner", "critic", "generator"]
ModelName = Annotated[str, Field(max_length=200)]


class Chosen(BaseModel):
    """Names of the models of one story, and the size of its images if it is not the image model's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    planner: ModelName
    critic: ModelName
    generator: ModelName
    size: ImageSize | None = None


class Offer(BaseModel):
    """A model that the page offers.

    Attributes:
        name: Its name in requests.
        label: Its name on the page.
        toy: Whether it belongs to the tiny world, which knows few words.
        sized: Whether the size of its images can be chosen.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    label: str
    toy: bool = False
    sized: bool = False


class Example(BaseModel):
    """A request that the default models can carry out, and the seed of a good story."""

    model_config = ConfigDict(frozen=True)

    request: str
    seed: int = 0


class OpenedModels(Protocol):
    """The models of one story, each loaded when it is first needed."""

    def planner(self, on_part: Callable[[str], None]) -> Planner:
        """Return the planner. `on_part` is called with each part of a long plan."""
        ...

    def critic(self) -> Critic | None:
        """Return the critic, `None` if images are not judged."""
        ...

    def generator(self) -> Generator:
        """Return the generator."""
        ...


class Models(Protocol):
    """The models that the page offers, the default of each role first.

    `command` starts the app with real models.
    """

    example: Example
    command: str

    def offered(self) -> dict[Role, list[Offer]]:
        """Return the models by role."""
        ...

    def check(self, chosen: Chosen, request: str) -> None:
        """Check that the models are offered and can carry out the request, without loading them.

        Raises:
            SettingsError: They cannot.
        """
        ...

    def open(self, chosen: Chosen) -> OpenedModels:
        """Return the models.

        Raises:
            InterleaveError: One of them cannot be opened.
        """
        ...
