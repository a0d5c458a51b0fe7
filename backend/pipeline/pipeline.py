"""`Pipeline`: a story in ten lines of Python (docs/tutorials/first-story-python.md), and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Generator as EventStream
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from PIL import Image

from ..core.errors import Cancelled, SettingsError
from ..core.seams.chat_model import ChatModel, ReplySettings, is_chat
from ..core.seams.generator import FunctionGenerator, Generator
from ..core.types import CastMember, Plan, RunSettings, StepResult, Trajectory
from ..core.types.roles import CriticLike, PlannerLike
from ..models.chat import CHAT_BACKENDS
from ..models.generators import GENERATORS
from ..models.scorers import Scorer, open_scorer
from ..output.exporters import export_by_name
from ..story.agents.plan_constraints import PlanConstraints
from ..story.agents.text_writers import Translator
from ..story.journal.archive import OF_ONE_STORY, copy_run
from ..story.journal.journal import Journal
from ..story.journal.run_files import RUN
from ..story.journal.waiting import Waiting
from ..story.loop.collaborators import Collaborators
from ..story.loop.events import Event, Finished
from ..story.outcomes import all_accepted, is_complete
from .as_published import REPLY_SETTINGS, SIZES, PublishedSystem, published_settings
from .cast_file import PlanCast, read_cast
from .models import TINY_WORLD, ModelOpener, with_role
from .prepared import ImageInput, PreparedRun, plan_of, read_request

if TYPE_CHECKING:
    from ..core.types.clip import ClipMaker
    from ..story.clips import ClipMade
    from .story_check import StoryCheckerLike, StoryReview


@dataclass(frozen=True)
class Story:
    """The result of a run.

    Attributes:
        trajectory: The plan and every attempt of every step.
        folder: Run folder. None if the run was kept in RAM.
        waiting: What a paused run waits for (see `approve`). None if it did not pause.
    """

    trajectory: Trajectory
    folder: Path | None = None
    waiting: Waiting | None = None

    @property
    def steps(self) -> tuple[StepResult, ...]:
        """Results of the steps in order: the step, its attempts and the reason why it ended."""
        return self.trajectory.results

    @property
    def images(self) -> tuple[Image.Image, ...]:
        """The final image of every step that has one, in the order of the steps."""
        return tuple(result.image.image for result in self.steps if result.image)

    @property
    def complete(self) -> bool:
        """Whether every step finished without a failure, a cancellation, an exceeded limit or a pause."""
        return self.waiting is None and is_complete(self.trajectory)

    @property
    def accepted(self) -> bool:
        """Whether the run is complete and no step was rejected."""
        return self.waiting is None and all_accepted(self.trajectory)

    def export(self, name: str = "page", folder: str | Path | None = None, **options: Any) -> Path:
        """Export the story in another format.

        Args:
            name: Exporter, such as `page`, `pdf`, `comic`, `gif`, `markdown`, or one of a plug-in.
            folder: Folder to write into. Default: the run folder.
            **options: Options of the exporter, such as `title` or `audience`.

        Returns:
            The main file.

        Raises:
            SettingsError: The exporter is unknown, an option is not supported, or no folder is given.
            JournalError: The folder cannot be written.
        """
        target = folder or self.folder
        if target is None:
            raise SettingsError("This story has no run folder to export into.", "Pass a folder: folder=...")
        return export_by_name(name, self.trajectory, target, **options)

    def make_clips(
        self,
        maker: ClipMaker | str,
        *,
        seed: int = 0,
        again: bool = False,
        on_clip: Callable[[ClipMade], object] | None = None,
        **options: Any,
    ) -> Story:
        """Make the missing clips between the images, and return the story with all of its clips.

        Each clip is stored in the run folder as soon as it is finished.

        Args:
            maker: Folder or hub id of a diffusers pipeline that takes a first and a last frame, or a
                `ClipMaker`.
            seed: Seed of every clip.
            again: Whether to make clips again that the story has already.
            on_clip: Called with each clip.
            **options: Options of the pipeline: seconds, size, fps, steps, guidance, negative, device, dtype,
                download.

        Raises:
            SettingsError: The model cannot be used, an option is invalid, or PyAV is missing.
            GeneratorError: A clip cannot be generated. All clips before it are stored.
            JournalError: Another process is using the run folder, or a clip cannot be stored.
        """
        from ..story.clips import make_clips, with_clips

        if isinstance(maker, str):
            from ..models.clips import open_clip_maker

            maker = open_clip_maker(maker, **options)
        elif options:
            raise SettingsError(
                f"The option {min(options)!r} needs a model name.", "Set it on the ClipMaker."
            )
        journal = None if self.folder is None else Journal(self.folder)
        keep = journal.keep_clip if journal else lambda clip: clip
        with journal.writing() if journal else nullcontext():
            made = []
            for one in make_clips(self.trajectory, maker, keep, seed, again):
                made.append(one.clip)
                if on_clip is not None:
                    on_clip(one)
        return replace(self, trajectory=with_clips(self.trajectory, made))


class StoryStream(Iterator[Event]):
    """The events of a run while it runs. `result` returns the story.

    Call `close` to stop the run and release its folder. Finished attempts stay in the folder, and the same
    request resumes them.
    """

    def __init__(self, events: EventStream[Event, None, None], folder: Path | None) -> None:
        self._events, self._folder = events, folder
        self._last: Finished | None = None

    def __iter__(self) -> StoryStream:
        return self

    def __next__(self) -> Event:
        event = next(self._events)
        if isinstance(event, Finished):
            self._last = event
        return event

    def close(self) -> None:
        """Stop the run and release its folder."""
        self._events.close()

    def result(self) -> Story:
        """Run to the end and return the story.

        Raises:
            Cancelled: The run was stopped before it had a result.
            InterleaveError: As while iterating.
        """
        for _ in self:
            pass
        if self._last is None:
            raise Cancelled("The run was stopped.", "Run the same request again to resume.")
        return Story(self._last.trajectory, self._folder, self._last.waiting)


OF_ONE_AGENT = {"adapter"}


class Pipeline:
    """Plans a request, generates its images, judges each one and regenerates it until it is accepted.

    Models given by name are opened when a run first needs them and are kept for later runs. A planner and a
    critic with the same name share one model. Use a pipeline for one run at a time.

    Args:
        planner: Chat backend as `NAME:ARGUMENT` (`transformers:FOLDER`, `openai:MODEL@URL`), a `ChatModel`,
            or a planner. `tinyworld` needs no download.
        generator: Image model as `NAME:ARGUMENT` (`diffusers:FOLDER`, `http:URL`), a `Generator`, or a
            function `(prompt, source, seed)` that returns a PIL image. None accepts only plans of text-only
            steps.
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
        generator: str | Generator | FunctionType | None = TINY_WORLD,
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
        agents: list[str] = []
        if prepared.needs_planner and isinstance(self._planner, str):
            agents.append(with_role(self._planner, "planner"))
        if prepared.needs_critic and isinstance(self._critic, str):
            agents.append(with_role(self._critic, "critic"))
        self._models.check(
            [(agent, None) for agent in agents],
            self._generator if prepared.needs_generator and isinstance(self._generator, str) else None,
            ask=place is None or not (place / RUN).is_file(),
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

    def again(
        self,
        story: str | Path,
        folder: str | Path,
        *,
        language: str = "",
        settings: RunSettings | None = None,
        cast: str | Path | Sequence[CastMember] = (),
    ) -> Story:
        """Run the story of a run folder again in another folder, with this pipeline's models and style.

        The planner is not asked for a plan. Images that do not depend on a difference are reused.

        Args:
            story: Run folder of the story. It stays as it is.
            folder: Run folder of the new story; an existing one is resumed.
            language: Language into which the planner's model translates the captions. Default: they stay.
            settings: Settings of the run. Default: those of the story.
            cast: As in `stream`. Default: the cast of the story.

        Raises:
            InterleaveError: As `stream`; also if the story has no approved plan.
        """
        source, place = Path(story), Path(folder)
        is_begun = (place / RUN).is_file()
        plan = plan_of(place if is_begun else source)
        journal = Journal(source)
        request, settings = journal.request(), settings or journal.record().settings
        if language and not is_begun:
            plan = self._translator()(plan, language)
        stream = self.stream(
            request.text, place, images=request.images, plan=plan, settings=settings, cast=cast
        )
        if not is_begun:
            copy_run(source, place, OF_ONE_STORY)
        return stream.result()

    def _translator(self) -> Translator:
        from ..story.agents.planner import Planner

        planner = self._open_planner()
        if not isinstance(planner, Planner):
            raise SettingsError(f"{type(planner).__name__} cannot translate.", "Use a chat model.")
        return Translator(planner.chat)

    def _open_generator(self) -> Generator | None:
        if isinstance(self._generator, str):
            self._generator = self._models.generator(self._generator)
        elif isinstance(self._generator, FunctionType):
            self._generator = FunctionGenerator(self._generator)
        return self._generator

    def _open_planner(self) -> PlannerLike:
        from ..story.agents.planner import Planner

        if isinstance(self._planner, str):
            return self._models.planner(self._planner, settings=ReplySettings(**self._replies))
        return Planner(self._planner) if is_chat(self._planner) else self._planner

    def _open_critic(self) -> CriticLike | None:
        from ..story.agents.critic import Critic

        if isinstance(self._critic, str):
            replies = ReplySettings(watch_verdict=True, **self._replies)
            return self._models.critic(self._critic, settings=replies)
        return Critic(self._critic) if is_chat(self._critic) else self._critic

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
        elif is_chat(checker):
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
