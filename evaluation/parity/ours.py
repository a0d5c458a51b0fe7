"""This package's side: planner, critic and loop as in a run, with scripted models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...backend.agents.critic import Critic
from ...backend.agents.planner import Planner
from ...backend.chat.protocol import Message, Reply, ReplySettings
from ...backend.errors import ChatError
from ...backend.loop.events import Finished
from ...backend.loop.loop import run
from ...backend.pictures import Picture
from ...backend.prompts import PromptSet
from ...backend.types import RunSettings
from ..benchmarks.base.benchmark import ItemAnswer
from .cases import ParityCase
from .child import digest, paint
from .observed import Draw, Observed, Parts


class _Painter:
    """A generator that records its calls."""

    identity = "parity painter"

    def __init__(self) -> None:
        self.draws: list[Draw] = []

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Paint an image."""
        image = source.image if source else None
        self.draws.append(Draw(prompt=prompt, source=digest(image) if image else None, seed=seed))
        return Picture(paint(prompt, image))


class _Chat:
    """A chat model that records its messages."""

    def __init__(self, identity: str, prompt_set: PromptSet, reply: Callable[[], str | None]) -> None:
        self.identity, self.prompt_set, self._reply = identity, prompt_set, reply
        self.asked: list[Parts] = []

    def reply(self, messages: Sequence[Message], settings: ReplySettings, on_token: Any = None) -> Reply:
        """Return the scripted reply.

        Raises:
            ChatError: The case has none.
        """
        self.asked.append(_parts_of(messages))
        text = self._reply()
        if text is None:
            raise ChatError("The critic was asked about a prompt without a verdict.")
        return Reply(text=text)


def _parts_of(messages: Sequence[Message]) -> Parts:
    parts: Parts = []
    for message in messages:
        parts.append(("role", message.role))
        for part in message.content:
            parts.append(("text", part) if isinstance(part, str) else ("image", digest(part.image)))
    return parts


def observe(case: ParityCase, prompts: PromptSet, settings: RunSettings, joined: bool) -> Observed:
    """Run a case and return what was asked.

    Args:
        case: The case.
        prompts: Prompt set of both agents.
        settings: Settings of the run.
        joined: Return the joined text of all steps instead of one text per step.
    """
    painter, plan, verdicts = _Painter(), case.plan_reply, case.verdict_replies
    planner = _Chat("parity planner", prompts, lambda: plan)
    critic = _Chat("parity critic", prompts, lambda: verdicts.get(painter.draws[-1].prompt))
    events = run(case.request, Planner(planner), painter, Critic(critic), settings)
    (trajectory,) = [event.trajectory for event in events if isinstance(event, Finished)]
    steps = [result.step for result in trajectory.results]
    texts = [step.auxiliary_text or step.instruction or "" for step in steps]
    return Observed(
        planner=planner.asked,
        critic=critic.asked,
        draws=painter.draws,
        texts=[ItemAnswer.of(trajectory).joined] if joined else texts,
        final=[digest(result.image.image) for result in trajectory.results if result.image],
    )
