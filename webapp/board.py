"""The story that is being generated: one at a time, in a thread.

Everything about a story is in its run folder, so nothing is lost if the server ends, however it ends: the
same request, or *Run again*, continues it. `webapp.json` in the folder names its models.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..backend.core.errors import Cancelled, InterleaveError, SettingsError
from ..backend.core.types import Plan, Request, RunSettings
from ..backend.core.types.roles import PartStore
from ..backend.output.live.browser_requests import known_run, run_folder, state_of
from ..backend.output.live.interruptible import InterruptibleGenerator, ListenedCritic
from ..backend.output.live.live_run import LiveRun, LiveTarget
from ..backend.pipeline.prepared import PreparedRun, read_request
from ..backend.story.agents.asking import OnToken
from ..backend.story.agents.plan_constraints import PlanConstraints
from ..backend.story.agents.planner import Planner
from ..backend.story.journal.journal import Journal
from ..backend.story.journal.run_files import RunFiles
from ..backend.story.loop.collaborators import Collaborators
from ..backend.story.loop.events import PlanReady
from ..backend.story.loop.policy import max_attempts_in
from .models import Chosen, Models, OpenedModels
from .requests import FORM, AskAgain, AskBoard, AskCancel, AskStory, BoardShown, Refused

MODELS = "webapp.json"


@dataclass(frozen=True)
class Job:
    """A story to generate."""

    folder: Path
    request: Request
    settings: RunSettings
    models: Chosen


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
    """

    def __init__(self, runs: Path, models: Models, settings: RunSettings) -> None:
        self.runs, self.models, self.settings = runs, models, settings
        self._id = secrets.token_hex(4)
        self._changes = 0
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self.closing = False
        """Whether the app ends: no request waits for news any more."""
        self._thread: threading.Thread | None = None
        self._run, self._line, self._error = "", "", ""
        self._live: LiveRun | None = None

    @property
    def busy(self) -> bool:
        """Whether a story is being generated."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def edition(self) -> str:
        """A text that changes with everything that is shown."""
        return self._edition(self.busy)

    def shown(self, asked: AskBoard) -> BoardShown:
        """Return the story with the messages that the page lacks."""
        with self._lock:  # so that no other story begins meanwhile
            # Read first: messages from before the end of a story must not be shown as its end.
            busy = self.busy
            edition, live = self._edition(busy), self._live
            run, line, error = self._run, self._line, self._error
        state = None
        if live is not None:
            messages = live.state()
            known = asked.after if messages and messages[0].id == asked.id else -1
            state = state_of(self.runs / live.run, [one for one in messages if one.seq > known])
        return BoardShown(edition=edition, run=run, busy=busy, line=line, error=error, state=state)

    def start(self, asked: AskStory) -> BoardShown:
        """Start a story. A request whose story exists continues it.

        Raises:
            Refused: Another story is being generated.
            SettingsError: The request or a model cannot be used.
            JournalError: The folder of the story cannot be used.
        """
        request = read_request(asked.request)
        self.models.check(asked.models, request.text)
        settings = RunSettings.model_validate(
            self.settings.model_dump() | asked.model_dump(include=set(FORM))
        )
        folder = run_folder(self.runs, request, settings.seed)
        Journal(folder).check(request)
        return self._begin(Job(folder, request, settings, asked.models))

    def resume(self, asked: AskAgain) -> BoardShown:
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
        request, settings = journal.request(), journal.record().settings
        self.models.check(chosen, request.text)
        if asked.pause is not None:
            settings = settings.model_copy(update={"pause": asked.pause})
        return self._begin(Job(folder, request, settings, chosen))

    def cancel(self, asked: AskCancel) -> BoardShown:
        """Stop the story of this name, if it is being generated. Finished images stay."""
        if asked.run == self._run:
            self._cancelled.set()
        return self.shown(AskBoard())

    def close(self, seconds: float = 0.0) -> None:
        """Stop the story, and wait up to `seconds` for its end. No other one starts."""
        self.closing = True
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _edition(self, busy: bool) -> str:
        return f"{self._id}-{self._changes}{'' if busy else '-ended'}"

    def _begin(self, job: Job) -> BoardShown:
        with self._lock:
            if self.closing:
                raise Refused(409, "The app ends.", "Start it again.")
            if self.busy:
                raise Refused(
                    409, "Another story is being generated.", "Cancel it, or wait until it is finished."
                )
            self._cancelled.clear()
            self._run, self._error, self._live = job.folder.name, "", None
            self._say("Loading the models")
            self._thread = threading.Thread(target=self._carry_out, args=(job,), daemon=True)
            self._thread.start()
        return self.shown(AskBoard())

    def _carry_out(self, job: Job) -> None:
        try:
            self._follow(job, self.models.open(job.models))
        except Cancelled:
            self._say("Cancelled")
        except InterleaveError as error:
            self._fail(error, str(error))
        except BaseException as error:  # raised again: the details belong into the log
            self._fail(error, f"{type(error).__name__}: {error}"[:1000])
            raise

    def _follow(self, job: Job, opened: OpenedModels) -> None:
        prepared = PreparedRun(job.request, job.folder, job.settings, PlanConstraints())
        generator = opened.generator() if prepared.needs_generator else None
        planner = opened.planner(self._plans) if prepared.needs_planner else None
        critic = opened.critic() if prepared.needs_critic else None
        self._stop()
        self._say("Planning")
        collaborators = Collaborators(
            None if planner is None else InterruptiblePlanner.around(planner, self._stop),
            None if generator is None else InterruptibleGenerator(generator, self._stop),
            None if critic is None else ListenedCritic(critic, self._hear, self._stop),
        )
        for event in prepared.events(collaborators):
            if isinstance(event, PlanReady):
                RunFiles(job.folder).write_model(job.models, MODELS)
                judged = critic is not None and max_attempts_in(event.plan, job.settings) > 1
                target = LiveTarget(send=lambda message: self._changed())
                self._live = LiveRun(job.folder.name, event.plan, job.settings, judged, target)
            if self._live is not None:
                self._live.follow(event)

    def _plans(self, part: str) -> None:
        self._say(f"Planning: {part}")

    def _hear(self, text: str) -> None:
        if self._live is not None:
            self._live.hear(text)

    def _stop(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled("Cancelled in the web app.")

    def _say(self, line: str) -> None:
        self._line = line
        self._changed()

    def _fail(self, error: BaseException, shown: str) -> None:
        self._line, self._error = "", shown
        if self._live is not None and self._live.status == "running":
            self._live.fail(error)
        self._changed()

    def _changed(self) -> None:
        self._changes += 1
