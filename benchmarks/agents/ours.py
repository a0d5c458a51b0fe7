"""Runs the pack's loop on the same work, with the settings of a table row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interleave_thinker.backend.agents.critic import Critic
from interleave_thinker.backend.agents.planner import Planner
from interleave_thinker.backend.chat import Message, ReplySettings
from interleave_thinker.backend.chat.engine.prefix_cache import forget_prefix
from interleave_thinker.backend.chat.local import chat as local
from interleave_thinker.backend.loop.events import AttemptDrawn, Finished
from interleave_thinker.backend.loop.loop import run
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import PromptSet
from interleave_thinker.backend.types import RunSettings, Trajectory

from .model import ADAPTER
from .outcome import Outcome
from .ways import Way
from .work import MAX_ATTEMPTS, Forced, Painter, Work, paint


class Ours:
    """Planner, critic and loop, combined as in the command line."""

    def __init__(self, folder: Path, prompts: PromptSet, way: Way) -> None:
        self.way = way
        self.name = way.name
        self._prompts = prompts
        self._chat = local.open(
            str(folder),
            dtype="float32",
            device="cpu",
            engine=way.engine,
            quantization=way.quantization,
            adapter=str(folder / ADAPTER) if way.adapter else None,
            merge=way.adapter == "merged",
        )
        # Exclude one-time costs of a process: the self-check and the first call of every kernel.
        self._chat.base.engine()
        self._chat.reply(
            [Message(role="user", content=(Picture.white((64, 64)), "?"))], ReplySettings(max_tokens=4)
        )

    @property
    def model(self) -> Any:
        """The language model."""
        return self._chat.model

    def run(self, work: Work, folder: Path, side: int) -> Outcome:
        """Do the work with empty caches, like a new process."""
        chat, forced = self._chat, self._forget()
        watched = ReplySettings(watch_verdict=True)
        critic = Critic(chat, self._prompts, watched, self.way.hold)
        settings = RunSettings(max_attempts=MAX_ATTEMPTS, keep="last", judge_last=self.way.judge_last)
        forced.say(work.plan_text())
        planner = Planner(chat, self._prompts, constrained_decoding=self.way.hold)
        for event in run(work.request, planner, Painter(side), critic, settings):
            if isinstance(event, AttemptDrawn):
                forced.say(work.verdict_text(event.step.number - 1, event.attempt, self.way.form))
            elif isinstance(event, Finished):
                return _outcome(event.trajectory, forced.free)
        raise AssertionError("the loop ended without saying so")

    def judge_candidates(self, work: Work, side: int, candidates: int) -> list[int]:
        """Judge images of the second step in one batch, with empty caches; return the free greedy tokens."""
        forced = self._forget()
        forced.say(work.verdict_text(1, 0))
        step = work.plan.steps[1]
        assert step.prompt is not None
        before, *afters = (paint(f"candidate {number}", None, side) for number in range(candidates + 1))
        critic = Critic(self._chat, self._prompts, ReplySettings(watch_verdict=True))
        critic.judge_together(before, afters, step.prompt, step.prompt)
        return forced.free

    def _forget(self) -> Forced:
        """Empty the caches, and return the processor that forces the next replies."""
        chat = self._chat
        engine = chat.base.engine()
        if engine is not None:
            engine.clear()
            forget_prefix(chat.model)
        forced = Forced(chat.base.processor.tokenizer, chat.model.generation_config.eos_token_id)
        chat.processors = [forced]
        return forced


def _outcome(trajectory: Trajectory, free: list[int]) -> Outcome:
    outcome = Outcome(free=free)
    for index, result in enumerate(trajectory.results):
        for attempt in result.attempts:
            assert attempt.image is not None, attempt.error
            outcome.prompts.append((index, attempt.prompt))
            outcome.images.append(attempt.image.digest)
            outcome.accepted.append(attempt.verdict is not None and attempt.verdict.success is True)
        assert result.image is not None
        outcome.chosen.append(result.image.digest)
    return outcome
