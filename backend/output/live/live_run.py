"""Live view of one execution of the loop, and the states of the latest ones for browsers that connect later.

Messages are created from the loop's events only. The critic's tokens are collected and sent in few parts, at
growing intervals, so an attempt always takes under 20 kB, and its checklist under 16 kB more.

Every line is created from the loop's events with the texts of the exports, so the node shows exactly what was
recorded, including how each step ended. The host sends the state of the whole graph with every move of the
bar, so each step has a limited number of moves and preview bytes.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...core.errors import InterleaveError
from ...core.types import Attempt, Plan, RunSettings, Spent, StopReason, StoryCheck, Trajectory
from ...story.journal.waiting import Waiting
from ...story.loop.events import (
    AttemptDrawn,
    AttemptJudged,
    AttemptStarted,
    Event,
    Finished,
    PlanReady,
    StepFinished,
    StoryChecked,
)
from ...story.loop.policy import max_attempts_in, max_attempts_of
from ...story.outcomes import Lack, counted, lacks, stop_sentence, summarize, times_of
from ..report.export_options import check_line
from ..report.run_report import attempt_words
from .live_messages import (
    LINE_BYTES,
    AnyShown,
    AttemptShown,
    LiveMessage,
    RunShown,
    StreamedText,
    WordsShown,
    attempt_begun,
    attempt_done,
    attempt_drawn,
    check_shown,
    clip,
    step_done,
    step_shown,
    waiting_shown,
)

MOVES_PER_STEP = 24
PREVIEW_BYTES_PER_STEP = 250_000


class RunView:
    """Follows the events of one run and keeps its progress (0..1) and a line of text."""

    def __init__(self, plan: Plan, settings: RunSettings, judged: bool) -> None:
        self._drawn = [step.number for step in plan.steps if step.prompt]
        self._settings = settings
        self._judged = judged
        self._draws = max_attempts_in(plan, settings) if judged else 1
        self._batch = 1
        self.share = 0.0
        self.line = ""

    def follow(self, event: Event) -> None:
        """Process one event of the loop."""
        if isinstance(event, PlanReady):
            self.line = counted(len(event.plan.steps), "step")
        elif isinstance(event, (AttemptStarted, AttemptDrawn, AttemptJudged)):
            self._follow_attempt(event)
        elif isinstance(event, StepFinished):
            self.share = self._position(event.result.step.number, self.max_attempts)
            self.line = f"Step {event.result.step.number}: {stop_sentence(event.result)}"
        elif isinstance(event, StoryChecked):
            self.line = check_line(event.check)
        elif isinstance(event, Finished):
            self.line = summarize(event.trajectory).sentence

    def _follow_attempt(self, event: AttemptStarted | AttemptDrawn | AttemptJudged) -> None:
        number, step = event.attempt + 1, event.step
        if isinstance(event, AttemptStarted):
            self.share, what = self._position(step.number, event.attempt), "generating"
        elif isinstance(event, AttemptDrawn) and event.record.image is not None:
            what = "reused" if event.reused else "judging"
        else:
            what = attempt_words(event.record, self._settings)
        if isinstance(event, AttemptDrawn):
            self._batch = max(self._batch, event.of)
        each = max_attempts_of(step, self._settings) if self._judged else self._draws
        # Redraws by the user do not count against the maximum number of attempts.
        self.line = f"Step {step.number}, attempt {number} of {max(each * self._batch, number)}: {what}"

    def check(self) -> None:
        """Note that all images of the story are being checked together."""
        self.line = "Story check: all images together"

    def stop(self) -> None:
        """Note that the run ended during an attempt."""
        self.line = f"{self.line.partition(': ')[0]}: stopped"

    @property
    def max_attempts(self) -> int:
        """Maximum number of images of a step, batches included."""
        return self._draws * self._batch

    def within_attempt(self, share: float) -> float:
        """Return the progress of the run (0..1) when the current image is at `share` (0..1)."""
        return min(1.0, self.share + share / self._all_attempts)

    @property
    def _all_attempts(self) -> int:
        return max(1, len(self._drawn) * self.max_attempts)

    def _position(self, number: int, max_attempts: int) -> float:
        steps_before = sum(one < number for one in self._drawn)
        within = min(max_attempts, self.max_attempts) if number in self._drawn else 0
        return (steps_before * self.max_attempts + within) / self._all_attempts


class Allowance:
    """Limits how often a step's bar moves while sampling, and the bytes of its previews."""

    def __init__(self, max_attempts: int) -> None:
        self._moves = max(1, MOVES_PER_STEP // max_attempts)
        self._last = 0
        self._bytes = PREVIEW_BYTES_PER_STEP

    def new_step(self) -> None:
        """Reset the preview bytes for a new step."""
        self._bytes = PREVIEW_BYTES_PER_STEP

    def new_attempt(self) -> None:
        """Reset the moves for a new attempt."""
        self._last = 0

    def may_move(self, share: float) -> bool:
        """Return whether the bar may move to this share (0..1) of the attempt, and count it."""
        move = int(share * self._moves)
        if move <= self._last:
            return False
        self._last = move
        return True

    def may_send(self, count: int) -> bool:
        """Return whether a preview of `count` bytes may be sent, and count it."""
        if count > self._bytes:
            return False
        self._bytes -= count
        return True


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
            if begun := self._shown(event.step.number, event.attempt):
                self._show(attempt_drawn(begun, event.record, event.reused, event.of))
        elif isinstance(event, AttemptJudged):
            self._settle(event.step.number, event.attempt, event.record)
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
            self._send_run(status, missing, event.waiting, times_of(event.trajectory))
        else:
            self._send_run("running")

    def check(self) -> None:
        """Note that all images of the story are being checked together."""
        self.view.check()
        self._send_run("running")

    def hear(self, text: str) -> None:
        """Process a part of the critic's text on the current attempt."""
        # Candidates are judged in their order.
        judged = next((one for one in self._attempts() if one.status != "done"), None)
        if judged is None:
            return
        step, attempt = judged.step, judged.attempt
        words = self._words.setdefault((step, attempt), StreamedText())
        due = words.add(text, self._clock())
        if due:
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

    def _attempts(self) -> list[AttemptShown]:
        with self._lock:
            shown = [message.shown for message in self._state.values()]
        return [one for one in shown if isinstance(one, AttemptShown)]

    def _shown(self, step: int, attempt: int) -> AttemptShown | None:
        return next((one for one in self._attempts() if (one.step, one.attempt) == (step, attempt)), None)

    def _begin(self, event: AttemptStarted) -> None:
        step = event.step.number
        before = event.prompt if event.attempt == 0 else self._last_prompts.get(step, event.prompt)
        self._last_prompts[step] = event.prompt
        if event.attempt == 0:
            # The step is generated again. The browser forgets its attempts by itself.
            self._forget(f"attempt {step} ", f"words {step} ")
            self._show(step_shown(event.step).model_copy(update={"status": "running"}))
        self._show(attempt_begun(event, before))

    def _settle(self, step: int, attempt: int, record: Attempt) -> None:
        """Show an attempt with its verdict. It contains the reasoning, so the streamed text is forgotten."""
        if drawn := self._shown(step, attempt):
            self._words.pop((step, attempt), None)
            self._forget(f"words {step} {attempt} ")
            self._show(attempt_done(drawn, record, self._settings))

    def _finish_step(self, event: StepFinished) -> None:
        attempts, step = event.result.attempts, event.result.step.number
        for one in self._attempts():
            if one.step == step and one.status != "done":
                if one.attempt < len(attempts):
                    self._show(attempt_done(one, attempts[one.attempt], self._settings))
                else:
                    self._forget(f"{one.key} ")
        self._words = {place: one for place, one in self._words.items() if place[0] != step}
        self._show(step_done(event.result))

    def _forget(self, *beginnings: str) -> None:
        """Remove the messages whose keys begin like this."""
        with self._lock:
            self._state = {
                key: one for key, one in self._state.items() if not f"{key} ".startswith(beginnings)
            }

    def _show_check(self) -> None:
        """Show the newest story check. At the end, without findings about images that were replaced."""
        shown = self._check and check_shown(self._check, self._attempts())
        if shown:
            self._show(shown)

    def _send_run(
        self,
        status: str,
        missing: Mapping[Lack, list[int]] | None = None,
        waiting: Waiting | None = None,
        times: Mapping[str, Spent] | None = None,
    ) -> None:
        self.status = status
        shown = {
            "run": self.run,
            "steps": self._steps,
            "tries": self.view.max_attempts,
            "status": status,
            "share": round(1.0 if status == "finished" else self.view.share, 4),
            "line": clip(self.view.line, LINE_BYTES),
            "missing": missing or {},
            "prompt": self.prompt,
            "waiting": waiting_shown(waiting),
            "times": times or {},
        }
        self._show(RunShown.model_validate(shown))

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


def replayed(run: str, trajectory: Trajectory, waiting: Waiting | None = None) -> LiveRun:
    """Return the live view of a run that has ended, and waits for the user if it paused."""
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
    if trajectory.checks:
        live.follow(StoryChecked(trajectory.checks[-1]))
    live.follow(Finished(trajectory, waiting))
    return live


def batches_of(attempts: Sequence[Attempt]) -> list[int]:
    """Return for every attempt the number of images generated together with it."""
    sizes: list[int] = []
    for attempt in attempts:
        if attempt.place == 0 or not sizes:
            sizes.append(0)
        sizes[-1] += 1
    return [size for size in sizes for _ in range(size)]
