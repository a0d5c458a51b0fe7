"""One execution of the loop as the browser follows it, and the states of the latest ones for who connects
later.

Decision: what is sent is made from the loop's events alone. The critic's tokens are gathered and sent in few
pieces, at growing intervals: an attempt takes under 20 kB whatever the agent writes.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...backend.errors import InterleaveError
from ...backend.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
)
from ...backend.report.completeness import Lack, lacks
from ...backend.types import Attempt, Plan, RunSettings, StopReason, Trajectory
from .messages import (
    LINE_BYTES,
    AttemptShown,
    LiveMessage,
    RunShown,
    StepShown,
    WordsShown,
    attempt_begun,
    attempt_done,
    attempt_drawn,
    clip,
    step_done,
    step_shown,
)
from .progress import RunView

WORDS_BYTES = 4500
WORDS_MESSAGES = 16
FIRST_PAUSE = 0.25
LONGER = 1.3
MAX_RUNS = 64

Send = Callable[[LiveMessage], None]
Place = tuple[int, int]  # numbers of a step and of one of its attempts


def nowhere(message: LiveMessage) -> None:
    """For a run that nobody follows."""


@dataclass(frozen=True)
class LiveTarget:
    """Where a run is shown: its node, the workflow in the browser, what takes the messages, and the id of the
    host's prompt: nodes of others that draw in it may fail and nobody says so here."""

    node: str = ""
    workflow: str | None = None
    send: Send = nowhere
    prompt: str = ""


class LiveRun:
    """Follows one execution and sends what changed; `state` is the newest message of every key.

    What is on its way is kept by step and attempt: several candidates, or steps, may be at once.
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
        self._words: dict[Place, _Words] = {}
        self._last_prompts: dict[int, str] = {}

    def follow(self, event: Event) -> None:
        """Take in one event of the loop and send what it changes."""
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
        if isinstance(event, Finished):
            missing = lacks(event.trajectory)
            ended = "incomplete" if missing else "finished"
            self._send_run("cancelled" if was_cancelled(event.trajectory) else ended, missing)
        else:
            self._send_run("running")

    def hear(self, text: str) -> None:
        """Take in a piece of the critic's text on the attempt at hand."""
        # Candidates are judged in their order.
        place = next((place for place, one in self._attempts.items() if one.status != "done"), None)
        if place is None:
            return
        words = self._words.setdefault(place, _Words())
        due = words.add(text, self._clock())
        if due:
            step, attempt = place
            shown = WordsShown(step=step, attempt=attempt, at=words.sent - len(due), text=due)
            self._show(shown, whole=words.sent_text)

    def fail(self, error: BaseException) -> None:
        """The run ended with an error; one that is not ours is named by its class too."""
        ours = isinstance(error, InterleaveError)
        self.view.line = clip(str(error) if ours else f"{type(error).__name__}: {error}", LINE_BYTES)
        self._send_run("failed")

    def stop(self) -> None:
        """The run ended without a word: the nodes that were to draw failed, or were interrupted.

        Browsers that followed it have heard that from the host; who asks later finds it in the state.
        """
        self.view.stop()
        self._send = nowhere
        self._send_run("cancelled")

    def state(self) -> list[LiveMessage]:
        """The newest message of every key, in the order in which they came."""
        with self._lock:
            return sorted(self._state.values(), key=lambda message: message.seq)

    def _begin(self, event: AttemptStarted) -> None:
        step = event.step.number
        before = event.prompt if event.attempt == 0 else self._last_prompts.get(step, event.prompt)
        self._last_prompts[step] = event.prompt
        begun = attempt_begun(event, before)
        if event.attempt == 0:
            self._forget(step)
            self._show(step_shown(event.step).model_copy(update={"status": "running"}))
        self._attempts[step, event.attempt] = begun
        self._show(begun)

    def _settle(self, event: AttemptJudged) -> None:
        if (place := (event.step.number, event.attempt)) not in self._attempts:
            return
        done = attempt_done(self._attempts[place], event.record, self._settings)
        self._attempts[place] = done
        self._words.pop(place, None)
        with self._lock:  # the verdict holds the reasoning; the raw text was only for the time until then
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
        """Nothing of this step is on its way."""
        self._attempts = {place: one for place, one in self._attempts.items() if place[0] != step}
        self._words = {place: one for place, one in self._words.items() if place[0] != step}

    def _send_run(self, status: str, missing: Mapping[Lack, list[int]] | None = None) -> None:
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
                }
            )
        )

    def _show(
        self, shown: RunShown | StepShown | AttemptShown | WordsShown, whole: str | None = None
    ) -> None:
        with self._lock:
            self._seq += 1
            message = LiveMessage(
                id=self._id, seq=self._seq, node=self.node, workflow=self.workflow, shown=shown
            )
            newest = shown if whole is None else shown.model_copy(update={"at": 0, "text": whole})
            self._state[shown.key] = message.model_copy(update={"shown": newest})
        self._send(message)


class _Words:
    """Gathers a critic's text and decides which part of it is sent when."""

    def __init__(self) -> None:
        self._all, self._messages, self._bytes = "", 0, 0
        self._next, self._pause = 0.0, FIRST_PAUSE
        self.sent = 0

    @property
    def sent_text(self) -> str:
        return self._all[: self.sent]

    def add(self, text: str, now: float) -> str:
        """What is to be sent now, often nothing."""
        self._all += text
        if now < self._next or self._messages >= WORDS_MESSAGES or self._bytes >= WORDS_BYTES:
            return ""
        fresh = self._all[self.sent :]
        due = clip(fresh, WORDS_BYTES - self._bytes)
        self.sent += len(fresh) if due == fresh else len(due)
        self._messages += 1
        self._bytes += WORDS_BYTES if due != fresh else len(json.dumps(due))
        self._next, self._pause = now + self._pause, self._pause * LONGER
        return due


class LiveRuns:
    """The latest runs of every node, for browsers that connect later; the oldest are dropped."""

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
        """The newest run of this node of this workflow."""
        with self._lock:
            return self._runs.get((node, workflow))


LIVE_RUNS = LiveRuns()


def replayed(run: str, trajectory: Trajectory) -> LiveRun:
    """A finished run as it would have been shown while it went on."""
    judged = any(attempt.verdict for result in trajectory.results for attempt in result.attempts)
    live = LiveRun(run, trajectory.plan, trajectory.settings, judged)
    live.follow(PlanReady(trajectory.plan))
    for result in trajectory.results:
        of = batches_of(result.attempts)
        for number, attempt in enumerate(result.attempts):
            begun = AttemptStarted(result.step, number, attempt.prompt, attempt.seed, attempt.redraw)
            live.follow(begun)
            live.follow(AttemptDrawn(result.step, number, attempt, of=of[number]))
            if attempt.verdict or (attempt.error and attempt.image):
                live.follow(AttemptJudged(result.step, number, attempt))
        live.follow(StepFinished(result))
    live.follow(Finished(trajectory))
    return live


def batches_of(attempts: Sequence[Attempt]) -> list[int]:
    """For every attempt the number of images that its draw gave."""
    sizes: list[int] = []
    for attempt in attempts:
        if attempt.place == 0 or not sizes:
            sizes.append(0)
        sizes[-1] += 1
    return [size for size in sizes for _ in range(size)]


def was_cancelled(trajectory: Trajectory) -> bool:
    """Whether the user stopped the run."""
    return bool(trajectory.results) and trajectory.results[-1].stop_reason is StopReason.cancelled
