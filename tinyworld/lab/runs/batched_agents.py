"""Planner or critic of the tiny world that answers many questions in a batch.

Questions and answers are processed as in the regular agents. Only decoding differs: it is greedy as in use,
but batched by the library, so rounding differs from single decoding. An unreadable reply is requested again
by the regular agent, as in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ....backend.agents.critic import Critic, critic_message, next_prompt
from ....backend.agents.planner import Planner, planner_message
from ....backend.answers.reading import read_plan
from ....backend.chat import open_chat
from ....backend.chat.chat_model import ChatModel, Message, ReplySettings
from ....backend.chat.local.base_model import load_processor
from ....backend.checkpoints.checkpoint import load_whole
from ....backend.errors import AnswerError
from ....backend.pictures import Picture
from ....backend.prompts.prompt_set import default_prompt_set, prompt_set_of
from ....backend.types import Plan, Request, Verdict
from ....training.data.rows.rl import CriticRlRow, as_conversation, before_of
from ....training.gate.held_out import greedy_answers
from ....training.reward.terms import read_answer

BATCH = 64

Judging = tuple[Picture | None, Picture, str, str]
"""Image before (`None`: blank), image after, prompt of the step, prompt of the attempt."""


def judging_of(row: CriticRlRow, images: Path) -> Judging:
    """Return the question of a row whose images are below `images`.

    Raises:
        PictureError: If an image cannot be read.
    """
    after = Picture.open(images / row.edited_image_path)
    return before_of(row, images), after, row.origin_prompt, row.rewritten_prompt


class BatchedAgent:
    """The agent in a checkpoint folder, with limits for its verdicts and plans in tokens."""

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
        """Answer each message with at most `tokens` tokens.

        Decoding is greedy at temperature 0; above, it samples with torch's global random state.
        """
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
        """Return the question about an image."""
        before, after, original, used = judging
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original, used)

    def verdicts(self, pages: Sequence[Judging]) -> list[Verdict | None]:
        """Return the first verdict on each image; `None` if it cannot be read."""
        answers = self.answers([self.question(one) for one in pages], self.verdict_tokens)
        return [read_answer(answer) for answer in answers]

    def verdicts_of(self, rows: Sequence[CriticRlRow], images: Path) -> list[Verdict | None]:
        """Return the verdicts on the images of rows, like `verdicts`."""
        return self.verdicts([judging_of(row, images) for row in rows])

    def judge(self, pages: Sequence[Judging]) -> list[Verdict]:
        """Return verdicts like a regular critic.

        `success` is `None` if the second reply is unreadable too.
        """
        verdicts = []
        for page, verdict in zip(pages, self.verdicts(pages), strict=True):
            if verdict is None:
                verdicts.append(self._critic.judge(*page))
                continue
            refined = next_prompt(verdict, prompt_used=page[3])
            verdicts.append(verdict.model_copy(update={"refined_prompt": refined}))
        return verdicts

    def plan(self, requests: Sequence[Request], again: bool = True) -> list[Plan | AnswerError]:
        """Plan each request.

        Args:
            requests: The requests.
            again: Request unreadable plans a second time.

        Returns:
            A plan per request, or the error of reading it.
        """
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
        """Open the regular agent's model in float32, as in batches.

        In the checkpoint's 16 bits, a CPU takes eight times as long to read a question.
        """
        return open_chat(f"transformers:{self.folder}", dtype="float32", device="cpu")
