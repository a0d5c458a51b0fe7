"""What a planner is asked: its template with the request and its images, for a whole plan or a part of one.

Decision: a part is asked for with the planner's own template up to the form of the answer, so that everything
it says of steps and prompts holds for every part, and all questions of one plan begin with the same text,
which an agent reads once. The published wording is asked as its runners ask (prompts/published.py).
"""

from __future__ import annotations

from ..chat.protocol import Message
from ..errors import SettingsError
from ..prompts import FORM_BEGINS, PromptSet, fill
from ..prompts.published import ENDING
from ..types import Request
from .asked_count import asked_count
from .asking import IMAGE_MARK, filled_parts, message_of


def planner_message(
    prompt_set: PromptSet, request: Request, form: str | None = None, **values: str
) -> Message:
    """The question for a request. `form` stands in place of the template's own form of the answer, `values`
    fill its slots beside the request. Raises SettingsError for `<image>` marks that are not as many as
    images."""
    given = len(request.images)
    marks = request.text.count(IMAGE_MARK)
    if marks and marks != given:
        raise SettingsError(
            f"The request has {marks} {IMAGE_MARK} mark(s) but {given} image(s).",
            "Write one mark for each image, in their order, or none at all.",
        )
    template = prompt_set.planner_images if given else prompt_set.planner_text
    if form is not None:
        template = template.partition(FORM_BEGINS)[0] + form
    # A template with marks of its own has placed the images already; the user's marks are then only words.
    own = template.count(IMAGE_MARK)
    if own and given and own != given and not marks:
        raise SettingsError(
            f"The planner's template has {own} {IMAGE_MARK} mark(s) but {given} image(s) are given."
        )
    # Marks in what the agent wrote itself are words.
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
    if count is None or not (count.exact or count.least < count.most):
        return ""
    return (
        f"\n\nWrite {'exactly' if count.exact else 'from'} {count.words} step{'s' if count.most > 1 else ''}."
    )
