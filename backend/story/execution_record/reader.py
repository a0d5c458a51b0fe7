"""Reads `execution_record.json` in the three forms in use (docs/reference/file-formats.md).

A record is a foreign file. Its images are searched only in its own folder and below a given folder
(image_places.py). Images are opened on demand, so a record with ten thousand entries costs no more than its
JSON. A missing image is noted as missing, because published records are often shared without their images. A
verdict is a bool, one of the spellings of a bool, or unknown (`None`); anything else is an error.

A folder with one text and its images is read too: the output of a model that writes and generates in one
pass. Such a model's images and text are saved separately, so the k-th paragraph of the text is taken as the
text of the k-th image. Numbers that do not match are an error: a wrong guess would put texts under other
images.
"""

from __future__ import annotations

import logging
import os
import re
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...core.answers.other_forms import shift_of
from ...core.errors import JournalError, first_fault
from ...core.files.bounded_reader import read_import, read_json
from ...core.files.image_places import ImagePlaces
from ...core.shown_text import shown_text
from ...core.types import MAX_ATTEMPTS, MAX_STEP_IMAGES, MAX_STEPS, Several
from ...core.types.cast import Cast
from ...core.types.values import ValidTexts
from .record import (
    Meaning,
    OptionalText,
    Prompts,
    Record,
    RecordEntry,
    RecordImage,
    RecordStep,
    Words,
    WrittenAttempt,
    WrittenPath,
    meaning_of,
    none_to_nothing,
    prompts_of,
)

LOG = logging.getLogger(__name__)

TEXTS = ("story.txt", "story_00001.txt")
"""Names of the text: one written by hand, and the first one that ComfyUI's Save Text writes as `story`."""
IMAGES = (".png", ".jpg", ".jpeg", ".webp")
MAX_BYTES = 4 * 1024 * 1024
LINE = re.compile(r"^[ \t]*-{3,}[ \t]*$", re.MULTILINE)
BLANK = re.compile(r"\n[ \t]*\n")
NUMBER = re.compile(r"([0-9]+)")


def text_in(folder: str | Path) -> Path | None:
    """Return the text of a folder with a text and images; `None` without one."""
    return next((Path(folder, name) for name in TEXTS if isfile(os.path.join(folder, name))), None)


def listed(text: Path) -> list[dict[str, Any]]:
    """Return a text and the images next to it as an execution record of the form `texts`.

    The text is split at lines of three or more hyphens, or else at blank lines. A paragraph without an image
    may follow at the end; it becomes a text-only step.

    Raises:
        JournalError: The text cannot be read, or the numbers of paragraphs and images do not match.
    """
    content, notice = read_import(text, MAX_BYTES, JournalError, "Story")
    if notice:
        LOG.warning("%s: %s", shown_text(str(text)), notice)
    content = content.replace("\r\n", "\n").replace("\r", "\n")
    parts = (LINE if LINE.search(content) else BLANK).split(content)
    paragraphs = [part.strip() for part in parts if part.strip()]
    images = sorted((one for one in os.listdir(text.parent) if _is_image(one)), key=_by_numbers)
    if not images or not 0 <= len(paragraphs) - len(images) <= 1:
        raise JournalError(
            f"{str(text)!r} has {len(paragraphs)} paragraphs, and {len(images)} images are next to it.",
            "Write one paragraph for each image, in the order of the images' names; one more may follow at "
            "the end. Separate them with blank lines, or all of them with lines of three hyphens (---).",
        )
    steps: list[dict[str, Any]] = [
        {"step": number, "text": paragraph} for number, paragraph in enumerate(paragraphs, 1)
    ]
    for step, image in zip(steps, images, strict=False):
        step["image"] = image
    return steps


def _is_image(name: str) -> bool:
    return name.lower().endswith(IMAGES) and not name.startswith(".")


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `2.png` before `10.png`."""
    return [
        (int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in NUMBER.split(name)
    ]


FILE_NAME = "execution_record.json"
MEANING = "refine_prompt_is"
BESIDE = ("", "images")
"""Folders, relative to the record's, in which images are searched by their base names."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = MAX_ATTEMPTS

WHITE_PAGE = re.compile(r"(?:^|[/\\])white\.png$")
"""Published file name of the white image before a text-to-image step."""
STEP_NUMBER = re.compile(r"^[0-9]{1,9}$")


def _read_success(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False, "none": None, "null": None, "": None}.get(
            value.strip().lower(), value
        )
    return value


class _Entry(ValidTexts):
    """One entry as written, in any of the forms."""

    model_config = ConfigDict(extra="ignore")

    step: int = Field(ge=0, le=10**9)
    prompt: OptionalText = None
    refine_prompt: OptionalText = None
    drawn_with: OptionalText = None
    source_img: WrittenPath = None
    target_img: WrittenPath = None
    image: WrittenPath = None
    beside_imgs: Annotated[
        Annotated[Several[WrittenPath], Field(max_length=MAX_STEP_IMAGES - 1)],
        BeforeValidator(none_to_nothing),
    ] = ()
    success: Annotated[Annotated[bool, Field(strict=True)] | None, BeforeValidator(_read_success)] = None
    reasoning: Words = ""
    text: Words = ""


class _Context(ValidTexts):
    model_config = ConfigDict(extra="ignore")

    execution_plan: Annotated[
        Annotated[Several[RecordStep], Field(max_length=MAX_STEPS)], BeforeValidator(none_to_nothing)
    ] = ()
    reasoning: Words = ""
    cast: Cast = ()


class _Attempts(ValidTexts):
    """Form (a): an object with all attempts."""

    model_config = ConfigDict(extra="ignore")

    user_input: Words = ""
    global_context: Annotated[_Context, BeforeValidator(lambda value: {} if value is None else value)] = (
        _Context()
    )
    steps: Several[_Entry] = Field(max_length=MAX_ENTRIES)
    refine_prompt_is: Meaning | None = None


