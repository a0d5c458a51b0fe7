"""The planner: a request in, every step up front out.

Decision: stateless, and no reply is asked for more than twice. A reply that cannot be read is answered with
the reason and the grammar; a second one that cannot be read is an error, since a plan that was guessed would
be drawn for minutes before anybody saw it. A plan of up to IN_ONE_REPLY steps is one reply, which is the
cheapest; a longer one is written in parts (long_plan.py), unless the prompt set knows none.
"""

from __future__ import annotations

from collections.abc import Callable

from ..answers.reading import GRAMMAR_OF_PLANS, read_plan
from ..chat.protocol import ChatModel, ChecksRequests, OnDevice, Reply, ReplySettings, Reserves, ReviewsPlans
from ..errors import AnswerError
from ..prompts import PromptSet
from ..types import Plan, Request
from .asked_count import asked_count
from .asking import Agent, AnswerForm, ConstrainedDecoding, OnToken
from .long_plan import LongPlan, PartProgress, PartStore
from .planner_question import planner_message

FORM = AnswerForm(read_plan, GRAMMAR_OF_PLANS, "plan")
PLAN_TOKENS = 16384
"""Of a reply for which no other limit is set: about 130 steps. The model's context may have room for less."""
IN_ONE_REPLY = 12
"""Most steps that a request may ask for and still be planned in one reply."""


class Planner(Agent):
    """Writes all steps of a request. `on_part` is called with what is being written of a plan in parts:
    "outline", then "steps 1-10 of 40"."""

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
        self.part_store: PartStore | None = None
        """Where the parts of an unfinished plan are kept; whoever sets it removes them in the end."""

    def plan(self, request: Request, on_token: OnToken | None = None) -> Plan:
        """All steps of the request; raises AnswerError if two replies cannot be read, SettingsError if the
        text has `<image>` marks but not as many as images or the model cannot know what is asked, ChatError,
        Cancelled. `on_token` gets every reply's text, and an empty text before each part."""
        if isinstance(self.chat, ChecksRequests):
            self.chat.check_request(request.text)
        plan = self._written(request, on_token)
        warning = self.chat.plan_warning(request.text, plan) if isinstance(self.chat, ReviewsPlans) else ""
        return plan.model_copy(update={"warning": warning}) if warning else plan

    def _written(self, request: Request, on_token: OnToken | None) -> Plan:
        """Return the plan that the model writes, in one reply or in parts."""
        count, settings = asked_count(request.text), self._reply_settings()
        parts = PartProgress(self.on_part, self.part_store)
        in_parts = LongPlan(self, request, settings, on_token, parts)
        if self.prompt_set.has_parts and count is not None and count.most > IN_ONE_REPLY:
            return in_parts.write(count)
        message = planner_message(self.prompt_set, request)
        if self.prompt_set.has_parts and in_parts.kept(message) is not None:
            return in_parts.write(count)
        first = self.chat.reply([message], settings, on_token)
        if self.prompt_set.has_parts and first.finish == "length" and not _is_whole(first):
            # Asked again in the same way, it would be cut off again.
            in_parts.keep(message, first)
            return in_parts.write(count)
        return self.read_reply(first, message, settings, FORM, on_token)[0]

    def offload(self, staying: object) -> None:
        """Free the device that the planner's weights are on, unless `staying`, the critic, is on the same
        weights."""
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
