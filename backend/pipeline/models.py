"""Opens planner, critic and generator by name, with shared options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeVar

from ..core.errors import SettingsError
from ..models.chat import CHAT_BACKENDS, open_chat
from ..models.generators import GENERATORS, open_generator
from ..story.agents.text_writers import Writer

if TYPE_CHECKING:
    from ..core.prompts.agent_card import Role
    from ..core.prompts.prompt_set import PromptSet
    from ..core.seams.chat_model import ChatModel, ReplySettings
    from ..core.seams.generator import Generator
    from ..story.agents.asking import ConstrainedDecoding
    from ..story.agents.critic import Critic
    from ..story.agents.planner import Planner
    from .story_check import StoryChecker

SomeWriter = TypeVar("SomeWriter", bound=Writer)
TINY_WORLD = "tinyworld"


def with_role(spec: str, role: Literal["planner", "critic"]) -> str:
    """Return the spec of an agent. `tinyworld` alone becomes the tiny world's checkpoint for the role."""
    return f"{TINY_WORLD}:{role}" if spec == TINY_WORLD else spec


class ModelOpener:
    """Opens the models of one or several runs.

    A planner and a critic with the same model and adapter share it, so that it is loaded once.

    Args:
        options: Options by name, such as `dtype` or `download`. Each is passed to every model that accepts
            it.
        constrained_decoding: When replies of local agents are constrained to the grammar of their answer.
    """

    def __init__(
        self, options: Mapping[str, object], constrained_decoding: ConstrainedDecoding = "retry"
    ) -> None:
        self._options = dict(options)
        self._constrained: ConstrainedDecoding = constrained_decoding
        self._used: set[str] = set()
        self._chats: dict[tuple[str, str | None], ChatModel] = {}
        self._critics: list[ChatModel] = []

    @property
    def unused(self) -> list[str]:
        """Names of the options that no model opened so far accepts."""
        return sorted(self._options.keys() - self._used)

    def check(
        self,
        agents: Iterable[tuple[str, str | None]],
        generator: str | None,
        ask: bool = False,
        **options: object,
    ) -> None:
        """Check names and paths of models before a library for models is imported.

        Args:
            agents: Specs of agents, each with the folder of its adapter.
            generator: Spec of the generator, if there is one.
            ask: Whether to ask model servers if they are there.
            **options: Options of the generator.

        Raises:
            InterleaveError: As the methods that open them.
        """
        accepted: set[str] = set()
        if generator is not None:
            GENERATORS.check(generator, **self._options, **options)
            accepted |= GENERATORS.option_names(generator)
        for spec, adapter in agents:
            CHAT_BACKENDS.check(spec, **self._options, adapter=adapter, ask=ask)
            accepted |= CHAT_BACKENDS.option_names(spec)
        for name in sorted(self._options.keys() - accepted):
            raise SettingsError(f"None of the selected models supports the setting {name!r}.", "Remove it.")

    def planner(
        self,
        spec: str,
        adapter: str | None = None,
        prompts: PromptSet | None = None,
        settings: ReplySettings | None = None,
        on_part: Callable[[str], None] | None = None,
    ) -> Planner:
        """Open a planner.

        Args:
            spec: Chat backend as `NAME:ARGUMENT`.
            adapter: Folder of a LoRA adapter.
            prompts: Prompt set. Default: the checkpoint's own, or else the built-in one.
            settings: Decoding settings of its replies.
            on_part: Called with each part of a long plan as it is written.

        Raises:
            SettingsError: The backend is unknown, or an option is not supported.
            ChatError: The model cannot be loaded.
        """
        from ..story.agents.planner import Planner

        chat = self._chat(with_role(spec, "planner"), adapter, "planner")
        return Planner(chat, prompts, settings, self._constrained, on_part)

    def critic(
        self,
        spec: str,
        adapter: str | None = None,
        prompts: PromptSet | None = None,
        settings: ReplySettings | None = None,
    ) -> Critic:
        """Open a critic. The other arguments and the errors are those of `planner`.

        Args:
            spec: Chat backend as `NAME:ARGUMENT`.
            adapter: Folder of a LoRA adapter.
            prompts: Prompt set. Default: the checkpoint's own, or else the built-in one.
            settings: Decoding settings of its replies.
        """
        from ..story.agents.critic import Critic

        chat = self._chat(with_role(spec, "critic"), adapter, "critic")
        self._critics.append(chat)
        return Critic(chat, prompts, settings, self._constrained)

    def writer(self, kind: Callable[..., SomeWriter], spec: str, *given: object) -> SomeWriter:
        """Open a chat model that writes one text, such as a `PromptEnhancer`.

        It is offloaded after each reply, unless it shares the critic's weights.

        Args:
            kind: Class of the writer.
            spec: Chat backend as `NAME:ARGUMENT`.
            *given: Other arguments of the class.

        Raises:
            SettingsError: The backend is unknown, or an option is not supported.
            ChatError: The model cannot be loaded.
        """
        return kind(self._chat(spec, None, None), *given, staying=self._critics)

    def story_checker(self, spec: str, adapter: str | None = None) -> StoryChecker:
        """Open a chat model that checks finished stories, as `writer` does.

        Args:
            spec: Chat backend as `NAME:ARGUMENT`.
            adapter: Folder of a LoRA adapter.

        Raises:
            SettingsError: The backend is unknown, an option is not supported, or the model cannot see several
                images on a sheet.
            ChatError: The model cannot be loaded.
        """
        from .story_check import StoryChecker

        return StoryChecker(self._chat(with_role(spec, "critic"), adapter, None), staying=self._critics)

    def generator(self, spec: str, **options: object) -> Generator:
        """Open a generator.

        Args:
            spec: Generator as `NAME:ARGUMENT`.
            **options: Options of this generator, in addition to the shared ones.

        Raises:
            SettingsError: The generator is unknown, or an option is not supported.
            GeneratorError: The model cannot be loaded.
        """
        shared = self._shared_with(GENERATORS.option_names(spec))
        return open_generator(spec, **options, **shared)

    def _chat(self, spec: str, adapter: str | None, role: Role | None) -> ChatModel:
        key = (spec, adapter)
        if key not in self._chats:
            accepted = CHAT_BACKENDS.option_names(spec)
            shared = self._shared_with(accepted)
            # A chat that is shared is checked again by its second agent.
            own = {"role": role} if role and "role" in accepted else {}
            self._chats[key] = open_chat(spec, adapter=adapter, **own, **shared)
        return self._chats[key]

    def _shared_with(self, accepted: frozenset[str]) -> dict[str, object]:
        """Return the shared options that a model accepts."""
        taken = {name: value for name, value in self._options.items() if name in accepted}
        self._used |= taken.keys()
        return taken
