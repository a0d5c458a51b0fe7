"""The critic: two pictures and two prompts in, one verdict out.

Decision: stateless, so any number of threads may ask it, and asked at most twice. A second reply that cannot
be read is a verdict of None, never a guess: the loop then redraws or stops as its policy says, and the
attempt says what was wrong. A plan in place of a verdict is a planner's checkpoint, which is not asked again:
what it wrote under the grammar of verdicts would be no judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..answers.reading import GRAMMAR_OF_VERDICTS, GRAMMAR_OF_VERDICTS_FIRST, read_plan, read_verdict
from ..chat.protocol import Message, RepliesTogether, Reply, ReplySettings
from ..errors import AnswerError, ChatError, SettingsError
from ..pictures import Picture
from ..prompts import PromptSet
from ..types import Verdict
from .asking import IMAGE_MARK, Agent, AnswerForm, OnToken, filled_parts, message_of

FORM = AnswerForm(read_verdict, GRAMMAR_OF_VERDICTS, "verdict")
FORM_VERDICT_FIRST = AnswerForm(read_verdict, GRAMMAR_OF_VERDICTS_FIRST, "verdict")
PLANNER = "The critic wrote a plan and no verdict: its checkpoint is a planner's."


class Critic(Agent):
    """Judges one image against its step's original prompt. `settings` default to greedy with a watched
    verdict."""

    answers = "verdict"
    defaults = ReplySettings(watch_verdict=True)

    def judge(
        self,
        before: Picture | None,
        after: Picture,
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> Verdict:
        """The verdict on `after`; `before` None (drawn from text) is shown as a white page of the same size.

        A refined prompt that is empty, or beside a True verdict, becomes `prompt_used`. Two replies that
        cannot be read give success None with the problem as reasoning. Raises ChatError, Cancelled.
        """
        message = self._question(before, after, original_prompt, prompt_used)
        return self._verdict(
            message, self.chat.reply([message], self.settings, on_token), prompt_used, on_token
        )

    @property
    def judges_together(self) -> bool:
        """Whether its model can answer several questions in one pass."""
        return isinstance(self.chat, RepliesTogether)

    def judge_together(
        self,
        before: Picture | None,
        afters: Sequence[Picture],
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> list[Verdict]:
        """As `judge`, for several images that were drawn with the same prompt, in the same passes. Raises
        ChatError, also where the chat backend cannot do that (`judges_together`), Cancelled."""
        if not isinstance(self.chat, RepliesTogether):
            raise ChatError("This agent answers one question at a time.")
        questions = [self._question(before, after, original_prompt, prompt_used) for after in afters]
        replies = self.chat.reply_together(questions, self.settings, on_token)
        return [
            self._verdict(question, reply, prompt_used, on_token)
            for question, reply in zip(questions, replies, strict=True)
        ]

    def _question(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Message:
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original_prompt, prompt_used)

    def _verdict(
        self, question: Message, first: Reply, prompt_used: str, on_token: OnToken | None
    ) -> Verdict:
        if _is_plan_alone(first):
            return Verdict(success=None, reasoning=PLANNER)
        try:
            form = FORM_VERDICT_FIRST if self.prompt_set.verdict_first else FORM
            verdict, reply = self.read_reply(first, question, self.settings, form, on_token)
        except AnswerError as problem:
            return Verdict(success=None, reasoning=f"The critic could not be understood. {problem}")
        return Verdict(
            success=verdict.success,
            refined_prompt=next_prompt(verdict, prompt_used),
            reasoning=verdict.reasoning,
            probability=reply.probability,
        )


def next_prompt(verdict: Verdict, prompt_used: str) -> str:
    """Return the refined prompt of a verdict, or `prompt_used` if it is empty or the image was accepted."""
    keep = verdict.success or not verdict.refined_prompt.strip()
    return prompt_used if keep else verdict.refined_prompt


def _is_plan_alone(reply: Reply) -> bool:
    """Whether a reply holds a plan, and no verdict beside it."""
    return _reads(read_plan, reply) and not _reads(read_verdict, reply)


def _reads(read: Callable[[str], object], reply: Reply) -> bool:
    try:
        read(reply.whole)
    except AnswerError:
        return False
    return True


def critic_message(
    prompt_set: PromptSet, pictures: Sequence[Picture], original_prompt: str, prompt_used: str
) -> Message:
    """The question that a critic is asked, the two pictures (before, after) in it. Raises SettingsError."""
    parts = filled_parts(
        prompt_set.critic, original_instruction=original_prompt, rewritten_prompt=prompt_used
    )
    if len(parts) not in (1, len(pictures) + 1):
        raise SettingsError(
            f"The critic's template has {len(parts) - 1} {IMAGE_MARK} mark(s).",
            "It needs two (before, after) or none.",
        )
    return message_of(parts, pictures)
