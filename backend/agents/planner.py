"""Planner agent: writes all steps of a request in advance.

The planner keeps no state, and asks for each reply at most twice. If a reply cannot be parsed, it asks again
with the reason and the expected format. If that fails too, it raises an error, since images of a guessed plan
would take minutes before the user notices. A plan of up to `IN_ONE_REPLY` steps is written in one reply,
which is the cheapest way; a longer one in parts (long_plan.py), if the prompt set supports that.
"""

from __future__ import annotations

from collections.abc import Callable

from ..answers.reading import GRAMMAR_OF_PLANS, read_plan
from ..chat.abilities import ChecksRequests, OnDevice, Reserves, ReviewsPlans
from ..chat.protocol import ChatModel, Reply, ReplySettings
from ..errors import AnswerError
from ..prompts import PromptSet
from ..types import Plan, Request
from ..types.roles import PartStore, PlannerLike
from .asking import Agent, AnswerForm, ConstrainedDecoding, OnToken
from .long_plan import LongPlan
from .planner_question import planner_message, planner_template
from .requested.count import asked_count

FORM = AnswerForm(read_plan, GRAMMAR_OF_PLANS, "plan")
PLAN_TOKENS = 16384
"""Default token limit of a reply: about 130 steps. The model's context may be smaller."""
IN_ONE_REPLY = 12
"""Maximum number of steps for which a plan is requested in one reply."""


class Planner(Agent, PlannerLike):
    """Writes all steps of a request.

    `on_part` is called with the name of the current part of a long plan: "outline", then "steps 1-10 of 40".
    """

    answers = "plan"

    def __init__(
        self,
        chat: ChatModel,
        prompt_set: PromptSet | None = None,
        settings: ReplySettings | None = None,
        constrained_decoding: ConstrainedDecoding = "retry",
        on_part: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(chat, prompt_set, settings, constrained_decoding)
        self.on_part = on_part

    def plan(self, request: Request, on_token: OnToken | None = None, store: PartStore | None = None) -> Plan:
        """Return a plan with all steps of the request.

        Args:
            request: The request.
            on_token: Called with each new piece of text, and with an empty text before each part of a long
                plan.
            store: Store for the parts of an unfinished plan. The caller clears it at the end.

        Raises:
            AnswerError: Two replies could not be parsed.
            SettingsError: The number of `<image>` marks in the text is neither 0 nor the number of images, or
                the model does not support the request.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        if isinstance(self.chat, ChecksRequests):
            self.chat.check_request(request.text)
        plan = self._written(request, on_token, store)
        warning = self.chat.plan_warning(request.text, plan) if isinstance(self.chat, ReviewsPlans) else ""
        return plan.model_copy(update={"warning": warning}) if warning else plan

    def _written(self, request: Request, on_token: OnToken | None, store: PartStore | None) -> Plan:
        """Return the plan that the model writes, in one reply or in parts."""
        count, settings = asked_count(request.text), self._reply_settings()
        in_parts = LongPlan(self, request, settings, on_token, self.on_part, store)
        if self.prompt_set.has_parts and count is not None and count.most > IN_ONE_REPLY:
            return in_parts.write(count)
        message = planner_message(self.prompt_set, request)
        if self.prompt_set.has_parts and in_parts.kept(message) is not None:
            return in_parts.write(count)
        first = self.chat.reply([message], settings, on_token)
        if self.prompt_set.has_parts and first.finish == "length" and not _is_whole(first):
            # In the same way it would be cut off again.
            in_parts.keep(message, first)
            return in_parts.write(count)
        form = FORM.asked_with(planner_template(self.prompt_set, request))
        return self.read_reply(first, message, settings, form, on_token)[0]

    def offload(self, staying: object) -> None:
        """Move the planner's weights out of VRAM, unless the critic uses the same weights.

        Args:
            staying: The critic.
        """
        other = getattr(staying, "chat", None)
        shared = (
            isinstance(other, OnDevice)
            and isinstance(self.chat, OnDevice)
            and other.weights is self.chat.weights
        )
        if isinstance(self.chat, OnDevice) and not shared:
            self.chat.offload()

    def _reply_settings(self) -> ReplySettings:
        limit = min(PLAN_TOKENS, self.chat.most_tokens) if isinstance(self.chat, Reserves) else PLAN_TOKENS
        return self.settings.model_copy(update={"max_tokens": self.settings.max_tokens or limit})


def _is_whole(reply: Reply) -> bool:
    try:
        read_plan(reply.whole)
    except AnswerError:
        return False
    return True
