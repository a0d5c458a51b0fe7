"""Live view of one execution of the loop, and the states of the latest ones for browsers that connect later.

Messages are created from the loop's events only. The critic's tokens are collected and sent in few parts, at
growing intervals, so an attempt always takes under 20 kB, and its checklist under 16 kB more.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...errors import InterleaveError
from ...journal.waiting import Waiting
from ...loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
    StoryChecked,
)
from ...report.completeness import Lack, lacks
from ...types import Plan, RunSettings, StopReason, StoryCheck, Trajectory
from .clipped_text import LINE_BYTES, clip
from .messages import AnyShown, AttemptShown, LiveMessage, RunShown, WordsShown
from .progress import RunView
from .shown import (
    attempt_begun,
    attempt_done,
    attempt_drawn,
    check_shown,
    step_done,
    step_shown,
    waiting_shown,
)
from .streamed_text import StreamedText

MAX_RUNS = 64

Send = Callable[[LiveMessage], None]
Place = tuple[int, int]  # numbers of a step and of one of its attempts


def nowhere(message: LiveMessage) -> None:
    """Discard a message of a run without a browser."""


@dataclass(frozen=True)
class LiveTarget:
    """Where a run is shown.

    Attributes:
        node: Id of the node in the browser.
        workflow: Id of the workflow in the browser.
        send: Receives the messages.
        prompt: Id of the host's prompt. If it no longer runs, the run has ended, even without an event.
    """

    node: str = ""
    workflow: str | None = None
    send: Send = nowhere
    prompt: str = ""


class LiveRun:
    """Follows one execution and sends changes; `state` is the newest message of every key.

    Unfinished attempts are kept by step and attempt, since several may be in progress.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        settings: RunSettings,
        judged: bool,
        target: LiveTarget = LiveTarget(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run, self.node, self.workflow = run, target.node, target.workflow
        self.view = RunView(plan, settings, judged)
        self._id = secrets.token_hex(4)
        self._settings, self._send, self._clock = settings, target.send, clock
        self._steps = [step.number for step in plan.steps]
        self.prompt = target.prompt
        self.status = "running"
        self._seq = 0
        self._state: dict[str, LiveMessage] = {}
        self._lock = threading.Lock()
        self._attempts: dict[Place, AttemptShown] = {}
        self._words: dict[Place, StreamedText] = {}
        self._last_prompts: dict[int, str] = {}
        self._check: StoryCheck | None = None

    def follow(self, event: Event) -> None:
        """Process one event of the loop and send the changes."""
        self.view.follow(event)
        if isinstance(event, PlanReady):
            for step in event.plan.steps:
                self._show(step_shown(step))
        elif isinstance(event, AttemptStarted):
            self._begin(event)
        elif isinstance(event, AttemptDrawn):
            if (place := (event.step.number, event.attempt)) in self._attempts:
                drawn = attempt_drawn(self._attempts[place], event.record, event.reused, event.of)
                self._attempts[place] = drawn
                self._show(drawn)
        elif isinstance(event, AttemptJudged):
            self._settle(event)
        elif isinstance(event, StepFinished):
            self._finish_step(event)
        elif isinstance(event, StoryChecked):
            self._check = event.check
        if isinstance(event, (StoryChecked, Finished)):
            self._show_check()
        if isinstance(event, Finished):
            missing = lacks(event.trajectory)
            ended = "incomplete" if missing or event.waiting else "finished"
            status = "cancelled" if was_cancelled(event.trajectory) else ended
            self._send_run(status, missing, event.waiting)
        else:
            self._send_run("running")

    def check(self) -> None:
        """Note that all images of the story are being checked together."""
        self.view.check()
        self._send_run("running")

    def hear(self, text: str) -> None:
        """Process a part of the critic's text on the current attempt."""
        # Candidates are judged in their order.
        place = next((place for place, one in self._attempts.items() if one.status != "done"), None)
        if place is None:
            return
        words = self._words.setdefault(place, StreamedText())
        due = words.add(text, self._clock())
        if due:
            step, attempt = place
            shown = WordsShown(step=step, attempt=attempt, at=words.sent - len(due), text=due)
            self._show(shown, whole=words.sent_text)

    def fail(self, error: BaseException) -> None:
        """End the run with an error. Errors from outside the pack are shown with their class."""
        ours = isinstance(error, InterleaveError)
        self.view.line = clip(str(error) if ours else f"{type(error).__name__}: {error}", LINE_BYTES)
        self._send_run("failed")

    def stop(self) -> None:
        """End the run without an event, because other nodes failed or were interrupted.

        Browsers that followed it know this from the host; others find it in the state.
        """
        self.view.stop()
        self._send = nowhere
        self._send_run("cancelled")

    def state(self) -> list[LiveMessage]:
        """Return the newest message of every key, in the order of arrival."""
        with self._lock:
            return sorted(self._state.values(), key=lambda message: message.seq)

    def _begin(self, event: AttemptStarted) -> None:
        step = event.step.number
        before = event.prompt if event.attempt == 0 else self._last_prompts.get(step, event.prompt)
        self._last_prompts[step] = event.prompt
        begun = attempt_begun(event, before)
        if event.attempt == 0:
            self._forget(step)
            self._forget_shown(step)
            self._show(step_shown(event.step).model_copy(update={"status": "running"}))
        self._attempts[step, event.attempt] = begun
        self._show(begun)

    def _settle(self, event: AttemptJudged) -> None:
        if (place := (event.step.number, event.attempt)) not in self._attempts:
            return
        done = attempt_done(self._attempts[place], event.record, self._settings)
        self._attempts[place] = done
        self._words.pop(place, None)
        with self._lock:  # the verdict contains the reasoning, so the raw text is no longer needed
            self._state.pop(f"words {done.step} {done.attempt}", None)
        self._show(done)

    def _finish_step(self, event: StepFinished) -> None:
        attempts, step = event.result.attempts, event.result.step.number
        for (of_step, number), shown in self._attempts.items():
            if of_step == step and shown.status != "done" and number < len(attempts):
                self._show(attempt_done(shown, attempts[number], self._settings))
        self._forget(step)
        self._show(step_done(event.result))

    def _forget(self, step: int) -> None:
        """Remove the unfinished attempts of a step."""
        self._attempts = {place: one for place, one in self._attempts.items() if place[0] != step}
        self._words = {place: one for place, one in self._words.items() if place[0] != step}

    def _forget_shown(self, step: int) -> None:
        """Remove the attempts of a step that is generated again. The browser does so by itself."""
        with self._lock:
            for key, message in list(self._state.items()):
                if isinstance(message.shown, (AttemptShown, WordsShown)) and message.shown.step == step:
                    del self._state[key]

    def _show_check(self) -> None:
        """Show the newest story check. At the end, without findings about images that were replaced."""
        if self._check is None:
            return
        attempts = [one.shown for one in self.state() if isinstance(one.shown, AttemptShown)]
        shown = check_shown(self._check, attempts)
        if shown is not None:
            self._show(shown)

    def _send_run(
        self, status: str, missing: Mapping[Lack, list[int]] | None = None, waiting: Waiting | None = None
    ) -> None:
        self.status = status
        self._show(
            RunShown.model_validate(
                {
                    "run": self.run,
                    "steps": self._steps,
                    "tries": self.view.max_attempts,
                    "status": status,
                    "share": round(1.0 if status == "finished" else self.view.share, 4),
                    "line": clip(self.view.line, LINE_BYTES),
                    "missing": missing or {},
                    "prompt": self.prompt,
                    "waiting": waiting_shown(waiting),
                }
            )
        )

    def _show(self, shown: AnyShown, whole: str | None = None) -> None:
        with self._lock:
            self._seq += 1
            message = LiveMessage(
                id=self._id, seq=self._seq, node=self.node, workflow=self.workflow, shown=shown
            )
            newest = shown if whole is None else shown.model_copy(update={"at": 0, "text": whole})
            self._state[shown.key] = message.model_copy(update={"shown": newest})
        self._send(message)


class LiveRuns:
    """Keeps the latest run of every node for browsers that connect later; the oldest are dropped."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str | None], LiveRun] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, run: LiveRun) -> None:
        """Keep a run as the newest of its node."""
        with self._lock:
            key = run.node, run.workflow
            self._runs.pop(key, None)
            self._runs[key] = run
            while len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)

    def find(self, node: str, workflow: str | None) -> LiveRun | None:
        """Return the newest run of a node of a workflow, `None` if there is none."""
        with self._lock:
            return self._runs.get((node, workflow))


LIVE_RUNS = LiveRuns()


def was_cancelled(trajectory: Trajectory) -> bool:
    """Return whether the user cancelled the run."""
    return bool(trajectory.results) and trajectory.results[-1].stop_reason is StopReason.cancelled
