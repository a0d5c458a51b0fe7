"""Builds the message to a planner: its template with the request and images, for a whole plan or a part.

A part is requested with the planner's own template up to the answer format. So its rules for steps and
prompts apply to every part, and all messages of one plan start with the same text, which a model needs to
process only once. The published prompt set is used as in its own runners (prompts/published.py).
"""

from __future__ import annotations

from ..chat.protocol import Message
from ..errors import SettingsError
from ..prompts import FORM_BEGINS, PromptSet, fill
from ..prompts.published import ENDING
from ..types import Request
from .messages import IMAGE_MARK, filled_parts, message_of
from .requested.count import asked_count


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
