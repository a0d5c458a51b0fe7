"""Opens the planner, the generator and the critic that a command's options name.

Models are named by specs (NAME or NAME:ARGUMENT, as in the registries). A planner and a critic with the same
model and the same adapter share it, so that it is in memory once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from ..backend.chat.chat_model import ReplySettings
from ..backend.errors import SettingsError
from ..backend.pipeline.models import TINY_WORLD, ModelOpener
from .options.engine import engine_options, read_engine
from .options.model_options import (
    NONE,
    CastOptions,
    CriticOptions,
    DrawingOptions,
    GeneratorOptions,
    LocalOptions,
    PlannerOptions,
    RewritingOptions,
    ScorerOptions,
    StoryCheckOptions,
)

if TYPE_CHECKING:
    from ..backend.agents.critic import Critic
    from ..backend.agents.planner import Planner
    from ..backend.agents.text_writers import CastWriter, StepRewriter
    from ..backend.generators.generator import Generator
    from ..backend.pipeline.story_check import StoryReview
    from ..backend.prompts.prompt_set import PromptSet
    from ..backend.scorers import Scorer

ENHANCER = ("enhancer_prompt", "enhancer_edit_prompt", "enhancer_max_tokens")
"""Options that need `--enhancer`."""
SAMPLING = ("max_tokens", "temperature", "top_p", "top_k", "seed", "max_pixels")
"""Reply settings for which planner and critic have an option each."""


class Opener:
    """Opens the agents and the generator of one command. Call `finish` when all of them are open."""

    def __init__(self, local: LocalOptions) -> None:
        given = local.model_dump(exclude={"engine", "constrained_decoding"})
        shared = {name: value for name, value in given.items() if value not in (None, False)}
        self._engine = engine_options(read_engine(local.engine or ""))
        self._models = ModelOpener(shared | self._engine, local.constrained_decoding)

    def planner(self, options: PlannerOptions, on_part: Callable[[str], None] | None = None) -> Planner:
        """Open the planner.

        Args:
            options: Options of the planner.
            on_part: Called with the name of each part of a long plan before it is written.

        Raises:
            SettingsError: An option is not valid for this model.
            ChatError: The model cannot be loaded or reached.
        """
        settings = reply_settings("planner", options).seeded(options.planner_seed or 0)
        prompts = prompts_in(options.planner_prompts)
        return self._models.planner(options.planner, options.planner_adapter, prompts, settings, on_part)

    def cast_writer(self, options: CastOptions) -> CastWriter | None:
        """Open the chat model that writes the cast, if one is chosen.

        Raises:
            SettingsError: An option is not valid for this model.
            ChatError: The model cannot be loaded or reached.
        """
        return self._models.cast_writer(options.cast_writer) if options.cast_writer else None

    def step_rewriter(self, options: RewritingOptions) -> StepRewriter | None:
        """Open the chat model that describes failed steps, if one is chosen.

        Raises:
            SettingsError: An option is not valid for this model.
            ChatError: The model cannot be loaded or reached.
        """
        return self._models.step_rewriter(options.step_rewriter) if options.step_rewriter else None

    def story_review(self, options: StoryCheckOptions, critic: CriticOptions) -> StoryReview | None:
        """Open the chat model that checks the story; None if the story is not checked.

        Raises:
            SettingsError: An option is not valid for this model, or no model is chosen.
            ChatError: The model cannot be loaded or reached.
        """
        if not options.check_story:
            if options.story_checker is not None:
                raise SettingsError("--story-checker is set, but not --check-story.", "Add --check-story 1.")
            return None
        spec = options.story_checker or critic.critic
        if spec in (NONE, TINY_WORLD):
            raise SettingsError(
                f"--check-story needs a model that can compare several images, and the critic is {spec!r}.",
                "Add --story-checker.",
            )
        from ..backend.pipeline.story_check import StoryReview

        own = options.story_checker is None
        checker = self._models.story_checker(
            spec, critic.critic_adapter if own else None, own and critic.merge_critic
        )
        return StoryReview(checker, options.check_story)

    def critic(self, options: CriticOptions) -> Critic | None:
        """Open the critic; None for `none`.

        Raises:
            SettingsError: An option is not valid for this model.
            ChatError: The model cannot be loaded or reached.
        """
        if options.critic == NONE:
            return None
        prompts = prompts_in(options.critic_prompts)
        settings = reply_settings("critic", options).model_copy(update={"watch_verdict": True})
        return self._models.critic(
            options.critic, options.critic_adapter, prompts, settings, options.merge_critic
        )

    def generator(self, options: GeneratorOptions) -> Generator:
        """Open the generator.

        Raises:
            SettingsError: An option is not valid for this model, or belongs to an enhancer that is not named.
            GeneratorError: The model cannot be loaded or reached.
            ChatError: The enhancer cannot be loaded or reached.
        """
        unused = [name for name in ENHANCER if getattr(options, name) is not None]
        if options.enhancer is None and unused:
            raise SettingsError(
                f"--{unused[0].replace('_', '-')} is set, but no enhancer is chosen.", "Add --enhancer."
            )
        drawing = options.model_dump(include={*DrawingOptions.model_fields, "lora_folder"})
        generator = self._models.generator(options.generator, **drawing)
        if options.put_back:
            from ..backend.generators.wrappers import PUT_BACK, color_matched

            generator = color_matched(generator, PUT_BACK)
        if options.enhancer is None:
            return generator
        from ..backend.generators.wrappers import EnhancedGenerator
        from ..backend.prompts.prompt_set import enhancer_prompts, read_template

        files = (options.enhancer_prompt, options.enhancer_edit_prompt)
        prompts = enhancer_prompts(*("" if path is None else read_template(path) for path in files))
        settings = ReplySettings(max_tokens=options.enhancer_max_tokens)
        enhancer = self._models.enhancer(options.enhancer, prompts, settings)
        return EnhancedGenerator(generator, enhancer.enhance, enhancer.identity)

    def finish(self) -> None:
        """Check that each option was supported by at least one of the opened models.

        Raises:
            SettingsError: No model supports an option.
        """
        unused = set(self._models.unused)
        if not self._engine.keys() <= unused:  # one kind of model took its part of --engine
            unused -= self._engine.keys()
        for name in sorted({"engine" if name in self._engine else name for name in unused}):
            flag = f"--{name.replace('_', '-')}"
            raise SettingsError(f"None of the selected models supports {flag}.", "Remove the option.")


def opened_scorer(options: ScorerOptions) -> Scorer | None:
    """Open the scorer that chooses between attempts, if one is chosen.

    Raises:
        SettingsError: The scorer is unknown, or an option in its name is not valid.
        ChatError: Its model cannot be loaded or reached.
    """
    if options.scorer is None:
        return None
    from ..backend.scorers import open_scorer

    return open_scorer(options.scorer)


def reply_settings(role: str, options: BaseModel) -> ReplySettings:
    """Return the reply settings that the options `ROLE_...` set; the others keep their defaults."""
    given = {name: getattr(options, f"{role}_{name}") for name in SAMPLING}
    return ReplySettings(**{name: value for name, value in given.items() if value is not None})


def prompts_in(folder: str | None) -> PromptSet | None:
    """Read a prompt set.

    Args:
        folder: Folder of a prompt set or of a checkpoint that has one, `tinyworld:planner` or
        `tinyworld:critic`.
            None gives None.

    Raises:
        SettingsError: The folder does not contain a prompt set.
    """
    from ..backend.prompts.prompt_set import FOLDER_NAME, PromptSet

    if folder is None:
        return None
    kind, _, agent = folder.partition(":")
    if kind == TINY_WORLD:
        from ..tinyworld.runtime import checkpoint

        folder = str(checkpoint(agent))
    path = Path(folder).expanduser()
    return PromptSet.load(path / FOLDER_NAME if (path / FOLDER_NAME).is_dir() else path)
