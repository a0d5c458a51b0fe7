"""The planner: a request in, every step up front out.

Decision: stateless, asked at most twice. A reply that cannot be read is answered with the reason and the
grammar; a second one that cannot be read is an error, since a plan that was guessed would be drawn for
minutes before anybody saw it.
"""

from __future__ import annotations

from ..answers.reading import GRAMMAR_OF_PLANS, read_plan
from ..chat.protocol import ChecksRequests, Message, OnDevice, Reserves
from ..errors import SettingsError
from ..prompts import PromptSet, fill
from ..types import Plan, Request
from .asking import IMAGE_MARK, Agent, AnswerForm, OnToken, filled_parts, message_of

FORM = AnswerForm(read_plan, GRAMMAR_OF_PLANS)
PLAN_TOKENS = 16384
"""Of a plan for which no other limit is set: about 130 steps. The model's context may have room for less."""


class Planner(Agent):
    """Writes all steps of a request."""

    answers = "plan"

    def plan(self, request: Request, on_token: OnToken | None = None) -> Plan:
        """All steps of the request; raises AnswerError if two replies cannot be read, SettingsError if the
        text has `<image>` marks but not as many as images or the model cannot know what is asked, ChatError,
        Cancelled."""
        if isinstance(self.chat, ChecksRequests):
            self.chat.check_request(request.text)
        message = _planner_message(self.prompt_set, request)
        limit = min(PLAN_TOKENS, self.chat.most_tokens) if isinstance(self.chat, Reserves) else PLAN_TOKENS
        settings = self.settings.model_copy(update={"max_tokens": self.settings.max_tokens or limit})
        first = self.chat.reply([message], settings, on_token)
        return self.read_reply(first, message, settings, FORM, on_token)[0]

    def rest(self, staying: object) -> None:
        """Free the device that the planner's weights are on, unless `staying`, the critic, is on the same
        weights."""
        other = getattr(staying, "chat", None)
        shared = (
            isinstance(other, OnDevice)
            and isinstance(self.chat, OnDevice)
            and other.weights is self.chat.weights
        )
        if isinstance(self.chat, OnDevice) and not shared:
            self.chat.leave()


def _planner_message(prompt_set: PromptSet, request: Request) -> Message:
    given = len(request.images)
    marks = request.text.count(IMAGE_MARK)
    if marks and marks != given:
        raise SettingsError(
            f"The request has {marks} {IMAGE_MARK} mark(s) but {given} image(s).",
            "Write one mark for each image, in their order, or none at all.",
        )
    template = prompt_set.planner_images if given else prompt_set.planner_text
    # A template with marks of its own has placed the images already; the user's marks are then only words.
    own = template.count(IMAGE_MARK)
    if own and given and own != given and not marks:
        raise SettingsError(
            f"The planner's template has {own} {IMAGE_MARK} mark(s) but {given} image(s) are given."
        )
    if own == given:
        return message_of(filled_parts(template, text_input=request.text), request.images)
    filled = fill(template.replace(IMAGE_MARK, ""), text_input=request.text)
    return message_of(filled.split(IMAGE_MARK) if marks else [filled], request.images)
