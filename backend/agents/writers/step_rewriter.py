"""Describes the whole image of a step that failed, so that it can be generated from text.

An edit may fail because the image model does not understand it, or because of what its source image is like.
Then more attempts fail too. Words alone depend on neither.
"""

from __future__ import annotations

from ...chat.protocol import Message
from ...errors import AnswerError
from ...prompts import TEMPLATES, fill
from ...prompts.enhancer import read_template
from ...types import Plan, Step
from ..messages import bounded
from .enhancer import read_prompt
from .writer import Writer

READER, HINT = "the planner", "Shorten the prompts of the plan."
MAX_PROBLEM = 2_000
"""Maximum length of the critic's reasoning in the question, in characters."""
TEMPLATE = TEMPLATES / "cast" / "rewrite.txt"
AGAIN = "\n\nYour last answer could not be used: {problem} Answer once more, with the description alone."


class StepRewriter(Writer):
    """Describes images (`loop.collaborators.RewritesSteps`). Its arguments are those of `Writer`."""

    max_tokens = 1024
    """150 words have about 250 tokens."""

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
        template = read_template(TEMPLATE)
        question = bounded(_question(template, plan, step, problem), READER, HINT)
        try:
            return self.written([Message(role="user", content=(question,))], read_prompt, AGAIN, template)
        except AnswerError:
            return None


def _question(template: str, plan: Plan, step: Step, problem: str) -> str:
    steps = "\n".join(f"{one.number}. {' '.join(one.prompt.split())}" for one in plan.steps if one.prompt)
    reason = " ".join(problem.split())[:MAX_PROBLEM] or "It did not show what the step asks for."
    return fill(template, plan=steps, number=str(step.number), problem=reason)
