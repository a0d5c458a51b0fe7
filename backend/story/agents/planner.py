"""Planner agent: writes all steps of a request in advance.

The planner keeps no state, and asks for each reply at most twice. If a reply cannot be parsed, it asks again
with the reason and the expected format. If that fails too, it raises an error, since images of a guessed plan
would take minutes before the user notices. A plan of up to `IN_ONE_REPLY` steps is written in one reply,
which is the cheapest way. A longer one is written in parts, if the prompt set supports that: first an outline
of all steps, then some steps each.

Every part is a message of its own. It starts with the planner's own template up to the answer format, so its
rules apply to every part and a model processes the beginning only once. It contains the outline, what all
images have in common, the planner's notes after the part before, and the last prompt. So a message grows with
the outline and not with the finished steps, and a part that cannot be parsed is requested again alone. A part
that is cut off is requested in halves, down to one step. The outline decides the number of steps. If a
request clearly names a number or a range and the outline has another length, it is requested once more, and
the closer of the two is used. Parsed replies are stored, if there is a store, so a stopped planner resumes
with the missing part.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from ...core.answers.long_plan import (
    GRAMMAR_OF_OUTLINES,
    GRAMMAR_OF_PARTS,
    Outline,
    PlanPart,
    read_outline,
    read_part,
)
from ...core.answers.reading import GRAMMAR_OF_PLANS, read_plan
from ...core.errors import AnswerError, ChatError, SettingsError
from ...core.pictures import Picture
from ...core.prompts.prompt_set import ENDING, FORM_BEGINS, PromptSet, fill
from ...core.seams.chat_model import ChatModel, Message, Reply, ReplySettings, shares_weights
from ...core.types import MAX_TEXT, Plan, Request, Step
from ...core.types.roles import PartStore, PlannerLike
from .asking import IMAGE_MARK, Agent, AnswerForm, ConstrainedDecoding, OnToken, filled_parts, message_of
from .requested import AskedCount, asked_count


def planner_template(prompt_set: PromptSet, request: Request, form: str | None = None) -> str:
    """Return the template of the message to a planner; the arguments are those of `planner_message`."""
    template = prompt_set.planner_images if request.images else prompt_set.planner_text
    return template if form is None else template.partition(FORM_BEGINS)[0] + form


def planner_message(
    prompt_set: PromptSet, request: Request, form: str | None = None, **values: str
) -> Message:
    """Return the message to a planner for a request.

    Args:
        prompt_set: The planner's prompt set.
        request: The request.
        form: Answer format that replaces the one of the template.
        values: Values of the slots, in addition to the request.

    Raises:
        SettingsError: The number of `<image>` marks does not match the number of images.
    """
    given = len(request.images)
    marks = request.text.count(IMAGE_MARK)
    if marks and marks != given:
        raise SettingsError(
            f"The request has {marks} {IMAGE_MARK} mark(s), but {given} image(s).",
            "Write one mark for each image, in their order, or no marks.",
        )
    template = planner_template(prompt_set, request, form)
    # A template with its own marks has placed the images; marks in the request are then only text.
    own = template.count(IMAGE_MARK)
    if own and given and own != given and not marks:
        raise SettingsError(
            f"The planner's prompt template has {own} {IMAGE_MARK} mark(s), but the request has {given} "
            "image(s).",
            "Use another number of images, or another prompt set.",
        )
    # Marks in texts that the agent itself wrote are only text.
    values = {name: value.replace(IMAGE_MARK, "image") for name, value in values.items()}
    values["reminder"] = _reminder(request.text)
    text = request.text.replace(ENDING, "") if prompt_set.is_published else request.text
    if own == given:
        return message_of(filled_parts(template, text_input=text, **values), request.images)
    filled = fill(template.replace(IMAGE_MARK, ""), text_input=text, **values)
    behind = [filled, *[""] * given] if prompt_set.is_published else [filled]
    return message_of(filled.split(IMAGE_MARK) if marks else behind, request.images)


def _reminder(text: str) -> str:
    """Return the number of steps that a request names, as the last line of the question, or nothing."""
    count = asked_count(text)
    if count is None or not count.is_clear:
        return ""
    plural = "s" if count.most > 1 else ""
    # A request for images may ask for text between them.
    image = " with an image" if count.of_images else ""
    return f"\n\nWrite {'exactly' if count.exact else 'from'} {count.words} step{plural}{image}."


STEPS_A_PART = 10
"""Maximum number of steps in a part; these take about 1,300 tokens."""
NOTHING_YET = "Nothing is drawn yet; there is only what the request gives."
OUTLINE = AnswerForm(read_outline, GRAMMAR_OF_OUTLINES, "outline")


class LongPlan:
    """A request that is planned in parts, by a planner whose prompt set supports that."""

    def __init__(
        self,
        planner: Agent,
        request: Request,
        settings: ReplySettings,
        on_token: OnToken | None,
        on_part: Callable[[str], None] | None,
        store: PartStore | None,
    ) -> None:
        self._planner = planner
        self._request = request
        self._settings = settings
        self._on_token = on_token
        self._on_part, self._store = on_part, store

    def write(self, count: AskedCount | None) -> Plan:
        """Return the plan.

        Raises:
            AnswerError: A part could not be parsed. The message names its steps.
            ChatError: The backend failed.
            Cancelled: The run was cancelled.
        """
        outline = self._outline(count)
        waiting = parts_of(outline.numbers)
        written: list[PlanPart] = []
        while waiting:
            numbers = waiting.pop(0)
            part = self._part(outline, numbers, written)
            if part is None:
                middle = numbers[len(numbers) // 2]
                waiting[:0] = [range(numbers.start, middle), range(middle, numbers.stop)]
            else:
                written.append(part)
        thoughts = [outline.reasoning, *(part.reasoning for part in written)]
        return Plan(
            steps=tuple(step for part in written for step in part.steps),
            reasoning="\n\n".join(thought for thought in thoughts if thought.strip())[:MAX_TEXT],
        )

    def _outline(self, count: AskedCount | None) -> Outline:
        template = self._planner.prompt_set.planner_outline
        message = self._message(template, how_many=_how_many(count))
        form = OUTLINE.asked_with(planner_template(self._planner.prompt_set, self._request, template))
        kept = self.kept(message)
        if kept is not None:
            with suppress(AnswerError):
                return form.answer(kept, message)
        settings = self._held("outline")
        with _naming("outline"):
            first = self._asked("outline", message, settings)
            outline, reply = self._planner.read_reply(first, message, settings, form, self._on_token)
        if count is None or not count.is_clear or not count.distance(len(outline.lines)):
            self.keep(message, reply)
            return outline
        problem = AnswerError(
            f"Your outline has {len(outline.lines)} lines. The request asks for "
            f"{'exactly ' if count.exact else ''}{count.words} steps."
        )
        second = self._planner.ask_again(message, reply, problem, settings, form, self._on_token)
        try:
            other = form.answer(second.whole, message)
        except AnswerError:
            # The first outline is valid; the caller checks its number of steps.
            other = outline
        nearer = min(outline, other, key=lambda one: count.distance(len(one.lines)))
        self.keep(message, reply if nearer is outline else second)
        return nearer

    def _part(self, outline: Outline, numbers: range, written: list[PlanPart]) -> PlanPart | None:
        """Return these steps; `None` if the reply was cut off and they can be requested in halves."""
        last = numbers[-1]
        template = self._planner.prompt_set.planner_part
        message = self._message(
            template,
            outline="\n".join(
                f"{number}. {line}" for number, line in zip(outline.numbers, outline.lines, strict=True)
            ),
            always=outline.always or "What the request and the outline say.",
            so_far=_so_far(written),
            count=str(len(outline.lines)),
            first=str(numbers[0]),
            last=str(last),
        )
        settings = self._held("part")
        place = f"{numbers[0] - outline.first + 1}-{last - outline.first + 1}"
        name = f"steps {place} of {len(outline.lines)}"
        template = planner_template(self._planner.prompt_set, self._request, template)
        form = AnswerForm(partial(read_part, numbers=numbers), GRAMMAR_OF_PARTS, "part", template)
        kept = self.kept(message)
        with _naming(name):
            if kept is not None:
                with suppress(AnswerError):
                    return form.answer(kept, message)
                if len(numbers) > 1:
                    return None
            reply = self._asked(name, message, settings)
            if reply.finish == "length" and len(numbers) > 1:
                self.keep(message, reply)
                try:
                    return form.answer(reply.whole, message)
                except AnswerError:
                    return None
            part, reply = self._planner.read_reply(reply, message, settings, form, self._on_token)
            self.keep(message, reply)
            return part

    def kept(self, message: Message) -> str | None:
        """Return the stored reply to this message of an unfinished plan; `None` if there is none."""
        return None if self._store is None else self._store.reply(self._planner.identity, _question(message))

    def keep(self, message: Message, reply: Reply) -> None:
        """Store the reply to this message until the plan is complete."""
        if self._store is not None:
            self._store.keep(self._planner.identity, _question(message), reply.whole[:MAX_TEXT])

    def _message(self, form: str | None, **values: str) -> Message:
        assert form is not None, "called only if the prompt set supports plans in parts"
        return planner_message(self._planner.prompt_set, self._request, form, **values)

    def _held(self, name: str) -> ReplySettings:
        """Return the settings with this answer's grammar, if replies are constrained."""
        held = self._settings.grammar is not None
        return self._settings.model_copy(update={"grammar": name}) if held else self._settings

    def _asked(self, name: str, message: Message, settings: ReplySettings) -> Reply:
        if self._on_part is not None:
            self._on_part(name)
        if self._on_token is not None:
            self._on_token("")
        return self._planner.chat.reply([message], settings, self._on_token)


