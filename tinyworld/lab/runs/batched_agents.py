"""A planner or a critic of the tiny world that answers many questions at once.

Decision: the questions are those of the running agents, and the answers are read as theirs; only the decoding
is the library's in batches, greedy as in use, which rounds other than one by one. A reply that cannot be read
is asked for again by the running agent, one by one, as it would be in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ....backend.agents.critic import Critic, critic_message, next_prompt
from ....backend.agents.planner import Planner
from ....backend.agents.planner_question import planner_message
from ....backend.answers.reading import read_plan
from ....backend.chat import open_chat
from ....backend.chat.local.loading import load_processor
from ....backend.chat.protocol import ChatModel, Message, ReplySettings
from ....backend.checkpoints.loaded import load_whole
from ....backend.errors import AnswerError
from ....backend.pictures import Picture
from ....backend.prompts import default_prompt_set, prompt_set_of
from ....backend.types import Plan, Request, Verdict
from ....training.data.rows.rl import CriticRlRow, as_conversation, before_of
from ....training.gate.held_out import greedy_answers
from ....training.reward.terms import read_answer

BATCH = 64

Judging = tuple[Picture | None, Picture, str, str]
"""The page before (None: a blank one), the page after, the step's own prompt, the prompt it was drawn
with."""


def judging_of(row: CriticRlRow, images: Path) -> Judging:
    """The question of a row whose images lie below `images`. Raises PictureError."""
    after = Picture.open(images / row.edited_image_path)
    return before_of(row, images), after, row.origin_prompt, row.rewritten_prompt


class BatchedAgent:
    """The agent in a checkpoint folder, and the longest verdict and plan that it may write, in tokens."""

    def __init__(self, folder: Path, verdict_tokens: int, plan_tokens: int) -> None:
        self.folder = folder
        self.verdict_tokens = verdict_tokens
        self.plan_tokens = plan_tokens
        self.prompt_set = prompt_set_of(folder) or default_prompt_set()

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        import torch

        return load_whole(self.folder, dtype=torch.float32), load_processor(self.folder)

    def answers(self, messages: Sequence[Message], tokens: int, temperature: float = 0.0) -> list[str]:
        """What it says to each message in at most so many tokens, greedily or drawn at a temperature above 0
        (from torch's own random numbers)."""
        model, processor = self._loaded
        questions = [
            {
                "prompt": as_conversation(message),
                "images": [part for part in message.content if isinstance(part, Picture)],
            }
            for message in messages
        ]
        return greedy_answers(model, processor, questions, tokens, BATCH, temperature)[0]

    def question(self, judging: Judging) -> Message:
        """The question about a page."""
        before, after, original, used = judging
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original, used)

    def verdicts(self, pages: Sequence[Judging]) -> list[Verdict | None]:
        """Its first word on each page; None where that cannot be read."""
        answers = self.answers([self.question(one) for one in pages], self.verdict_tokens)
        return [read_answer(answer) for answer in answers]

    def verdicts_of(self, rows: Sequence[CriticRlRow], images: Path) -> list[Verdict | None]:
        """As `verdicts`, of the pages of rows."""
        return self.verdicts([judging_of(row, images) for row in rows])

    def judge(self, pages: Sequence[Judging]) -> list[Verdict]:
        """The verdicts that a running critic gives; success is None where its second reply cannot be read
        either."""
        verdicts = []
        for page, verdict in zip(pages, self.verdicts(pages), strict=True):
            if verdict is None:
                verdicts.append(self._critic.judge(*page))
                continue
            refined = next_prompt(verdict, prompt_used=page[3])
            verdicts.append(verdict.model_copy(update={"refined_prompt": refined}))
        return verdicts

    def plan(self, requests: Sequence[Request], again: bool = True) -> list[Plan | AnswerError]:
        """A plan for each request, or why none could be read; `again`: unreadable ones are asked for a second
        time."""
        messages = [planner_message(self.prompt_set, request) for request in requests]
        plans: list[Plan | AnswerError] = []
        for request, answer in zip(requests, self.answers(messages, self.plan_tokens), strict=True):
            try:
                try:
                    plans.append(read_plan(answer))
                except AnswerError:
                    if not again:
                        raise
                    plans.append(self._planner.plan(request))
            except AnswerError as error:
                plans.append(error)
        return plans

    @cached_property
    def _critic(self) -> Critic:
        settings = ReplySettings(max_tokens=self.verdict_tokens, watch_verdict=True)
        return Critic(self._chat(), settings=settings)

    @cached_property
    def _planner(self) -> Planner:
        settings = ReplySettings(max_tokens=self.plan_tokens)
        return Planner(self._chat(), settings=settings)

    def _chat(self) -> ChatModel:
        """The running agent's model in 32 bits, as in batches: in the file's 16 a processor takes eight times
        as long to read a question."""
        return open_chat(f"transformers:{self.folder}", dtype="float32", device="cpu")