class _Entries(BaseModel):
    """Forms (b) and (c), converted to a list."""

    steps: Several[_Entry] = Field(max_length=MAX_ENTRIES)


def read_record(path: str | Path) -> Record:
    """Read a record.

    Args:
        path: The record file, or a folder that contains one, or else a text and images (text_and_images.py).

    Raises:
        JournalError: The record is damaged, too large or of an unknown form, the meaning of its refined
            prompts is unclear, or a link leads out of its folder.
    """
    path = Path(path)
    text = None
    if path.is_dir():
        text = None if isfile(path / FILE_NAME) else text_in(path)
        path = text or path / FILE_NAME
    data = listed(text) if text else read_json(path, JournalError, "Record", MAX_RECORD_BYTES)
    places = ImagePlaces(path.parent, JournalError, beside=BESIDE)
    try:
        if isinstance(data, dict) and "steps" in data:
            return _attempts(_Attempts.model_validate(data), places, path)
        if isinstance(data, dict) and 0 < len(data) <= MAX_ENTRIES and all(map(STEP_NUMBER.match, data)):
            numbered = sorted(((int(key), value) for key, value in data.items()), key=lambda item: item[0])
            rows = [
                {**value, "step": number} if isinstance(value, dict) else value for number, value in numbered
            ]
            entries = _Entries.model_validate({"steps": rows}).steps
            prompts = [Prompts(one.refine_prompt or one.prompt, None) for one in entries]
            return Record(form="last", entries=_entries(entries, prompts, _shift(entries), places))
        if isinstance(data, list):
            entries = _Entries.model_validate({"steps": data}).steps
            found_prompts = [Prompts(None, None)] * len(entries)
            return Record(form="texts", entries=_entries(entries, found_prompts, _shift(entries), places))
    except ValidationError as error:
        raise JournalError(
            f"{str(path)!r} is not an execution record{first_fault(error)}",
            "Correct the file, or choose another one.",
        ) from error
    raise JournalError(
        f"{str(path)!r} does not have a known form of an execution record.",
        "Known forms: an object with `steps`, an object of step numbers, a list of steps.",
    )


def _attempts(whole: _Attempts, places: ImagePlaces, path: Path) -> Record:
    plan = whole.global_context.execution_plan
    by_plan = {step.step_number: step.prompt or None for step in plan}
    places_of: dict[int, list[int]] = {}
    for place, entry in enumerate(whole.steps):
        places_of.setdefault(entry.step, []).append(place)
    written = [
        WrittenAttempt(one.prompt or by_plan.get(one.step), one.refine_prompt, one.success, one.drawn_with)
        for one in whole.steps
    ]
    steps = [[written[place] for place in found] for found in places_of.values()]
    meaning = whole.refine_prompt_is or meaning_of(steps)
    if meaning is None:
        raise JournalError(
            f"The meaning of refine_prompt in {str(path)!r} is unclear: an accepted attempt has another "
            "prompt than it was generated with, and a first attempt another prompt than its step.",
            f'Add "{MEANING}": "proposal" (the critic\'s refined prompt, as published) or "drawn with" (the '
            "prompt used) at its top level.",
        )
    prompts = [Prompts(None, None)] * len(written)
    for found, step in zip(places_of.values(), steps, strict=True):
        for place, one in zip(found, prompts_of(step, meaning), strict=True):
            prompts[place] = one
    shift, entry_shift = _shifts(plan, whole.steps)
    return Record(
        form="attempts",
        user_input=whole.user_input,
        plan=tuple(step.model_copy(update={"step_number": step.step_number + shift}) for step in plan),
        reasoning=whole.global_context.reasoning,
        cast=whole.global_context.cast,
        entries=_entries(whole.steps, prompts, entry_shift, places),
        ours=whole.refine_prompt_is is not None or meaning is Meaning.drawn_with,
    )


def _shift(entries: tuple[_Entry, ...]) -> int:
    return shift_of(one.step for one in entries)


def _shifts(plan: tuple[RecordStep, ...], entries: tuple[_Entry, ...]) -> tuple[int, int]:
    """Return what to add to the step numbers of the plan and of the entries.

    Both count from the same number, unless their prompts contradict that.
    """
    of_plan, of_entries = shift_of(step.step_number for step in plan), _shift(entries)
    if of_plan and not of_entries:
        prompts = {step.step_number: step.prompt for step in plan}
        found_prompts = [(one.step, one.prompt) for one in entries if one.prompt]
        if not found_prompts or any(prompts.get(number) == prompt for number, prompt in found_prompts):
            return of_plan, of_plan
    return of_plan, of_entries


def _entries(
    entries: tuple[_Entry, ...], prompts: list[Prompts], shift: int, places: ImagePlaces
) -> tuple[RecordEntry, ...]:
    return tuple(
        RecordEntry(
            step=entry.step + shift,
            prompt=entry.prompt,
            drawn_with=found_prompts.drawn_with,
            proposed=found_prompts.proposed,
            source=_source(entry.source_img, places),
            target=_image(entry.target_img or entry.image, places),
            beside=tuple(one for name in entry.beside_imgs if (one := _image(name, places))),
            success=entry.success,
            reasoning=entry.reasoning,
            text=entry.text,
        )
        for entry, found_prompts in zip(entries, prompts, strict=True)
    )


def _source(written: str | None, places: ImagePlaces) -> RecordImage | None:
    return None if written and WHITE_PAGE.search(written) else _image(written, places)


def _image(written: str | None, places: ImagePlaces) -> RecordImage | None:
    return None if written is None else RecordImage(written=written, file=places.find(written))
