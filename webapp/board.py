"""The story that is being generated: one at a time, in a thread.

Everything about a story is in its run folder, so nothing is lost if the server ends, however it ends: the
same request, or *Run again*, continues it. `webapp.json` in the folder names its models.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from ..backend.core.errors import Cancelled, InterleaveError, SettingsError
from ..backend.core.pictures import Picture
from ..backend.core.types import Plan, Request, RunSettings
from ..backend.core.types.roles import PartStore
from ..backend.output.live.browser_requests import delete_run, known_run, run_folder, state_of
from ..backend.output.live.interruptible import InterruptibleGenerator, ListenedCritic
from ..backend.output.live.live_run import LiveRun, LiveTarget
from ..backend.pipeline.prepared import PreparedRun, read_request
from ..backend.story.agents.asking import OnToken
from ..backend.story.agents.plan_constraints import PlanConstraints, constraints_in
from ..backend.story.agents.plan_lint import step_findings
from ..backend.story.agents.planner import Planner
from ..backend.story.journal.journal import FolderLock, Journal
from ..backend.story.journal.run_files import RUN, RunFiles
from ..backend.story.loop.collaborators import Collaborators
from ..backend.story.loop.events import AttemptDrawn, AttemptStarted, Event, PlanReady, StepFinished
from ..backend.story.loop.policy import max_attempts_in
from ..backend.story.loop.replay import load_trajectory
from ..backend.story.plan_editor.edited_plan import PlanTextError
from ..backend.story.plan_editor.json_form import plan_object
from ..backend.story.plan_editor.merge import apply_edits, editable, read_edits
from . import requests
from .models import Chosen, Models, OpenedModels

MODELS = "webapp.json"
LOADING = "loading.json"
"""File in the folder of all runs: how long each model took to load."""
TURN_SECONDS = 0.2
STORIES_KEPT = 3
"""Stories of a visitor that are kept."""
FILE_SETTINGS = ("mask", "reference", "lora")
"""Settings of a step that name files, which no page may do."""

Loaded = TypeVar("Loaded")
Settings = TypeVar("Settings", RunSettings, PlanConstraints)


class LoadingSeconds(BaseModel):
    """Seconds that each model took to load, by its role and name."""

    seconds: dict[str, float] = {}


@dataclass(frozen=True)
class Job:
    """A story to generate."""

    folder: Path
    request: Request
    settings: RunSettings
    constraints: PlanConstraints
    models: Chosen


class Turns:
    """The stories of all boards, of which the first is generated and `most` others wait."""

    def __init__(self, most: int = 0) -> None:
        self._most = most
        self._line: list[Board] = []
        self._lock = threading.Lock()

    def join(self, board: Board) -> None:
        """Let the story of a board wait for its turn.

        Raises:
            Refused: Too many stories wait, two of them from the same address.
        """
        with self._lock:
            same = sum(bool(board.address) and one.address == board.address for one in self._line)
            if len(self._line) > self._most or same > 1:
                raise requests.Refused(503, "Too many stories are waiting.", "Try again in a few minutes.")
            self._line.append(board)

    def before(self, board: Board) -> int:
        """Return how many stories are generated before that of a board."""
        with self._lock:
            return self._line.index(board) if board in self._line else 0

    def leave(self, board: Board) -> None:
        """Let the next story have its turn."""
        with self._lock:
            self._line.remove(board)


@dataclass
class Progress:
    """How far a story is, to estimate when it ends."""

    stage: requests.Stage = ""
    begun: float = field(default_factory=time.monotonic)
    expected: float | None = None
    steps: int = 0
    done: int = 0
    fresh: bool = False
    step_ended: float = 0.0

    @property
    def past(self) -> float:
        """Seconds since the stage, or the first image, began."""
        return time.monotonic() - self.begun

    @property
    def left(self) -> float | None:
        """Estimated seconds until the stage, or the story, ends. `None` if unknown."""
        if self.stage:
            return self.expected and max(0.0, self.expected - self.past)
        if not self.done:
            return None
        each = (self.step_ended - self.begun) / self.done
        return max(0.0, each * (self.steps - self.done) - (time.monotonic() - self.step_ended))

    def follow(self, event: Event) -> None:
        """Count the steps that are not taken from the run folder."""
        if isinstance(event, AttemptStarted) and not self.done and not self.fresh:
            self.begun = time.monotonic()
        elif isinstance(event, AttemptDrawn) and not event.reused:
            self.fresh = True
        elif isinstance(event, StepFinished):
            self.step_ended = time.monotonic()
            self.done += self.fresh
            self.steps -= not self.fresh
            self.fresh = False


def _updated(settings: Settings, given: dict[str, Any]) -> Settings:
    """Return the settings with those of their fields that are given."""
    own = {name: value for name, value in given.items() if name in type(settings).model_fields}
    return type(settings).model_validate(settings.model_dump() | own)


class InterruptiblePlanner(Planner):
    """A planner that stops at the next token after cancel."""

    _stop: Callable[[], None]

    @classmethod
    def around(cls, planner: Planner, stop: Callable[[], None]) -> InterruptiblePlanner:
        """Return a copy of a planner. `stop` raises Cancelled if the user pressed cancel."""
        other = cls.__new__(cls)
        vars(other).update(vars(planner), _stop=stop)
        return other

    def plan(self, request: Request, on_token: OnToken | None = None, store: PartStore | None = None) -> Plan:
        """Return a plan as `Planner.plan` does.

        Raises:
            Cancelled: The user pressed cancel.
        """
        self._stop()
        return super().plan(request, lambda text: self._stop(), store)


class Board:
    """Generates one story at a time, and keeps what the page shows of it.

    Args:
        runs: The folder of all runs. It is created with the first one.
        models: The models that the page offers.
        settings: Settings of every story that the page does not set.
        constraints: Constraints on every plan that the page does not set.
        public: Limits of a visitor's stories. They apply if it is `public`.
        visit: The stories of all visitors, and the address of this one.
    """

    def __init__(
        self,
        runs: Path,
        models: Models,
        settings: RunSettings = RunSettings(),  # noqa: B008 - frozen
        constraints: PlanConstraints = PlanConstraints(),  # noqa: B008 - frozen
        public: requests.PublicSettings = requests.PublicSettings(),  # noqa: B008 - never changed
        visit: tuple[Turns, str] | None = None,
    ) -> None:
        self.runs, self.models, self.settings, self.constraints = runs, models, settings, constraints
        self.public = public
        self._turns, self.address = visit or (Turns(), "")
        self.seen = time.monotonic()
        """When it was last asked for."""
        self._id = secrets.token_hex(4)
        self._changes = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self.closing = False
        """Whether the app ends: no request waits for news any more."""
        self._thread: threading.Thread | None = None
        self._run, self._error = "", ""
        self._progress, self._until = Progress(), float("inf")
        self._live: LiveRun | None = None

    @property
    def busy(self) -> bool:
        """Whether a story is being generated."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def edition(self) -> str:
        """A text that changes with everything that is shown."""
        return self._edition(self.busy)

    def shown(self, asked: requests.AskBoard) -> requests.BoardShown:
        """Return the story with the messages that the page lacks."""
        with self._lock:  # so that no other story begins meanwhile
            # Read first: messages from before the end of a story must not be shown as its end.
            busy = self.busy
            edition, live = self._edition(busy), self._live
            run, progress, error = self._run, self._progress, self._error
        state = None
        if live is not None:
            messages = live.state()
            known = asked.after if messages and messages[0].id == asked.id else -1
            state = state_of(self.runs / live.run, [one for one in messages if one.seq > known])
        return requests.BoardShown(
            edition=edition,
            run=run,
            busy=busy,
            stage=progress.stage,
            before=self._turns.before(self),
            past=round(progress.past, 1),
            left=progress.left,
            error=error,
            state=state,
        )

    def start(self, asked: requests.AskStory) -> requests.BoardShown:
        """Start a story. A request whose story exists continues it.

        Raises:
            Refused: Another story is being generated.
            SettingsError: The request or a model cannot be used.
            JournalError: The folder of the story cannot be used.
        """
        given = asked.model_dump(include=set(requests.FORM))
        if self.public.public:
            self.public.check(request=asked.request, size=asked.models.size, **given)
        pictures = [
            Picture.from_base64(one, f"Image {number}", requests.MAX_IMAGE_PIXELS)
            for number, one in enumerate(asked.images, 1)
        ]
        request = read_request(asked.request, pictures)
        self.models.check(asked.models, request.text)
        settings, constraints = _updated(self.settings, given), _updated(self.constraints, given)
        if self.public.public:
            most = self.public.steps * self.public.attempts
            settings = settings.model_copy(update={"max_draws": most})
            self._forget_old()
        folder = run_folder(self.runs, request, settings.seed)
        Journal(folder).check(request)
        return self._begin(Job(folder, request, settings, constraints, asked.models))

    def resume(self, asked: requests.AskAgain) -> requests.BoardShown:
        """Continue a story with its own models.

        Raises:
            Refused: Another story is being generated.
            SettingsError: The run was not found, was not started in the web app, or its models are not
                offered now.
            JournalError: It cannot be read.
        """
        folder = known_run(self.runs, asked.run)
        chosen = RunFiles(folder).read_model(Chosen, MODELS, hint="Delete it.")
        if chosen is None:
            raise SettingsError(
                f"The run {asked.run!r} was not started in the web app, so its models are not known.",
                "Continue it with the command that started it.",
            )
        journal = Journal(folder)
        request, record = journal.request(), journal.record()
        settings, constraints = record.settings, constraints_in(record.identities.planner)
        self.models.check(chosen, request.text)
        if asked.pause is not None:
            settings = settings.model_copy(update={"pause": asked.pause})
        return self._begin(Job(folder, request, settings, constraints, chosen))

    def cancel(self, asked: requests.AskCancel) -> requests.BoardShown:
        """Stop the story of this name, if it is being generated. Finished images stay."""
        if asked.run == self._run:
            self.interrupt()
        return self.shown(requests.AskBoard())

    def interrupt(self) -> None:
        """Stop the story that is being generated. Finished images stay."""
        self._cancelled.set()

    def plan(self, asked: requests.AskPlan) -> requests.PlanShown:
        """Return the plan of a story. Raises SettingsError and JournalError if it cannot be read."""
        trajectory = load_trajectory(known_run(self.runs, asked.run))
        plan = trajectory.plan
        return requests.PlanShown(
            plan=plan_object(editable(plan)) | ({"style": plan.style} if plan.style else {}),
            findings=[one.model_dump() for one in step_findings(plan, trajectory.request.text)],
            pause=trajectory.settings.pause,
        )

    def edit(self, asked: requests.AskEdit) -> requests.PlanShown:
        """Let the rest of a story follow another plan, and return it.

        Raises:
            Refused: The plan is above a limit.
            SettingsError: The run was not found, or the text is not a valid plan, or names files.
            JournalError: The story is being generated, or cannot be read or written.
        """
        folder = known_run(self.runs, asked.run)
        before = load_trajectory(folder).plan
        plan = apply_edits(read_edits(asked.text), before).plan
        self._check_edited(plan, before)
        lock = FolderLock(folder)
        lock.take()
        try:
            Journal(folder).keep_plan(plan, None)
        finally:
            lock.release()
        return self.plan(asked)

    def _check_edited(self, plan: Plan, before: Plan) -> None:
        """Check that an edited plan names no file, and is within the limits of a visitor."""
        for step in plan.steps:
            named = [name for name in FILE_SETTINGS if getattr(step.settings, name) is not None]
            if named:
                raise PlanTextError(f"Step {step.number} names a file ({named[0]}), which the page cannot.")
            if self.public.public:
                size, tries = step.settings.size, step.settings.tries or 0
                self.public.check(step_count=len(plan.steps), size=size, max_attempts=tries)
        if plan.cast != before.cast:
            raise PlanTextError("The page cannot change the cast.")

    def _forget_old(self) -> None:
        """Delete the oldest stories of a visitor."""
        records = sorted(self.runs.glob(f"*/{RUN}"), key=lambda path: path.stat().st_mtime)
        for record in records[: 1 - STORIES_KEPT]:
            if not (self.busy and record.parent.name == self._run):
                delete_run(record.parent)

    def close(self, seconds: float = 0.0) -> None:
        """Stop the story, and wait up to `seconds` for its end. No other one starts."""
        self.closing = True
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _edition(self, busy: bool) -> str:
        return f"{self._id}-{self._changes}{'' if busy else '-ended'}"

    def _begin(self, job: Job) -> requests.BoardShown:
        with self._lock:
            if self.closing:
                raise requests.Refused(409, "The app ends.", "Start it again.")
            if self.busy:
                raise requests.Refused(
                    409, "Another story is being generated.", "Cancel it, or wait until it is finished."
                )
            self._turns.join(self)
            self._cancelled.clear()
            self._until = float("inf")
            self._run, self._error, self._live = job.folder.name, "", None
            self._say("waiting")
            self._thread = threading.Thread(target=self._carry_out, args=(job,), daemon=True)
            self._thread.start()
        return self.shown(requests.AskBoard())

    def _carry_out(self, job: Job) -> None:
        try:
            while before := self._turns.before(self):
                self._stop()
                time.sleep(TURN_SECONDS)
                if before != self._turns.before(self):
                    self._changed()
            self._follow(job, self.models.open(job.models))
        except Cancelled:
            self._say("cancelled")
        except InterleaveError as error:
            self._fail(error, str(error))
        except BaseException as error:  # raised again: the details belong into the log
            self._fail(error, f"{type(error).__name__}: {error}"[:1000])
            raise
        finally:
            if time.monotonic() > self._until:
                self._error = f"The story took longer than {self.public.seconds:g} seconds, the limit here."
            self._turns.leave(self)

    def _follow(self, job: Job, opened: OpenedModels) -> None:
        prepared = PreparedRun(job.request, job.folder, job.settings, job.constraints)
        chosen = job.models
        planner, critic, generator = None, None, None
        if prepared.needs_planner:
            planner = self._load("planner", chosen.planner, lambda: opened.planner(lambda part: self._stop()))
        if prepared.needs_critic:
            critic = self._load("critic", chosen.critic, opened.critic)
        if prepared.needs_generator:
            generator = self._load("generator", chosen.generator, opened.generator)
        if self.public.public:
            self._until = time.monotonic() + self.public.seconds
        self._say("planning")
        collaborators = Collaborators(
            None if planner is None else InterruptiblePlanner.around(planner, self._stop),
            None if generator is None else InterruptibleGenerator(generator, self._stop),
            None if critic is None else ListenedCritic(critic, self._hear, self._stop),
        )
        for event in prepared.events(collaborators):
            self._progress.follow(event)
            if isinstance(event, PlanReady):
                self._progress = Progress(steps=len(event.plan.steps))
                RunFiles(job.folder).write_model(job.models, MODELS)
                judged = critic is not None and max_attempts_in(event.plan, job.settings) > 1
                target = LiveTarget(send=lambda message: self._changed())
                self._live = LiveRun(job.folder.name, event.plan, job.settings, judged, target)
            if self._live is not None:
                self._live.follow(event)

    def _load(self, role: requests.Stage, name: str, load: Callable[[], Loaded]) -> Loaded:
        """Return a model, and remember how long it took to load."""
        files = RunFiles(self.runs)
        known = files.read_model(LoadingSeconds, LOADING, hint="Delete it.") or LoadingSeconds()
        self._stop()
        self._say(role, known.seconds.get(f"{role} {name}"))
        found = load()
        if self._progress.past > 1.0:  # otherwise the last story had loaded it
            seconds = known.seconds | {f"{role} {name}": round(self._progress.past, 1)}
            files.write_model(LoadingSeconds(seconds=seconds), LOADING)
        self._stop()
        return found

    def _hear(self, text: str) -> None:
        if self._live is not None:
            self._live.hear(text)

    def _stop(self) -> None:
        if self._cancelled.is_set() or time.monotonic() > self._until:
            raise Cancelled("Cancelled in the web app.")

    def _say(self, stage: requests.Stage, expected: float | None = None) -> None:
        self._progress = Progress(stage, expected=expected)
        self._changed()

    def _fail(self, error: BaseException, shown: str) -> None:
        self._error = shown
        if self._live is not None and self._live.status == "running":
            self._live.fail(error)
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
