"""Steps whose images are generated outside of the loop, for example by other nodes of a ComfyUI graph.

Such a graph decides itself when it runs, so the loop cannot call a generator. Instead, the loop is run over
the journal with a placeholder generator that reports which image is needed next. So all rules (seeds,
prompts, acceptance, which attempt is kept, what is cached) are those of the loop, and a stopped run resumes
where its records end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ...core.errors import Cancelled, SettingsError
from ...core.pictures import Picture
from ...core.seams.generator import Generator
from ...core.types import (
    MAX_BATCH,
    MAX_TEXT,
    CastShown,
    Choices,
    DrawSettings,
    Fault,
    Identities,
    Plan,
    Request,
    RunSettings,
    Spent,
    Step,
    StepResult,
    StepSettings,
    Text,
    Trajectory,
    Value,
)
from ...core.types.roles import CriticLike
from ..journal.journal import Journal
from ..journal.store import DrawKey, DrawRecord, InMemoryStore, JudgeKey, JudgementRecord, PlanKey, RunStore
from .collaborators import Collaborators
from .events import AttemptDrawn, AttemptStarted, Event, Finished
from .loop import run
from .policy import ALL, step_source

ALL_STEPS = 0


class ExternalDrawRequest(Value):
    """The image that the loop needs next.

    `attempt` counts the generator calls of the step from 0; a batch is one call. `source=None` means
    text-to-image. If the plan has a cast, `cast` is what `prompt` says about it, and `plain` is the prompt
    without that.
    """

    step: int
    attempt: int
    prompt: Text
    seed: int
    source: Picture | None = None
    plain: Text = ""
    cast: CastShown | None = None

    def key(self, identity: str) -> DrawKey:
        """Return the cache key of the image for a generator with this identity."""
        prompt, settings = self.plain or self.prompt, DrawSettings(cast=self.cast)
        return DrawKey.of(identity, prompt, self.source, self.seed, settings)


class DrawNeeded(Cancelled):
    """The run cannot continue before the image `wanted` is generated."""

    def __init__(self, wanted: ExternalDrawRequest) -> None:
        super().__init__(f"The image of step {wanted.step}, attempt {wanted.attempt + 1} is missing.")
        self.wanted = wanted


class ExternalDrawResult(NamedTuple):
    """The result of one generator call: its images (a batch has several) and the wall time in seconds.

    If the call failed, `error` is the message and `images` is empty.
    """

    wanted: ExternalDrawRequest
    images: tuple[Picture, ...]
    seconds: float = 0.0
    error: str = ""


class ExternalRun(Value):
    """What to run: `steps` of a request's plan. The first of them edits `source`; `None` means text-to-image.

    `earlier` are the results of the steps of the plan before these. They belong to the same trajectory.
    """

    request: Request
    plan: Plan
    steps: tuple[Step, ...] = Field(min_length=1)
    source: Picture | None = None
    earlier: tuple[StepResult, ...] = ()
    seed: int = 0


def run_from_prompt(prompt: str, source: Picture | None, seed: int) -> ExternalRun:
    """Return a run of one step: an image from a prompt, or an edit of `source`.

    Raises:
        SettingsError: The prompt is empty or too long.
    """
    if not prompt.strip():
        raise SettingsError("The prompt is empty.", "Write a prompt, or connect a plan.")
    if len(prompt) > MAX_TEXT:
        raise SettingsError(
            f"The prompt has {len(prompt)} characters; the maximum is {MAX_TEXT}.", "Shorten the prompt."
        )
    request = Request(text=prompt, images=(source,) if source else ())
    step = Step(number=1, prompt=prompt)
    return ExternalRun(request=request, plan=Plan(steps=(step,)), steps=(step,), source=source, seed=seed)


def run_from_plan(
    request: Request,
    plan: Plan,
    number: int,
    source: Picture | None,
    seed: int,
    earlier: tuple[StepResult, ...] = (),
) -> ExternalRun:
    """Return a run of one step of a plan, or of all steps after the `earlier` ones.

    Args:
        request: The request of the plan.
        plan: The plan.
        number: Number of the step, or `ALL_STEPS`.
        source: Image that the first step edits. Default: the last image of the earlier steps, else the last
            image of the request.
        seed: Base seed.
        earlier: Results of earlier steps.

    Raises:
        SettingsError: The plan does not have the step, the steps do not generate an image, or a step needs an
            image that these nodes cannot pass on.
    """
    last = max((result.step.number for result in earlier), default=0)
    chosen = [
        step for step in plan.steps if (step.number > last if number == ALL_STEPS else step.number == number)
    ]
    numbers = ", ".join(str(step.number) for step in plan.steps)
    if not chosen:
        which = f"step {number}" if number else f"step after step {last}"
        raise SettingsError(
            f"The plan does not have a {which}.", f"Its steps are {numbers}. Choose another step."
        )
    if not any(step.prompt for step in chosen):
        which = f"Step {number} of the plan is" if number else "The remaining steps are"
        drawn = ", ".join(str(step.number) for step in plan.steps if step.prompt) or "none"
        raise SettingsError(
            f"{which} text only, so no image is generated.", f"Steps with an image: {drawn}. Choose one."
        )
    if any(step.settings.source == ALL for step in chosen):
        raise SettingsError(
            "A step of the plan has source 'all' (all earlier images), but these nodes pass on one image.",
            "Set another source in Edit Plan, or use a Step Generator with the Critic Loop.",
        )
    kept = tuple(result for result in earlier if result.step.number < chosen[0].number)
    images = [*request.images, *(result.image for result in kept if result.image)]
    start = source or (images[-1] if images else None)
    own = chosen[0].settings.source
    if own not in (None, "text"):
        start = source or step_source(chosen[0], request, kept, RunSettings())
        # The source is now decided. The loop does not know the earlier steps, so it could not find it.
        left = chosen[0].settings.model_copy(update={"source": None})
        chosen[0] = chosen[0].model_copy(update={"settings": left})
    if start not in request.images[:1] and any(step.settings.source == "anchor" for step in chosen):
        raise SettingsError(
            "A later step of the plan edits the request's first image, but the first step of this loop does "
            "not start from that image.",
            "Run that step alone, with an Attempt Start of its own.",
        )
    return ExternalRun(request=request, plan=plan, steps=tuple(chosen), source=start, earlier=kept, seed=seed)


def first_draw(external_run: ExternalRun) -> ExternalDrawRequest:
    """Return the first image that is needed."""
    return _opening(external_run)[0]


def first_events(external_run: ExternalRun) -> list[Event]:
    """Return the events before the first image; the last one is the start of the first attempt."""
    events = _opening(external_run)[1]
    begun = [number for number, event in enumerate(events) if isinstance(event, AttemptStarted)]
    return events[: begun[-1] + 1]


def _opening(external_run: ExternalRun) -> tuple[ExternalDrawRequest, list[Event]]:
    events: list[Event] = []
    try:
        _play(external_run, "", None, RunSettings(seed=external_run.seed), InMemoryStore(), events.append)
    except DrawNeeded as needed:
        return needed.wanted, events
    # Not reached: an ExternalRun always has a step with a prompt.
    raise SettingsError("The steps do not generate an image.", "Choose a step with a prompt.")


class ExternalAttempts:
    """The attempts of one external run by one generator (`identity`), stored in the journal in `folder`."""

    def __init__(self, external_run: ExternalRun, identity: str, settings: RunSettings, folder: Path) -> None:
        self.external_run = external_run
        self.settings = settings.model_copy(update={"seed": external_run.seed})
        self.folder = folder
        self._identity = identity
        self._journal = _ExternalJournal(folder, external_run)

    def is_drawn(self, wanted: ExternalDrawRequest) -> bool:
        """Return whether the image is in the journal."""
        return self._journal.drawn(wanted.key(self._identity)) is not None

    def follow(
        self,
        critic: CriticLike | None,
        given: ExternalDrawResult | None,
        on_event: Callable[[Event], None],
    ) -> Trajectory:
        """Add a generated image, judge it, and return the whole trajectory if the run is complete.

        Args:
            critic: The critic; `None` accepts no image and judges none.
            given: Result of the generator call that was requested last, if there is one.
            on_event: Called with every event of the run so far.

        Raises:
            DrawNeeded: Another image is needed. The journal then contains everything so far.
            SettingsError: The batch has more than `MAX_BATCH` images.
            JournalError: The journal cannot be used.
            AnswerError: Two verdicts in a row could not be parsed.
            ChatError: The critic failed twice in a row.
            Cancelled: The run was cancelled.
        """
        self._journal.given = given and self._drawn(given)
        trajectory = _play(self.external_run, self._identity, critic, self.settings, self._journal, on_event)
        return self._journal.with_clips(self._journal.whole(trajectory))

    def _drawn(self, given: ExternalDrawResult) -> DrawRecord:
        key = given.wanted.key(self._identity)
        if given.error:
            fault = Fault(where="generator", message=given.error)
            return DrawRecord(key=key, error=fault, seconds=given.seconds)
        first, *more = given.images
        if len(more) >= MAX_BATCH:
            raise SettingsError(
                f"Step {given.wanted.step}: attempt {given.wanted.attempt + 1} has {len(given.images)} "
                f"images, but the critic can choose among {MAX_BATCH} at most.",
                f"Set the batch size to {MAX_BATCH} or less.",
            )
        return DrawRecord(key=key, image=first, more=tuple(more), seconds=given.seconds)


class _ExternalJournal(Journal):
    """The journal of the whole request, used by a run of some of its steps."""

    def __init__(self, folder: Path, external_run: ExternalRun) -> None:
        super().__init__(folder)
        self._run = external_run
        self.given: DrawRecord | None = None
        self._failed: dict[JudgeKey, JudgementRecord] = {}
        """Judgements that failed in this run. Every further attempt replays the records. If the critic were
        called again for these, a new verdict could change which image is needed, under the number of an image
        that exists already."""
        self._failed_draws: dict[DrawKey, DrawRecord] = {}
        """Generator calls that failed in this run; they are not repeated before the next run."""

    def whole(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory of the whole request; `trajectory` has some of its steps."""
        external_run = self._run
        update = {
            "request": external_run.request,
            "plan": external_run.plan,
            "results": (*external_run.earlier, *trajectory.results),
            "choices": super().choices(),
        }
        return trajectory.model_copy(update=update)

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        super().begin(self._run.request, settings, identities)
        try:
            if self.given is not None:
                self.keep_drawn(self.given)
        except BaseException:
            self.end()
            raise

    def choices(self) -> Choices:
        # Nodes outside of the loop are given no mask. A request without a planned prompt is valid nowhere.
        choices = super().choices()
        redraws = {
            step: tuple(one.model_copy(update={"planned": ""}) if one.mask else one for one in requests)
            for step, requests in choices.redraws.items()
        }
        return choices.model_copy(update={"redraws": redraws})

    def drawn(self, key: DrawKey) -> DrawRecord | None:
        return super().drawn(key) or self._failed_draws.get(key)

    def keep_drawn(self, drawn: DrawRecord) -> None:
        super().keep_drawn(drawn)
        if drawn.image is None:
            self._failed_draws[drawn.key] = drawn

    def judged(self, key: JudgeKey) -> JudgementRecord | None:
        return super().judged(key) or self._failed.get(key)

    def keep_judged(self, judged: JudgementRecord) -> None:
        super().keep_judged(judged)
        if judged.verdict is None:
            self._failed[judged.key] = judged

    def keep_plan(self, plan: Plan, key: PlanKey | None, spent: Spent | None = None) -> None:
        # Called again for every attempt; the files are written once.
        if self.written_plan() != self._run.plan:
            super().keep_plan(self._run.plan, None)

    def finish(self, trajectory: Trajectory) -> None:
        super().finish(self.whole(trajectory))


