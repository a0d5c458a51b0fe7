"""From the options of a command to a planner, a generator and a critic.

Decision: models are named by specs (NAME or NAME:ARGUMENT, as the registries read them). A planner and a critic that name
the same model with the same adapter share it, so that it is in memory once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from ..backend.errors import SettingsError
from ..backend.registry import option_names

if TYPE_CHECKING:
    from ..backend.agents import Critic, Planner
    from ..backend.chat.protocol import ChatModel
    from ..backend.generators.protocol import Generator

NONE = "none"
TINY_WORLD = "tinyworld"


class LocalOptions(BaseModel):
    """How local models are loaded. Each option goes to every model that takes it, and must be taken by one."""

    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Number type of local models; by default what suits the device."
    )
    device: str | None = Field(default=None, description="Device of local models, such as cpu or cuda:0.")
    quantization: Literal["4bit", "8bit"] | None = Field(
        default=None, description="Load local agents in 4 or 8 bits (needs bitsandbytes)."
    )
    download: bool = Field(default=False, description="Allow downloading models that are not here yet.")


class PlannerOptions(BaseModel):
    """Who plans."""

    planner: str = Field(
        default=TINY_WORLD, description="Planner, such as transformers:FOLDER or openai:MODEL@URL."
    )
    planner_adapter: str | None = Field(default=None, description="Folder of a LoRA adapter for the planner.")


class CriticOptions(BaseModel):
    """Who judges."""

    critic: str = Field(
        default=TINY_WORLD, description="Critic, such as transformers:FOLDER; none draws each step once."
    )
    critic_adapter: str | None = Field(default=None, description="Folder of a LoRA adapter for the critic.")


class GeneratorOptions(BaseModel):
    """Who draws, and how."""

    generator: str = Field(
        default=TINY_WORLD, description="Image model, such as diffusers:FOLDER, http:URL or painted."
    )
    size: str | None = Field(default=None, description="Size of the images as WIDTHxHEIGHT in pixels.")
    steps: int | None = Field(default=None, ge=1, description="Sampling steps.")
    guidance: float | None = Field(default=None, ge=0.0, description="Guidance scale.")
    strength: float | None = Field(
        default=None, ge=0.0, le=1.0, description="How much an edit may change, for image-to-image models."
    )


class Opener:
    """Opens agents and generators for one command; `finish` once all are open."""

    def __init__(self, local: LocalOptions) -> None:
        self._shared = {
            name: value for name, value in local.model_dump().items() if value not in (None, False)
        }
        self._untaken = set(self._shared)
        self._chats: dict[tuple[str, str | None], ChatModel] = {}

    def planner(self, options: PlannerOptions) -> Planner:
        """Raises SettingsError or ChatError."""
        from ..backend.agents import Planner

        return Planner(self._chat("planner", options.planner, options.planner_adapter))

    def critic(self, options: CriticOptions) -> Critic | None:
        """None for `none`; raises SettingsError or ChatError."""
        if options.critic == NONE:
            return None
        from ..backend.agents import Critic

        return Critic(self._chat("critic", options.critic, options.critic_adapter))

    def generator(self, options: GeneratorOptions) -> Generator:
        """Raises SettingsError or GeneratorError."""
        from ..backend.generators import REGISTRY, open_generator

        shared = self._shared_with(option_names("generator", REGISTRY, options.generator))
        return open_generator(options.generator, **options.model_dump(exclude={"generator"}), **shared)

    def finish(self) -> None:
        """Raise SettingsError for an option that none of the opened models could use."""
        for name in sorted(self._untaken):
            raise SettingsError(f"--{name} is no option of any of the models named here.", "Leave it out.")

    def _chat(self, role: str, spec: str, adapter: str | None) -> ChatModel:
        from ..backend.chat import REGISTRY, open_chat

        # The tiny world has one checkpoint for each role, and a person need not say which one a planner is.
        spec = f"{TINY_WORLD}:{role}" if spec == TINY_WORLD else spec
        if (spec, adapter) not in self._chats:
            shared = self._shared_with(option_names("chat backend", REGISTRY, spec))
            self._chats[spec, adapter] = open_chat(spec, adapter=adapter, **shared)
        return self._chats[spec, adapter]

    def _shared_with(self, accepted: frozenset[str]) -> dict[str, object]:
        taken = {name: value for name, value in self._shared.items() if name in accepted}
        self._untaken -= set(taken)
        return taken
