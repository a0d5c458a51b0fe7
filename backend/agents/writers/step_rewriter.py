"""Describes the whole image of a step that failed, so that it can be generated from text.

An edit may fail because the image model does not understand it, or because of what its source image is like.
Then more attempts fail too. Words alone depend on neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...chat.protocol import ChatModel, Message, ReplySettings
from ...errors import AnswerError
from ...prompts import TEMPLATES, fill
from ...prompts.enhancer import read_template
from ...types import Plan, Step
from ..asking import offload_unless, sampled_again
from ..messages import bounded
from .enhancer import read_prompt

READER, HINT = "the planner", "Shorten the prompts of the plan."
MAX_TOKENS = 1024
"""Default token limit of a reply: 150 words have about 250 tokens."""
MAX_PROBLEM = 2_000
"""Maximum length of the critic's reasoning in the question, in characters."""
TEMPLATE = TEMPLATES / "cast" / "rewrite.txt"
AGAIN = "\n\nYour last answer could not be used: {problem} Answer once more, with the description alone."


class StepRewriter:
    """Describes images with a chat model (`loop.protocols.RewritesSteps`). By default it decodes greedily.

    Args:
        chat: The chat model.
        settings: Decoding settings of the replies.
        staying: Chat models whose weights stay in VRAM. If they are not this chat model's, it is offloaded
            after its reply. The list may be filled later.
    """

    def __init__(
        self, chat: ChatModel, settings: ReplySettings | None = None, staying: Sequence[object] = ()
    ) -> None:
        self.chat = chat
        self._staying = staying
        given = settings or ReplySettings()
        self.settings = given.model_copy(update={"max_tokens": given.max_tokens or MAX_TOKENS})

    def __call__(self, plan: Plan, step: Step, problem: str) -> str | None:
        """Return a prompt for the whole image of a step, or `None` if two replies could not be used.

        Args:
            plan: The plan.
            step: The step that failed.
            problem: What the critic said about its last image.

        Raises:
            ChatError: The backend failed, or the plan is too long for a message.
            Cancelled: The run was cancelled.
        """
        question = _question(plan, step, problem)
        try:
            try:
                return self._asked(question, self.settings)
            except AnswerError as error:
                again = f"{question}{AGAIN.format(problem=error.problem)}"
            return self._asked(again, sampled_again(self.settings))
        except AnswerError:
            return None
        finally:
            offload_unless(self.chat, self._staying)

    def _asked(self, text: str, settings: ReplySettings) -> str:
        content = bounded(text, READER, HINT)
        return read_prompt(self.chat.reply([Message(role="user", content=(content,))], settings))


def _question(plan: Plan, step: Step, problem: str) -> str:
    steps = "\n".join(f"{one.number}. {' '.join(one.prompt.split())}" for one in plan.steps if one.prompt)
    reason = " ".join(problem.split())[:MAX_PROBLEM] or "It did not show what the step asks for."
    return fill(read_template(TEMPLATE), plan=steps, number=str(step.number), problem=reason)
