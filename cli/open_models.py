"""From the options of a command to a planner, a generator and a critic.

Decision: models are named by specs (NAME or NAME:ARGUMENT, as the registries read them). A planner and a
critic that name the same model with the same adapter share it, so that it is in memory once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from ..backend.chat.llamacpp.settings import LlamaCppSettings
from ..backend.chat.protocol import ReplySettings
from ..backend.errors import SettingsError
from ..backend.pipeline.models import TINY_WORLD, ModelOpener
from .options.service import ServiceOptions

if TYPE_CHECKING:
    from ..backend.agents.critic import Critic
    from ..backend.agents.planner import Planner
    from ..backend.generators.protocol import Generator
    from ..backend.prompts import PromptSet

NONE = "none"


SAMPLING = ("max_tokens", "temperature", "top_p", "top_k", "seed", "max_pixels")
"""Settings of replies that a planner and a critic each have options for."""
PROMPTS_HELP = (
    "Folder with the prompt set that this model was trained with (as `prompts import` writes it); by default "
    "the one beside a local checkpoint, else the pack's own."
)


def reply_option(name: str) -> Any:
    """An option for a setting of replies, which is the setting's own default where it is not given."""
    field = ReplySettings.model_fields[name]
    return FieldInfo.merge_field_infos(field, default=None)


def gguf_option(name: str) -> Any:
    """An option for agents in GGUF, left to its default where it is not given."""
    return FieldInfo.merge_field_infos(LlamaCppSettings.model_fields[name], default=None)


class LocalOptions(ServiceOptions):
    """How models are loaded, and waited for. Each option goes to every model that takes it, and must be taken
    by one."""

    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Number type of local models; by default what suits the device."
    )
    device: str | None = Field(default=None, description="Device of local models, such as cpu or cuda:0.")
    quantization: Literal["4bit", "8bit", "fp8"] | None = Field(
        default=None,
        description=(
            "Load local agents in 4 or 8 bits (needs bitsandbytes), "
            "or in fp8 on a card that has it (needs torchao)."
        ),
    )
    download: bool = Field(default=False, description="Allow downloading models that are not here yet.")
    deadline: float | None = Field(
        default=None,
        gt=0.0,
        description=(
            "Seconds that a server may take for a whole answer (1800 if not said) or for an image (300)."
        ),
    )
    engine: str | None = Field(
        default=None,
        description="How local models decode and cache, as NAME=VALUE,NAME=VALUE, such as vision_bytes=0; "
        "all names: docs/explanation/speed.md.",
    )
    constrained_decoding: Literal["never", "retry", "always"] = Field(
        default="retry",
        description="Constrain replies of local agents to the grammar of their answer (needs llguidance): "
        "only the second try after one that could not be read, always, or never.",
    )
    mmproj: str | None = gguf_option("mmproj")
    context: int | None = gguf_option("context")
    threads: int | None = gguf_option("threads")
    gpu_layers: int | None = gguf_option("gpu_layers")
    llama_server: str | None = gguf_option("llama_server")


class PlannerOptions(BaseModel):
    """Who plans."""

    planner: str = Field(
        default=TINY_WORLD,
        description="Planner, such as transformers:FOLDER, llamacpp:FILE.gguf or openai:MODEL@URL.",
    )
    planner_adapter: str | None = Field(default=None, description="Folder of a LoRA adapter for the planner.")
    planner_prompts: str | None = Field(default=None, description=PROMPTS_HELP)
    planner_max_tokens: int | None = reply_option("max_tokens")
    planner_temperature: float | None = reply_option("temperature")
    planner_top_p: float | None = reply_option("top_p")
    planner_top_k: int | None = reply_option("top_k")
    planner_seed: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="Another number, another plan; the same number, the same plan. 0 is the likeliest plan.",
    )
    planner_max_pixels: int | None = reply_option("max_pixels")


class CriticOptions(BaseModel):
    """Who judges."""

    critic: str = Field(
        default=TINY_WORLD,
        description="Critic, such as transformers:FOLDER or llamacpp:FILE.gguf; none draws each step once.",
    )
    critic_adapter: str | None = Field(default=None, description="Folder of a LoRA adapter for the critic.")
    critic_prompts: str | None = Field(default=None, description=PROMPTS_HELP)
    critic_max_tokens: int | None = reply_option("max_tokens")
    critic_temperature: float | None = reply_option("temperature")
    critic_top_p: float | None = reply_option("top_p")
    critic_top_k: int | None = reply_option("top_k")
    critic_seed: int | None = reply_option("seed")
    critic_max_pixels: int | None = reply_option("max_pixels")
    merge_critic: bool = Field(
        default=False,
        description=(
            "Add the critic's adapter to weights of its own: "
            "it answers sooner, and needs the memory of one more model."
        ),
    )


class DrawingOptions(BaseModel):
    """How images are drawn."""

    size: str | None = Field(default=None, description="Size of the images as WIDTHxHEIGHT in pixels.")
    steps: int | None = Field(default=None, ge=1, description="Sampling steps.")
    guidance: float | None = Field(default=None, ge=0.0, description="Guidance scale.")
    strength: float | None = Field(
        default=None, ge=0.0, le=1.0, description="How much an edit may change, for image-to-image models."
    )
    lora: str | None = Field(
        default=None, description="LoRA, a safetensors file, that is laid over a diffusers model."
    )
    lora_scale: float | None = Field(
        default=None, ge=-10.0, le=10.0, description="How strong the LoRA is; 1 is as trained."
    )
    mask: str | None = Field(
        default=None,
        description="Image, white where an edit may change its source, for models that repaint (FLUX Fill, "
        "FIBO 2).",
    )


