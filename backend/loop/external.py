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
from ..journal.store import DrawKey, Drawn, InMemoryStore, Judged, JudgeKey, PlanKey, RunStore
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


class Wanted(Value):
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


class NextTry(Cancelled):
    """The run cannot go on before `wanted` is drawn."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(f"Step {wanted.step}, try {wanted.attempt + 1} is not drawn yet.")
        self.wanted = wanted


class Given(NamedTuple):
    """A draw that was made: its images (of a batch several, each a candidate), and the wall seconds it took.

    If it failed, `error` is the message and there are no images.
    """

    wanted: Wanted
    images: tuple[Picture, ...]
    seconds: float = 0.0
    error: str = ""


class Trial(Value):
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


def trial_of_prompt(prompt: str, source: Picture | None, seed: int) -> Trial:
    """One picture of a prompt, or one edit of an image. Raises SettingsError without a prompt or with a huge
    one."""
    if not prompt.strip():
        raise SettingsError("There is nothing to try.", "Write a prompt, or connect a plan.")
    if len(prompt) > MAX_TEXT:
        raise SettingsError(f"The prompt has {len(prompt)} characters; at most {MAX_TEXT} are read.")
    request = Request(text=prompt, images=(source,) if source else ())
    step = Step(number=1, prompt=prompt)
    return Trial(request=request, plan=Plan(steps=(step,)), steps=(step,), source=source, seed=seed)


def trial_of_plan(
    request: Request,
    plan: Plan,
    number: int,
    source: Picture | None,
    seed: int,
    earlier: tuple[StepResult, ...] = (),
) -> Trial:
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
    return Trial(request=request, plan=plan, steps=tuple(chosen), source=start, earlier=kept, seed=seed)


def first_try(trial: Trial) -> Wanted:
    """What is drawn first."""
    return _opening(trial)[0]


def first_events(trial: Trial) -> list[Event]:
    """What happens until something is drawn; the last event is the start of the first try."""
    events = _opening(trial)[1]
    begun = [number for number, event in enumerate(events) if isinstance(event, AttemptStarted)]
    return events[: begun[-1] + 1]


def _opening(trial: Trial) -> tuple[Wanted, list[Event]]:
    events: list[Event] = []
    try:
        _play(trial, "", None, RunSettings(seed=trial.seed), InMemoryStore(), events.append)
    except NextTry as next_try:
        return next_try.wanted, events
    raise SettingsError("Nothing of this is drawn.")  # a Trial always has a step with a prompt


class Tries:
    """The tries of one trial by one maker (`identity`), kept in the journal of the request in `folder`."""

    def __init__(self, trial: Trial, identity: str, settings: RunSettings, folder: Path) -> None:
        self.trial = trial
        self.settings = settings.model_copy(update={"seed": trial.seed})
        self.folder = folder
        self._identity = identity
        self._journal = _TrialJournal(folder, trial)

    def is_drawn(self, wanted: Wanted) -> bool:
        """Whether this draw is in the journal already."""
        return self._journal.drawn(wanted.key(self._identity)) is not None

    def follow(
        self,
        critic: CriticLike | None,
        given: Given | None,
        on_event: Callable[[Event], None],
    ) -> Trajectory:
        """Take in a `given` draw, judge it, and return the whole trajectory if that ends the trial.

        Raises NextTry with what is to be drawn before it can go on; the journal then holds everything so far.
        Raises JournalError, ChatError, Cancelled as the loop does, SettingsError for more than MAX_BATCH
        images.
        """
        self._journal.given = given and self._drawn(given)
        trajectory = _play(self.trial, self._identity, critic, self.settings, self._journal, on_event)
        return self._journal.whole(trajectory)

    def _drawn(self, given: Given) -> Drawn:
        key = given.wanted.key(self._identity)
        if given.error:
            fault = Fault(where="generator", message=given.error)
            return Drawn(key=key, error=fault, seconds=given.seconds)
        first, *more = given.images
        if len(more) >= MAX_BATCH:
            raise SettingsError(
                f"Step {given.wanted.step}, try {given.wanted.attempt + 1} has {len(given.images)} images; "
                f"the critic chooses of {MAX_BATCH} at most.",
                "Set the batch size accordingly.",
            )
        return Drawn(key=key, image=first, more=tuple(more), seconds=given.seconds)


class _TrialJournal(Journal):
    """The journal of the whole request, for a run of some of its steps."""

    def __init__(self, folder: Path, trial: Trial) -> None:
        super().__init__(folder)
        self._trial = trial
        self.given: Drawn | None = None
        self._failed: dict[JudgeKey, Judged] = {}
        """Judgements that failed since these tries began. Every further try replays the records: a critic
        that was asked again in the middle could answer, and another draw would be wanted under the number
        of one that was made."""
        self._failed_draws: dict[DrawKey, Drawn] = {}
        """Draws that failed since these tries began; they are not wanted again before the next run."""

    def whole(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory of the request, of which `trajectory` are some steps."""
        trial = self._trial
        update = {
            "request": trial.request,
            "plan": trial.plan,
            "results": (*trial.earlier, *trajectory.results),
        }
        return trajectory.model_copy(update=update)

    def begin(self, request: Request, settings: RunSettings, identities: Identities) -> None:
        super().begin(self._trial.request, settings, identities)
        try:
            if self.given is not None:
                self.keep_drawn(self.given)
        except BaseException:
            self.end()
            raise

    def drawn(self, key: DrawKey) -> Drawn | None:
        return super().drawn(key) or self._failed_draws.get(key)

    def keep_drawn(self, drawn: Drawn) -> None:
        super().keep_drawn(drawn)
        if drawn.image is None:
            self._failed_draws[drawn.key] = drawn

    def judged(self, key: JudgeKey) -> Judged | None:
        return super().judged(key) or self._failed.get(key)

    def keep_judged(self, judged: Judged) -> None:
        super().keep_judged(judged)
        if judged.verdict is None:
            self._failed[judged.key] = judged

    def keep_plan(self, plan: Plan, key: PlanKey | None) -> None:
        # Called again for every try; the files are written once.
        if self.written_plan() != self._trial.plan:
            super().keep_plan(self._trial.plan, None)

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
        raise NextTry(Wanted(step=self.step, attempt=self.attempt, prompt=prompt, seed=seed, source=source))


def _play(
    trial: Trial,
    identity: str,
    critic: CriticLike | None,
    settings: RunSettings,
    store: RunStore,
    on_event: Callable[[Event], None],
) -> Trajectory:
    request = Request(text=trial.request.text, images=(trial.source,) if trial.source else ())
    outside = _Outside(identity)
    trajectory = None
    draws = Counter[int]()
    plan = trial.plan.model_copy(update={"steps": trial.steps})
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
