"""Steps that somebody else draws: the loop run as far as the images go, then what to draw next.

Decision: where a sub-graph of the host draws, the host is in command and the loop cannot call a generator. So
the loop is run over the journal with a generator that only says what it was asked for. Every rule (seeds,
prompts, what counts as accepted, what is kept, what is never made twice) is thereby the loop's own, and a
trial that was stopped goes on where its records end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from ..errors import Cancelled, SettingsError
from ..journal.journal import Journal
from ..journal.store import DrawKey, DrawRecord, InMemoryStore, JudgeKey, JudgementRecord, PlanKey, RunStore
from ..pictures import Picture
from ..types import (
    MAX_BATCH,
    MAX_TEXT,
    Fault,
    Identities,
    Plan,
    Request,
    RunSettings,
    Step,
    StepResult,
    Text,
    Trajectory,
    Value,
)
from .earlier_images import ALL
from .events import AttemptDrawn, AttemptStarted, Event, Finished
from .loop import CriticLike, run
from .step_rules import step_source

ALL_STEPS = 0


class ExternalDrawRequest(Value):
    """One draw that the loop asks for; `attempt` counts a step's draws from 0 (a batch is one), `source` None
    is text-to-image."""

    step: int
    attempt: int
    prompt: Text
    seed: int
    source: Picture | None = None

    def key(self, identity: str) -> DrawKey:
        """The key of this draw by the maker of this identity."""
        source = self.source.digest if self.source else None
        return DrawKey(generator=identity, prompt=self.prompt, seed=self.seed, source=source)


class DrawNeeded(Cancelled):
    """The run cannot go on before `wanted` is drawn."""

    def __init__(self, wanted: ExternalDrawRequest) -> None:
        super().__init__(f"Step {wanted.step}, try {wanted.attempt + 1} is not drawn yet.")
        self.wanted = wanted


class ExternalDrawResult(NamedTuple):
    """A draw that was made: its images (of a batch several, each a candidate), and the wall seconds it took.

    If it failed, `error` is the message and there are no images.
    """

    wanted: ExternalDrawRequest
    images: tuple[Picture, ...]
    seconds: float = 0.0
    error: str = ""


class ExternalRun(Value):
    """What is to be tried: `steps` of the plan of a request, the first of them from `source` (None: text
    alone).

    `earlier` are the results of the plan's steps before these, which belong to the same trajectory.
    """

    request: Request
    plan: Plan
    steps: tuple[Step, ...] = Field(min_length=1)
    source: Picture | None = None
    earlier: tuple[StepResult, ...] = ()
    seed: int = 0


def run_from_prompt(prompt: str, source: Picture | None, seed: int) -> ExternalRun:
    """One picture of a prompt, or one edit of an image. Raises SettingsError without a prompt or with a huge
    one."""
    if not prompt.strip():
        raise SettingsError("There is nothing to try.", "Write a prompt, or connect a plan.")
    if len(prompt) > MAX_TEXT:
        raise SettingsError(f"The prompt has {len(prompt)} characters; at most {MAX_TEXT} are read.")
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
    """Step `number` of a plan, or with ALL_STEPS all of them that come after the `earlier` ones.

    Without `source` the first step edits the last image of the earlier steps, else the last one of the
    request. Raises SettingsError if there is no such step or nothing of it is drawn.
    """
    last = max((result.step.number for result in earlier), default=0)
    chosen = [
        step for step in plan.steps if (step.number > last if number == ALL_STEPS else step.number == number)
    ]
    numbers = ", ".join(str(step.number) for step in plan.steps)
    if not chosen:
        wanted = f"step {number}" if number else f"step after step {last}"
        raise SettingsError(f"The plan has no {wanted}.", f"Its steps are: {numbers}.")
    if not any(step.prompt for step in chosen):
        which = f"Step {number} of the plan has" if number else "The remaining steps have"
        drawn = ", ".join(str(step.number) for step in plan.steps if step.prompt) or "none"
        raise SettingsError(f"{which} only text, nothing to draw.", f"Steps that are drawn: {drawn}.")
    if any(step.settings.source == ALL for step in chosen):
        raise SettingsError(
            "A step of the plan is to be shown all earlier images, and these nodes hand over one.",
            "Give it another source (Edit Plan), or draw it with a Step Generator and the Critic Loop.",
        )
    kept = tuple(result for result in earlier if result.step.number < chosen[0].number)
    images = [*request.images, *(result.image for result in kept if result.image)]
    start = source or (images[-1] if images else None)
    own = chosen[0].settings.source
    if own not in (None, "text"):
        start = source or step_source(chosen[0], request, kept, RunSettings())
        # What it edits is decided with that; the loop that draws it knows none of the earlier steps.
        left = chosen[0].settings.model_copy(update={"source": None})
        chosen[0] = chosen[0].model_copy(update={"settings": left})
    if start not in request.images[:1] and any(step.settings.source == "anchor" for step in chosen):
        raise SettingsError(
            "A later step of the plan is to edit the request's first image, with which these nodes do not "
            "begin.",
            "Let one Try Open draw that step alone.",
        )
    return ExternalRun(request=request, plan=plan, steps=tuple(chosen), source=start, earlier=kept, seed=seed)


def first_draw(external_run: ExternalRun) -> ExternalDrawRequest:
    """What is drawn first."""
    return _opening(external_run)[0]


def first_events(external_run: ExternalRun) -> list[Event]:
    """What happens until something is drawn; the last event is the start of the first try."""
    events = _opening(external_run)[1]
    begun = [number for number, event in enumerate(events) if isinstance(event, AttemptStarted)]
    return events[: begun[-1] + 1]


def _opening(external_run: ExternalRun) -> tuple[ExternalDrawRequest, list[Event]]:
    events: list[Event] = []
    try:
        _play(external_run, "", None, RunSettings(seed=external_run.seed), InMemoryStore(), events.append)
    except DrawNeeded as needed:
        return needed.wanted, events
    raise SettingsError("Nothing of this is drawn.")  # an ExternalRun always has a step with a prompt


class ExternalAttempts:
    """The tries of one trial by one maker (`identity`), kept in the journal of the request in `folder`."""

    def __init__(self, external_run: ExternalRun, identity: str, settings: RunSettings, folder: Path) -> None:
        self.external_run = external_run
        self.settings = settings.model_copy(update={"seed": external_run.seed})
        self.folder = folder
        self._identity = identity
        self._journal = _ExternalJournal(folder, external_run)

    def is_drawn(self, wanted: ExternalDrawRequest) -> bool:
        """Whether this draw is in the journal already."""
        return self._journal.drawn(wanted.key(self._identity)) is not None

    def follow(
        self,
        critic: CriticLike | None,
        given: ExternalDrawResult | None,
        on_event: Callable[[Event], None],
    ) -> Trajectory:
        """Take in a `given` draw, judge it, and return the whole trajectory if that ends the trial.

        Raises DrawNeeded with what is to be drawn before it can go on; the journal then holds everything so
        far. Raises JournalError, ChatError, Cancelled as the loop does, SettingsError for more than MAX_BATCH
        images.
        """
        self._journal.given = given and self._drawn(given)
        trajectory = _play(self.external_run, self._identity, critic, self.settings, self._journal, on_event)
        return self._journal.whole(trajectory)

    def _drawn(self, given: ExternalDrawResult) -> DrawRecord:
        key = given.wanted.key(self._identity)
        if given.error:
            fault = Fault(where="generator", message=given.error)
            return DrawRecord(key=key, error=fault, seconds=given.seconds)
        first, *more = given.images
        if len(more) >= MAX_BATCH:
            raise SettingsError(
                f"Step {given.wanted.step}, try {given.wanted.attempt + 1} has {len(given.images)} images; "
                f"the critic chooses of {MAX_BATCH} at most.",
                "Set the batch size accordingly.",
            )
        return DrawRecord(key=key, image=first, more=tuple(more), seconds=given.seconds)


class _ExternalJournal(Journal):
    """The journal of the whole request, for a run of some of its steps."""

    def __init__(self, folder: Path, external_run: ExternalRun) -> None:
        super().__init__(folder)
        self._run = external_run
        self.given: DrawRecord | None = None
        self._failed: dict[JudgeKey, JudgementRecord] = {}
        """Judgements that failed since these tries began. Every further try replays the records: a critic
        that was asked again in the middle could answer, and another draw would be wanted under the number
        of one that was made."""
        self._failed_draws: dict[DrawKey, DrawRecord] = {}
        """Draws that failed since these tries began; they are not wanted again before the next run."""

    def whole(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory of the request, of which `trajectory` are some steps."""
        external_run = self._run
        update = {
            "request": external_run.request,
            "plan": external_run.plan,
            "results": (*external_run.earlier, *trajectory.results),
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

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        # Called again for every try; the files are written once.
        if self.written_plan() != self._run.plan:
            super().keep_plan(self._run.plan, None)

    def finish(self, trajectory: Trajectory) -> None:
        super().finish(self.whole(trajectory))


class _Outside:
    """Stands where a generator would: what it is asked for somebody else must draw."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.step, self.attempt = 0, 0
        self.draws_several = True
        """Whoever draws may give a batch; then a critic is asked even about a single try."""

    def draw_several(self, prompt: str, source: Picture | None, seed: int) -> tuple[Picture, ...]:
        return (self.draw(prompt, source, seed),)

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        raise DrawNeeded(
            ExternalDrawRequest(step=self.step, attempt=self.attempt, prompt=prompt, seed=seed, source=source)
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
    for event in run(request, None, outside, critic, settings, store, plan=plan):
        if isinstance(event, AttemptStarted):
            outside.step, outside.attempt = event.step.number, draws[event.step.number]
        elif isinstance(event, AttemptDrawn):
            draws[event.step.number] += event.record.place == 0
        if isinstance(event, Finished):
            trajectory = event.trajectory
        on_event(event)
    assert trajectory is not None  # Finished is the last event of every stream
    return trajectory