class GeneratorOptions(DrawingOptions):
    """Who draws, and how."""

    generator: str = Field(
        default=TINY_WORLD,
        description="Image model, such as diffusers:FOLDER, http:URL1,URL2 (services of one model) or fake.",
    )


class Opener:
    """Opens agents and generators for one command; `finish` once all are open."""

    def __init__(self, local: LocalOptions) -> None:
        given = local.model_dump(exclude={"engine", "constrained_decoding"})
        shared = {name: value for name, value in given.items() if value not in (None, False)}
        self._engine = engine_options(read_engine(local.engine or ""))
        self._models = ModelOpener(shared | self._engine, local.constrained_decoding)

    def planner(self, options: PlannerOptions, on_part: Callable[[str], None] | None = None) -> Planner:
        """`on_part` is told which part of a long plan is being written. Raises SettingsError or ChatError."""
        settings = reply_settings("planner", options).seeded(options.planner_seed or 0)
        prompts = prompts_in(options.planner_prompts)
        return self._models.planner(options.planner, options.planner_adapter, prompts, settings, on_part)

    def critic(self, options: CriticOptions) -> Critic | None:
        """None for `none`; raises SettingsError or ChatError."""
        if options.critic == NONE:
            return None
        prompts = prompts_in(options.critic_prompts)
        settings = reply_settings("critic", options).model_copy(update={"watch_verdict": True})
        return self._models.critic(
            options.critic, options.critic_adapter, prompts, settings, options.merge_critic
        )

    def generator(self, options: GeneratorOptions) -> Generator:
        """Raises SettingsError or GeneratorError."""
        return self._models.generator(options.generator, **options.model_dump(exclude={"generator"}))

    def finish(self) -> None:
        """Raise SettingsError for an option that none of the opened models could use."""
        unused = set(self._models.unused)
        if not self._engine.keys() <= unused:  # one kind of model took its part of --engine
            unused -= self._engine.keys()
        for name in sorted({"engine" if name in self._engine else name for name in unused}):
            raise SettingsError(f"--{name} is no option of any of the models named here.", "Leave it out.")


def reply_settings(role: str, options: BaseModel) -> ReplySettings:
    """The settings of replies that the options `ROLE_...` give, the others as they are by default."""
    given = {name: getattr(options, f"{role}_{name}") for name in SAMPLING}
    return ReplySettings(**{name: value for name, value in given.items() if value is not None})


def prompts_in(folder: str | None) -> PromptSet | None:
    """The prompt set in a folder, or in the folder `prompt_set` of a checkpoint (tinyworld:planner and
    tinyworld:critic are the shipped ones); raises SettingsError if there is none."""
    from ..backend.prompts import FOLDER_NAME, PromptSet

    if folder is None:
        return None
    kind, _, agent = folder.partition(":")
    if kind == TINY_WORLD:
        from ..tinyworld.runtime import checkpoint

        folder = str(checkpoint(agent))
    path = Path(folder).expanduser()
    return PromptSet.load(path / FOLDER_NAME if (path / FOLDER_NAME).is_dir() else path)


def read_engine(text: str) -> dict[str, str]:
    """Names and values of `NAME=VALUE,NAME=VALUE`; a name of an earlier version is read with a line on
    stderr. Raises SettingsError for a name that no kind of model has."""
    from ..backend.chat.engine.settings import REMOVED, RENAMED, EngineSettings
    from ..backend.generators.encoding_cache import EncodingCacheSettings

    known = (*EngineSettings.model_fields, *EncodingCacheSettings.model_fields)
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name in RENAMED:
            typer.echo(f"--engine: {name} is now {RENAMED[name]}.", err=True)
            name = RENAMED[name]
        if name in REMOVED:
            raise SettingsError(
                f"--engine: {name} is gone, {REMOVED[name]} was its last version: it saved too little.",
                "Leave it out.",
            )
        if name not in known or not equals:
            raise SettingsError(
                f"--engine: {part!r} is no setting.", f"Write NAME=VALUE; known: {', '.join(known)}."
            )
        settings[name] = value
    return settings


def engine_options(given: dict[str, str]) -> dict[str, object]:
    """The settings of `--engine` as the options of the models that they are for; raises SettingsError."""
    from ..backend.chat.engine.settings import EngineSettings
    from ..backend.generators.encoding_cache import EncodingCacheSettings

    kinds: dict[str, type[BaseModel]] = {"engine": EngineSettings, "encoding_cache": EncodingCacheSettings}
    options: dict[str, object] = {}
    for option, kind in kinds.items():
        values = {name: value for name, value in given.items() if name in kind.model_fields}
        try:
            if values:
                options[option] = kind(**values)
        except ValidationError as error:
            fault = error.errors()[0]
            raise SettingsError(f"--engine: {fault['loc'][0]}: {fault['msg']}.") from error
    return options