def _question(message: Message) -> str:
    """Return a digest of a message, as 40 hex digits."""
    parts = [part.digest if isinstance(part, Picture) else part for part in message.content]
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()


def parts_of(numbers: range) -> list[range]:
    """Divide the numbers into as few parts as possible, of equal length up to one step."""
    count = -(-len(numbers) // STEPS_A_PART)
    ends = [numbers.start + len(numbers) * place // count for place in range(count + 1)]
    return [range(begin, end) for begin, end in itertools.pairwise(ends)]


def _how_many(count: AskedCount | None) -> str:
    if count is not None and count.is_clear:
        return f"Write {'exactly' if count.exact else 'from'} {count.words} lines."
    return "As many lines as the request asks for; if it names no number, as many as it needs and no more."


def _so_far(written: list[PlanPart]) -> str:
    """Return the planner's last notes and the last prompt, which is always known."""
    if not written:
        return NOTHING_YET
    noted = next((part.state for part in reversed(written) if part.state), "")
    steps = [step for part in written for step in part.steps]
    return "\n".join(filter(None, (noted, _last_drawn(steps))))


def _last_drawn(steps: list[Step]) -> str:
    drawn = [step for step in steps if step.prompt]
    return (
        f"The last picture, of step {drawn[-1].number}, was drawn with: {drawn[-1].prompt}" if drawn else ""
    )


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Prefix the message of an error with the part of the plan in which it occurred."""
    try:
        yield
    except (AnswerError, ChatError) as error:
        error.message = f"{name[0].upper()}{name[1:]}: {error.message}"
        error.args = (error.message,)
        raise


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
        self.chat.check_request(request.text)
        plan = self._written(request, on_token, store)
        warning = self.chat.plan_warning(request.text, plan)
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
        if not shares_weights(self.chat, getattr(staying, "chat", None)):
            self.chat.offload()

    def _reply_settings(self) -> ReplySettings:
        limit = min(PLAN_TOKENS, self.chat.most_tokens or PLAN_TOKENS)
        return self.settings.model_copy(update={"max_tokens": self.settings.max_tokens or limit})


def _is_whole(reply: Reply) -> bool:
    try:
        read_plan(reply.whole)
    except AnswerError:
        return False
    return True
