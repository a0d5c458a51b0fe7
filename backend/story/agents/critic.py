"""Critic agent: judges an image against a prompt and proposes a refined prompt.

The critic keeps no state, so it can be called from several threads. It asks the model at most twice. If the
second reply cannot be parsed either, the verdict is `None`, never a guess: the loop then decides what to do,
and the attempt contains the reason. A second reply that is constrained always has a verdict, even if the
model writes noise. So a verdict after a reply without one is marked as `forced`, and the loop counts these.
If the reply is a plan, the checkpoint is a planner's and is not asked again, since a verdict forced by the
grammar would be worthless.

Items of a checklist are asked one by one, each in a message that begins with the same images and prompt. So
an agent of this process, and most servers, read the images once. A change of the questions' text needs a new
`CHECKS` version in journal/store.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ...core.answers.reading import GRAMMAR_OF_VERDICTS, GRAMMAR_OF_VERDICTS_FIRST, read_plan, read_verdict
from ...core.answers.reply_text import split_reply
from ...core.errors import AnswerError, ChatError, SettingsError
from ...core.pictures import Picture
from ...core.prompts.agent_card import AgentCard
from ...core.prompts.prompt_set import PromptSet
from ...core.prompts.trained_with import NO_CARD
from ...core.seams.chat_model import THOUGHT, Message, Reply, ReplySettings
from ...core.types import CheckedItem, ChecklistItem, Verdict
from ...core.types.checklist import read_yes_no
from ...core.types.roles import CriticLike
from .asking import IMAGE_MARK, Agent, AnswerForm, OnToken, filled_parts, message_of, sampled_again

FORM = AnswerForm(read_verdict, GRAMMAR_OF_VERDICTS, "verdict")
FORM_VERDICT_FIRST = AnswerForm(read_verdict, GRAMMAR_OF_VERDICTS_FIRST, "verdict")
ABOUT_ITEMS = (
    "The first image is before the step, and white if there was none. The second image is the result of the "
    "step. It was generated for this prompt: {prompt}"
)
ITEM_QUESTION = "Is this true of the second image: {item}? Answer with one word, yes or no."
ENGLISH = re.compile(r"\W*(?:yes|no)\b", re.IGNORECASE)
EVEN = 0.5
"""P(yes) from which on an item is true."""
ONE_WORD: dict[str, Any] = {
    "max_tokens": 4,
    "temperature": 0.0,
    "watch_verdict": False,
    "watch_yes_no": True,
    "grammar": None,
}
"""Reply settings for an answer of one word."""
ITEM_AGAIN = "\n\nYour last answer was neither yes nor no. Answer with one word, yes or no."
THINKING_TOKENS = 1024
"""Token limit of the second reply about an item, since an agent may think before it answers."""
NAMES_VERDICT = re.compile(r"succe\w{0,20}[\"'”*`]{0,3}\s{0,30}[:：=]", re.IGNORECASE)
"""The key of a verdict. A reply that has it is about a verdict, though it may not be definite."""
PLANNER = "The critic wrote a plan instead of a verdict: its checkpoint is a planner's."


class Critic(Agent, CriticLike):
    """Judges an image against the original prompt of its step.

    By default it decodes greedily and reads the probability of its verdict.
    """

    answers = "verdict"
    checks_items = True
    defaults = ReplySettings(watch_verdict=True)

    def judge(
        self,
        before: Picture | None,
        after: Picture,
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> Verdict:
        """Judge one image.

        Args:
            before: Image before the step. `None` if the image was generated from text; the model then sees a
                white image of the same size.
            after: The image to judge.
            original_prompt: Prompt from the plan. The verdict refers to this prompt.
            prompt_used: Prompt of this attempt, which may be a refined one.
            on_token: Called with each new piece of text.

        Returns:
            The verdict. If two replies could not be parsed, `success` is `None` and `reasoning` contains the
            problem. `refined_prompt` is `prompt_used` if the image was accepted or the critic gave no better
            one.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        message = self._question(before, after, original_prompt, prompt_used)
        reply = self.chat.reply([message], self.settings, on_token)
        return self.verdict_in(reply, message, prompt_used, on_token)

    @property
    def identity(self) -> str:
        """Everything that affects a verdict, as a cache key."""
        calibration = self._card.calibration
        return super().identity + (calibration.identity if calibration else "")

    @property
    def judges_together(self) -> bool:
        """Whether its model can answer several messages in one batch."""
        return self.chat.answers_together

    def judge_together(
        self,
        before: Picture | None,
        afters: Sequence[Picture],
        original_prompt: str,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> list[Verdict]:
        """Judge several images that were generated with the same prompt, in one batch.

        See `judge` for the arguments and the verdicts.

        Raises:
            ChatError: The backend failed, or does not support batches (`judges_together`).
            Cancelled: The run was cancelled.
        """
        if not self.judges_together:
            raise ChatError("This agent cannot judge several images in one batch.", "Judge them one by one.")
        questions = [self._question(before, after, original_prompt, prompt_used) for after in afters]
        replies = self.chat.reply_together(questions, self.settings, on_token)
        return [
            self.verdict_in(reply, question, prompt_used, on_token)
            for question, reply in zip(questions, replies, strict=True)
        ]

    def check(
        self,
        before: Picture | None,
        after: Picture,
        original_prompt: str,
        items: Sequence[ChecklistItem],
        on_token: OnToken | None = None,
    ) -> tuple[CheckedItem, ...]:
        """Answer the items of a checklist about an image, each with one word.

        Args:
            before: Image before the step, as in `judge`.
            after: The image.
            original_prompt: Prompt from the plan.
            items: The items.
            on_token: Called with each new piece of text.

        Returns:
            The answers. An item of a kind that the critic's agent card calls unreliable never fails. An item
            whose answer is neither yes nor no is asked once more, and then it is not answered.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        pictures = (before or Picture.white(after.size), after)
        return tuple(
            self._answered(item, item_message(pictures, original_prompt, item.text), on_token)
            for item in items
        )

    def _answered(self, item: ChecklistItem, message: Message, on_token: OnToken | None) -> CheckedItem:
        settings = self.settings.model_copy(update=ONE_WORD)
        reply = self.chat.reply([message], settings, on_token)
        passed = _yes_no(reply)
        if passed is None:
            again = message.model_copy(update={"content": (*message.content, ITEM_AGAIN)})
            settings = sampled_again(settings).model_copy(update={"max_tokens": THINKING_TOKENS})
            reply = self.chat.reply([again], settings, on_token)
            passed = _yes_no(reply)
        # P(yes) is measured at the first word, and says nothing about another one.
        probability = reply.probability if ENGLISH.match(reply.text) and passed is not None else None
        if probability is not None:
            passed = probability >= EVEN
        known = self._card.reliability.get(item.kind)
        counts = known is None or known.is_reliable
        return CheckedItem(
            text=item.text,
            kind=item.kind,
            probability=probability,
            passed=passed if counts else None,
            unanswered=passed is None,
        )

    def _question(
        self, before: Picture | None, after: Picture, original_prompt: str, prompt_used: str
    ) -> Message:
        pictures = (before or Picture.white(after.size), after)
        return critic_message(self.prompt_set, pictures, original_prompt, prompt_used)

    def verdict_in(
        self,
        first: Reply,
        question: Message,
        prompt_used: str,
        on_token: OnToken | None = None,
    ) -> Verdict:
        """Return the verdict in a reply to a question. If it cannot be parsed, ask once more.

        Raises:
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        if _is_plan_alone(first):
            return Verdict(success=None, reasoning=PLANNER)
        try:
            verdict, reply = self.read_reply(first, question, self.settings, self._form, on_token)
        except AnswerError as problem:
            return Verdict(success=None, reasoning=f"The critic's reply could not be parsed. {problem}")
        return Verdict(
            success=verdict.success,
            refined_prompt=next_prompt(verdict, prompt_used),
            reasoning=verdict.reasoning,
            probability=self._calibrated(reply.probability),
            forced=reply is not first and self._constrains_second and not NAMES_VERDICT.search(first.text),
        )

    def first_verdict(self, reply: Reply, question: Message) -> bool | None:
        """Return the verdict in a reply to a question, without asking again. `None`: it has none."""
        try:
            return self._form.answer(reply.whole, question).success
        except AnswerError:
            return None

    @property
    def _form(self) -> AnswerForm[Verdict]:
        form = FORM_VERDICT_FIRST if self.prompt_set.verdict_first else FORM
        return form.asked_with(self.prompt_set.critic)

    @property
    def _card(self) -> AgentCard:
        return self.chat.trained.card if self.chat.trained else NO_CARD

    def _calibrated(self, probability: float | None) -> float | None:
        calibration = self._card.calibration
        return probability if calibration is None or probability is None else calibration.apply(probability)


def next_prompt(verdict: Verdict, prompt_used: str) -> str:
    """Return the refined prompt of a verdict, or `prompt_used` if it is empty or the image was accepted."""
    keep = verdict.success or not verdict.refined_prompt.strip()
    return prompt_used if keep else verdict.refined_prompt


def _is_plan_alone(reply: Reply) -> bool:
    """Return whether a reply contains a plan and no verdict."""
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
    """Return the message to a critic with the two images (before, after).

    Raises:
        SettingsError: The critic's template is not valid, or a prompt is too long.
    """
    parts = filled_parts(
        prompt_set.critic, original_instruction=original_prompt, rewritten_prompt=prompt_used
    )
    if len(parts) not in (1, len(pictures) + 1):
        raise SettingsError(
            f"The critic's prompt template has {len(parts) - 1} {IMAGE_MARK} mark(s).",
            "Use two marks (before, after), or none.",
        )
    return message_of(parts, pictures)


def item_message(pictures: Sequence[Picture], prompt: str, item: str) -> Message:
    """Return the question about an item, with the images before and after the step."""
    question = ITEM_QUESTION.format(item=item.rstrip(" .?!"))
    return message_of([f"{ABOUT_ITEMS.format(prompt=prompt)}\n\n{question}"], pictures)


def _yes_no(reply: Reply) -> bool | None:
    """Return the answer in a reply outside of its thoughts; `None` if it is neither yes nor no."""
    text = f"{THOUGHT}{reply.text}" if reply.thinking else reply.text
    try:
        places = split_reply(text).places
    except AnswerError:
        return None
    return read_yes_no("\n".join(place.content for place in places))
