"""The loop inside a node, and its live view: journal, progress bar and previews around `story.loop.run`.

The loop only yields events. They are passed to the progress bar and the browser here, and the host's cancel
button reaches the loop through the generator and the critic. The routes serve only runs directly in
output/interleave-thinker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ...backend.core.seams.chat_model import ChatModel
from ...backend.core.seams.generator import Generator
from ...backend.core.types import RunSettings
from ...backend.output.live import browser_requests as requests
from ...backend.output.live.live_messages import EVENT, LiveMessage, RunShown, State
from ...backend.output.live.live_run import LIVE_RUNS, Allowance, LiveRun, LiveTarget
from ...backend.story.loop.collaborators import Collaborators, PlannedBefore
from ...backend.story.loop.events import AttemptDrawn, AttemptStarted, Event, Finished, StepFinished
from ...backend.story.loop.loop import run
from ...backend.story.loop.policy import max_attempts_in
from .. import host
from ..agents.managed_chat import critic_with, interruptible, offload_others, review_with
from ..inputs.run_folder import PARENT
from ..inputs.sockets import PlannedRequest

PREVIEW_PIXELS = 256


def carry_out(
    plan: PlannedRequest,
    generator: Generator | None,
    chat: ChatModel | None,
    settings: RunSettings,
    folder: Path,
    workflow: str | None = None,
    check_story: int = 0,
    replies: Mapping[str, Any] | None = None,
) -> Finished:
    """Run the loop with its journal in `folder`, show it on the node, and return how it ended.

    `check_story`: maximum number of images that are generated again because they do not fit the story.
    `replies`: reply settings of the critic that replace those of its agent.

    Raises:
        Cancelled: The user pressed cancel.
        JournalError: The journal cannot be read or written.
        SettingsError: A setting cannot be used.
    """
    from ...backend.story.journal.journal import Journal

    progress = host.NodeProgress()
    max_attempts = max_attempts_in(plan.plan, settings)
    judged = chat is not None and max_attempts > 1
    live = LiveRun(folder.name, plan.plan, settings, judged, target_at(progress.node, workflow))
    reviewer = review_with(chat, check_story, live.check) if chat is not None and check_story else None
    offload_others(chat)
    LIVE_RUNS.begin(live)
    critic = None if chat is None else critic_with(chat, live.hear, replies)
    bar = _Bar(progress, live, max_attempts if judged else 1)
    ended = None
    try:
        with host.listening_to_steps(bar.sampling):
            drawer = interruptible(generator) if generator is not None else None
            planner = PlannedBefore(plan.planner, plan.prompt_set) if plan.planner else None
            events = run(
                plan.request,
                Collaborators(planner, drawer, critic, reviewer=reviewer),
                settings,
                Journal(folder),
                plan.plan,
            )
            for event in events:
                live.follow(event)
                bar.follow(event)
                if isinstance(event, Finished):
                    ended = event
    except BaseException as error:
        if ended is None:
            live.fail(error)
        raise
    assert ended is not None  # Finished is the last event of every stream
    return ended


def target_at(node: str, workflow: str | None) -> LiveTarget:
    """Return the live view of the node with this display id, for the running prompt."""

    def send(message: LiveMessage) -> None:
        host.publish(EVENT, message.model_dump(mode="json"))
        if isinstance(message.shown, RunShown) and message.shown.status != "running":
            publish_change(message.shown.run)

    return LiveTarget(node, workflow, send, prompt=host.running_prompt())


def publish_change(run: str) -> None:
    """Tell all browsers that a run has ended, or that the user decided about it."""
    host.publish(f"{EVENT}-changed", {"run": run}, to_all=True)


class _Bar:
    """Drives the host's progress bar over all attempts, and its previews, within the limits of a step."""

    def __init__(self, progress: host.NodeProgress, live: LiveRun, max_attempts: int) -> None:
        self._progress, self._live = progress, live
        self._allowance = Allowance(max_attempts)

    def follow(self, event: Event) -> None:
        if isinstance(event, AttemptStarted):
            self._allowance.new_attempt()
            self._show(self._live.view.share)
        elif isinstance(event, AttemptDrawn) and event.record.image and not event.reused:
            self._show(self._live.view.share, host.as_preview(event.record.image.image))
        elif isinstance(event, StepFinished):
            self._allowance.new_step()
            self._show(self._live.view.share)

    def sampling(self, share: float, preview: host.Preview | None) -> None:
        """Process the progress of the current image (0..1)."""
        if self._allowance.may_move(share):
            self._show(self._live.view.within_attempt(share), preview)

    def _show(self, share: float, preview: host.Preview | None = None) -> None:
        if preview is not None:
            small, size = host.small_preview(preview, PREVIEW_PIXELS)
            preview = small if self._allowance.may_send(size) else None
        self._progress.show(share, preview)


NodeId = Annotated[str, Field(max_length=200)]
PREFIX = f"/{EVENT}"


class AskLive(requests.BrowserRequest):
    """Request for a node's newest run."""

    node: NodeId
    workflow: NodeId | None = None


def live_state(asked: AskLive) -> State:
    """Return the newest run of a node, empty if there was none since the server started."""
    live = LIVE_RUNS.find(asked.node, asked.workflow)
    if live is None:
        return State()
    if live.status == "running" and live.prompt and not host.is_running(live.prompt):
        live.stop()
    # The folder is created with the run's first step, and may have been deleted since.
    return requests.state_of(_runs() / live.run, live.state())


def _runs() -> Path:
    return host.output_folder() / PARENT


def _answered(asked: Any) -> BaseModel:
    """Answer a request, and tell all browsers about the run if it changed."""
    answer = asked.answer(_runs())
    if isinstance(asked, requests.AskChange):
        publish_change(asked.run)
    return answer


def routes() -> list[host.Route]:
    """Return the routes of the live view."""

    def thumbnail(asked: requests.AskThumbnail) -> host.Content:
        return host.Content(asked.webp(_runs()), "image/webp")

    return [
        host.Route("GET", f"{PREFIX}/live", AskLive, live_state),
        host.Route("GET", f"{PREFIX}/thumbnail", requests.AskThumbnail, thumbnail),
        host.Route("GET", f"{PREFIX}/casts", requests.AskCasts, _answered),
        host.Route("POST", f"{PREFIX}/story-again", requests.AskAgain, _answered),
        *(
            host.Route(method, f"{PREFIX}/{name}", model, _answered)
            for method, name, model in requests.RUN_ROUTES
        ),
    ]