class _Outside(Generator):
    """A placeholder for the generator: raises `DrawNeeded` with the image that it is asked for."""

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self.step, self.attempt = 0, 0
        self.plain = ""
        self.cast: CastShown | None = None

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def draws_several(self) -> bool:
        """A batch may be given later; with this flag the critic is called even for a single attempt."""
        return True

    def with_step_settings(self, settings: StepSettings) -> _Outside:
        """Return this generator; it is only called with what the loop adds, which is about the cast."""
        self.cast = settings.cast if isinstance(settings, DrawSettings) else None
        return self

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        raise DrawNeeded(
            ExternalDrawRequest(
                step=self.step,
                attempt=self.attempt,
                prompt=prompt,
                seed=seed,
                source=source,
                plain=self.plain if self.cast else "",
                cast=self.cast,
            )
        )


def _play(
    external_run: ExternalRun,
    identity: str,
    critic: CriticLike | None,
    settings: RunSettings,
    store: RunStore,
    on_event: Callable[[Event], None],
) -> Trajectory:
    request = Request(
        text=external_run.request.text, images=(external_run.source,) if external_run.source else ()
    )
    outside = _Outside(identity)
    trajectory = None
    draws = Counter[int]()
    plan = external_run.plan.model_copy(update={"steps": external_run.steps})
    for event in run(request, Collaborators(None, outside, critic), settings, store, plan):
        if isinstance(event, AttemptStarted):
            outside.step, outside.attempt = event.step.number, draws[event.step.number]
            outside.plain, outside.cast = event.prompt, None
        elif isinstance(event, AttemptDrawn):
            draws[event.step.number] += event.record.place == 0
        if isinstance(event, Finished):
            trajectory = event.trajectory
        on_event(event)
    assert trajectory is not None  # Finished is the last event of every stream
    return trajectory
