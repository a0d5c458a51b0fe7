"""A planner, a critic and a chat without a model, and a counting generator, for tests.

The critic's verdict depends only on the image, so request, plan and seed determine a whole run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interleave_thinker import ChatError, CriticLike, Generator, GeneratorError, Picture, PlannerLike, Reply
from interleave_thinker.backend.core.prompts.agent_card import AgentCard
from interleave_thinker.backend.core.prompts.trained_with import TrainedWith
from interleave_thinker.backend.core.types import Plan, Request, Step, Verdict
from interleave_thinker.backend.models.chat.scripted import ScriptedChat
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.backend.story.journal.store import DrawKey

STORY = Plan(
    steps=(
        Step(number=1, name="House", prompt="a house"),
        Step(number=2, auxiliary_text="Then the sun rose."),
        Step(number=3, name="Sun", prompt="add a sun", auxiliary_text="It was warm."),
        Step(number=4, name="Boat", prompt="add a boat"),
    )
)


class OnePlan(PlannerLike):
    """Answers every request with the same plan."""

    identity = ""
    prompt_set_digest = "prompts-of-tests"

    def __init__(self, plan: Plan = STORY, identity: str = "one plan") -> None:
        self.answer = plan
        self.identity = identity
        self.asked = 0

    def plan(self, request: Request) -> Plan:
        self.asked += 1
        return self.answer


class OneInThree(CriticLike):
    """Accepts an image whose digest is divisible by three, refines by adding a word, records inputs."""

    identity = "one in three"
    prompt_set_digest = "prompts-of-tests"

    def __init__(self) -> None:
        self.shown: list[tuple[Picture | None, Picture, str, str]] = []

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        self.shown.append((before, after, original, used))
        success = int(after.digest, 16) % 3 == 0
        return Verdict(
            success=success,
            refined_prompt=used if success else f"{used}, clearly",
            reasoning="counted",
            probability=int(after.digest[:4], 16) / 0xFFFF,
        )


class Verdicts(CriticLike):
    """Gives these verdicts one after another; an exception is raised."""

    identity = "verdicts in order"
    prompt_set_digest = "prompts-of-tests"

    def __init__(self, *answers: Verdict | bool | BaseException | None) -> None:
        self.answers = list(answers)
        self.shown: list[tuple[Picture | None, Picture, str, str]] = []

    def judge(self, before: Picture | None, after: Picture, original: str, used: str) -> Verdict:
        self.shown.append((before, after, original, used))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Verdict) else Verdict(success=answer)


class Counting(Generator):
    """Painted images; writes the key of every finished image to `log`, and fails where requested."""

    def __init__(
        self,
        log: Path | None = None,
        seconds: float = 0.0,
        failures: Sequence[BaseException | None] = (),
        size: int = 16,
    ) -> None:
        self._painted = FakeGenerator(size)
        self.log = log
        self.seconds = seconds
        self.failures = list(failures)
        self.drawn: list[tuple[str, Picture | None, int]] = []

    @property
    def identity(self) -> str:
        return self._painted.identity

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        self.drawn.append((prompt, source, seed))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        time.sleep(self.seconds)
        picture = self._painted.draw(prompt, source, seed)
        if self.log is not None:
            key = DrawKey(
                generator=self.identity, prompt=prompt, seed=seed, source=source.digest if source else None
            )
            with self.log.open("a") as file:
                file.write(f"{key.digest}\n")
        return picture


__all__ = ["STORY", "ChatError", "Counting", "GeneratorError", "OneInThree", "OnePlan", "Verdicts"]


class TrainedChat(ScriptedChat):
    """Scripted replies of a checkpoint with an agent card."""

    trained: Any = None

    def __init__(self, replies: Sequence[str | Reply], card: AgentCard) -> None:
        super().__init__(replies)
        self.trained = TrainedWith("critic", card=card)
