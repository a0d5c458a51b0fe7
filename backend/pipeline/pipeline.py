"""`Pipeline`: a story in ten lines of Python (docs/tutorials/first-story-python.md)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents.plan_constraints import PlanConstraints
from ..chat import CHAT_BACKENDS
from ..chat.protocol import ChatModel, ReplySettings
from ..errors import SettingsError
from ..generators import GENERATORS
from ..loop.collaborators import Collaborators
from ..scorers import Scorer, open_scorer
from ..types import CastMember, Plan, RunSettings
from ..types.roles import CriticLike, PlannerLike
from .cast import PlanCast, read_cast
from .models import TINY_WORLD, ModelOpener, with_role
from .prepared import PreparedRun
from .published import REPLY_SETTINGS, SIZES, PublishedSystem, published_settings
from .request import ImageInput, read_request
from .story import Story, StoryStream

if TYPE_CHECKING:
    from ..generators.generator import Generator
    from .story_check import StoryCheckerLike, StoryReview

OF_ONE_AGENT = {"adapter", "merge"}


class Pipeline:
    """Plans a request, generates its images, judges each one and regenerates it until it is accepted.

    Models given by name are opened when a run first needs them and are kept for later runs. A planner and a
    critic with the same name share one model. Use a pipeline for one run at a time.

    Args:
        planner: Chat backend as `NAME:ARGUMENT` (`transformers:FOLDER`, `openai:MODEL@URL`), a `ChatModel`,
            or a planner. `tinyworld` needs no download.
        generator: Image model as `NAME:ARGUMENT` (`diffusers:FOLDER`, `http:URL`), or a `Generator`. None
            accepts only plans of text-only steps.
        critic: Like `planner`. None generates each step once without judging it.
        settings: Settings of every run. Default: `RunSettings()`.
        constraints: Constraints of the plans: number of steps, captions, style.
        check_story: Number of images that may be generated again because they do not fit their story. 0: the
            finished story is not checked.
        story_checker: Like `planner`, or an object with `check` and `identity`. Default: the critic's model.
        scorer: Scorer as `NAME:ARGUMENT` or a `Scorer`. It chooses the image of a step if several attempts
            were accepted, or none of several. Default: the critic's verdicts choose.
        published: "released" or "paper": settings of the published system for everything that is not set.
            Decoding and image size apply to models that are given by name.
        **options: Options of the models that are given by name, such as `device`, `dtype`, `quantization`,
            `size` or `steps`. Each is passed to every model that accepts it.

    Raises:
        SettingsError: A name is unknown, no model accepts an option, or no model can check stories.
    """

    def __init__(
        self,
        planner: str | ChatModel | PlannerLike = TINY_WORLD,
        generator: str | Generator | None = TINY_WORLD,
        critic: str | ChatModel | CriticLike | None = TINY_WORLD,
        *,
        settings: RunSettings | None = None,
        constraints: PlanConstraints | None = None,
        check_story: int = 0,
        story_checker: str | ChatModel | StoryCheckerLike | None = None,
        scorer: str | Scorer | None = None,
        published: PublishedSystem | None = None,
        **options: object,
    ) -> None:
        self._scorer = scorer
        self._replies = REPLY_SETTINGS[published] if published else {}
        if published and SIZES[published] and isinstance(generator, str):
            accepts_size = "size" in GENERATORS.option_names(generator)
            options = ({"size": SIZES[published]} if accepts_size else {}) | options
        if published and settings is None:
            settings = published_settings(published)
        self._planner, self._generator, self._critic = planner, generator, critic
        self._check_story, self._story_checker = check_story, story_checker or critic
        self._settings = settings or RunSettings()
        self._constraints = constraints or PlanConstraints()
        self._check(options)
        self._models = ModelOpener(options)

    def __call__(
        self,
        request: str,
        folder: str | Path | None = None,
        *,
        images: Sequence[ImageInput] = (),
        plan: Plan | None = None,
        settings: RunSettings | None = None,
        cast: str | Path | Sequence[CastMember] = (),
    ) -> Story:
        """Run a request and return the story. Arguments and errors are those of `stream`."""
        return self.stream(request, folder, images=images, plan=plan, settings=settings, cast=cast).result()

    def stream(
        self,
        request: str,
        folder: str | Path | None = None,
        *,
        images: Sequence[ImageInput] = (),
        plan: Plan | None = None,
        settings: RunSettings | None = None,
        cast: str | Path | Sequence[CastMember] = (),
    ) -> StoryStream:
        """Start a request and return its events. Iterating over them runs it.

        Args:
            request: What the story is about.
            folder: Run folder. If it contains this run already, finished attempts are reused. Default:
                everything is kept in RAM.
            images: Images of the request in order, as files or opened.
            plan: Plan to use instead of calling the planner.
            settings: Settings of this run. Default: those of the pipeline.
            cast: The characters, props and places that keep their look, or a cast.yaml file.

        Returns:
            An iterator of events. Its `result()` is the story.

        Raises:
            InterleaveError: The request, the folder or a model cannot be used.
        """
        place = Path(folder) if folder is not None else None
        members = read_cast(cast) if isinstance(cast, (str, Path)) else tuple(cast)
        prepared = PreparedRun(
            read_request(request, images),
            place,
            settings or self._settings,
            self._constraints,
            plan,
        )
        generator = self._open_generator() if prepared.needs_generator else None
        collaborators = Collaborators(
            planner=self._open_planner() if prepared.needs_planner else None,
            generator=generator,
            critic=self._open_critic() if prepared.needs_critic else None,
            cast=PlanCast(members) if members else None,
            reviewer=self._open_reviewer(),
            scorer=self._open_scorer(),
        )
        return StoryStream(prepared.events(collaborators), place)

    def _open_generator(self) -> Generator | None:
        if isinstance(self._generator, str):
            self._generator = self._models.generator(self._generator)
        return self._generator

    def _open_planner(self) -> PlannerLike:
        from ..agents.planner import Planner

        if isinstance(self._planner, str):
            return self._models.planner(self._planner, settings=ReplySettings(**self._replies))
        return Planner(self._planner) if isinstance(self._planner, ChatModel) else self._planner

    def _open_critic(self) -> CriticLike | None:
        from ..agents.critic import Critic

        if isinstance(self._critic, str):
            replies = ReplySettings(watch_verdict=True, **self._replies)
            return self._models.critic(self._critic, settings=replies)
        return Critic(self._critic) if isinstance(self._critic, ChatModel) else self._critic

    def _open_scorer(self) -> Scorer | None:
        if isinstance(self._scorer, str):
            self._scorer = open_scorer(self._scorer)
        return self._scorer

    def _open_reviewer(self) -> StoryReview | None:
        if not self._check_story:
            return None
        from .story_check import StoryChecker, StoryCheckerLike, StoryReview

        checker = self._story_checker
        if isinstance(checker, str):
            checker = self._story_checker = self._models.story_checker(checker)
        elif isinstance(checker, ChatModel):
            checker = StoryChecker(checker)
        elif not isinstance(checker, StoryCheckerLike):
            raise SettingsError("No model is chosen that checks stories.", "Pass story_checker.")
        return StoryReview(checker, self._check_story)

    def _check(self, options: dict[str, object]) -> None:
        """Check the names of the models and the options.

        Raises:
            SettingsError: A name is unknown, or no model accepts an option.
        """
        accepted: set[str] = set()
        if isinstance(self._generator, str):
            accepted |= GENERATORS.option_names(self._generator)
        if isinstance(self._planner, str):
            accepted |= CHAT_BACKENDS.option_names(with_role(self._planner, "planner"))
        if isinstance(self._critic, str):
            accepted |= CHAT_BACKENDS.option_names(with_role(self._critic, "critic"))
        if self._check_story and isinstance(self._story_checker, str):
            accepted |= CHAT_BACKENDS.option_names(with_role(self._story_checker, "critic"))
        accepted -= OF_ONE_AGENT
        for name in sorted(options.keys() - accepted):
            hint = f"Supported options: {', '.join(sorted(accepted))}."
            if name in OF_ONE_AGENT:
                hint = f"Pass it to the agent: Pipeline(planner=open_chat(NAME, {name}=...))."
            raise SettingsError(f"No model of this pipeline accepts the option {name!r}.", hint)
