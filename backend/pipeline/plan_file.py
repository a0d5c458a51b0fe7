"""Reads files as plans: plan.json, text plans, agents' answers, execution records and scripts.

A person's own plan is read strictly, as Edit Plan reads it: an unknown field is an error, since the person
can correct it. Only a file in the agents' answer format that is not a plan of Edit Plan is read as an agent's
answer. Scripts are Fountain screenplays, outlines and shot lists. Each of their lines is in a step of the
plan, or its notice (`Plan.warning`) names it. A file without any step is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ..core.answers.other_forms import normal_key
from ..core.answers.reading import read_plan
from ..core.errors import AnswerError, SettingsError, first_fault
from ..core.files.bounded_reader import parse_json, read_import
from ..core.files.image_places import with_step_images
from ..core.pictures import Picture
from ..core.types import MAX_STEPS, MAX_TEXT, Plan
from ..story.execution_record.reader import FILE_NAME as RECORD
from ..story.journal.journal import Journal
from ..story.journal.run_files import PLAN, RUN, RunFiles
from ..story.plan_editor.edited_plan import PlanTextError
from ..story.plan_editor.json_form import STEPS
from ..story.plan_editor.merge import apply_edits, read_edits
from .fountain import SCREENPLAY, read_fountain
from .script_tables import is_table_of_tabs, read_markdown, read_shot_list

MAX_SCRIPT = 1_000_000
"""Maximum length of a script in characters: a screenplay of 120 pages has about 200,000."""
READERS: dict[str, Callable[[str], Plan]] = {
    ".fountain": read_fountain,
    ".md": read_markdown,
    ".txt": lambda text: _reader_of_text(text)(text),
    ".csv": read_shot_list,
    ".tsv": read_shot_list,
}
"""Readers by the ending of the file. They raise ValueError with a sentence if they find no plan."""


def _reader_of_text(text: str) -> Callable[[str], Plan]:
    if is_table_of_tabs(text):
        return read_shot_list
    return read_fountain if SCREENPLAY.search(text) else read_markdown


def read_script(text: str, ending: str, where: str) -> Plan:
    """Read a script.

    Args:
        text: Content of the file.
        ending: Ending of its name, a key of `READERS`.
        where: Name of the file for error messages.

    Raises:
        SettingsError: It has no steps, or more than a plan can have.
    """
    if len(text) > MAX_SCRIPT:
        raise SettingsError(
            f"{where}: it has {len(text):,} characters; the maximum is {MAX_SCRIPT:,}.", "Divide the script."
        )
    try:
        return READERS[ending](text.replace("\r\n", "\n").replace("\r", "\n"))
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it has a text that a plan cannot hold"
        raise SettingsError(
            f"{where}: {reason}.", f"A plan has 1 to {MAX_STEPS} steps. See the page about scripts."
        ) from error


MAX_PLAN_FILE = 16 * 1024 * 1024
ONLY_EDITED = re.compile(r'"(?:settings|locked|made_from|style|cast|facts)"\s*:')
"""Fields of a plan in Edit Plan, which an agent's answer does not have."""
ONLY_OUTLINE = re.compile(r"^\s+(?:draw|do|text|prompt): ", re.MULTILINE)
"""Lines of an outline of Edit Plan, which no script has."""
ANSWER = re.compile(r"<answer\b|<think\b|execution_plan", re.IGNORECASE)
OTHER_TEXT = re.compile(rf"\A\s*(?:[\[{{]|style:)|{ANSWER.pattern}", re.IGNORECASE)
"""Content of a text file that is a plan in another form, not a script."""
NUMBER = re.compile(r"[0-9]{1,9}")


class PlanFile(NamedTuple):
    """A plan with the text of its request, which is empty if the file does not have it."""

    plan: Plan
    request: str = ""


def read_plan_file(path: Path) -> Plan:
    """Read a plan and the image files that its steps name, which are next to it.

    Args:
        path: A run folder; its plan.json or trajectory.json; an execution record or its folder; an agent's
            answer, as published (`{"execution_plan": [...]}`, with its reasoning, or as Python writes it);
            a plan of Edit Plan as JSON or as an outline; or a script (see `scripts`).

    Returns:
        The plan. `warning` names what was left out of a script, and an encoding that was guessed.

    Raises:
        SettingsError: The file is not a plan; the message names the first wrong field or step.
        JournalError: The file is a record that cannot be read.
    """
    return _read(_file_of(path)).plan


def read_plan_and_request(path: Path) -> PlanFile:
    """Read a plan as `read_plan_file`, with the request of its run.

    Raises:
        SettingsError: The file is not a plan.
        JournalError: The file is a record, or next to a run.json, that cannot be read.
    """
    path = _file_of(path)
    found = _read(path)
    if found.request or path.name != PLAN or not (path.parent / RUN).is_file():
        return found
    return PlanFile(found.plan, Journal(path.parent).record().request.text)


def _file_of(path: Path) -> Path:
    """Return the file with the plan, if a folder is given."""
    if not path.is_dir():
        return path
    return path / (RECORD if (path / RECORD).is_file() and not (path / PLAN).is_file() else PLAN)


def _read(path: Path) -> PlanFile:
    text, notice = read_import(path, MAX_PLAN_FILE, SettingsError, "Plan")
    found = _read_text(text, path)
    if not notice:
        return found
    warning = f"{notice} {found.plan.warning}".strip()[:MAX_TEXT]
    return found._replace(plan=found.plan.model_copy(update={"warning": warning}))


def _read_text(text: str, path: Path) -> PlanFile:
    where = f"Plan {str(path)!r}"
    ending = path.suffix.lower()
    if ending in READERS and not (
        ONLY_OUTLINE.search(text) or (ending == ".txt" and OTHER_TEXT.search(text))
    ):
        return PlanFile(read_script(text, ending, where))
    if text.lstrip()[:1] not in ("{", "["):
        return PlanFile(_answer(text, where) if ANSWER.search(text) else _edited(text, where, path))
    try:
        content = parse_json(text, SettingsError, where)
    except SettingsError as error:
        return PlanFile(_else_answer(text, error))
    if isinstance(content, list) or STEPS in content:
        return PlanFile(_edited_or_answer(text, content, where, path))
    if "global_context" in content or (content and all(map(NUMBER.fullmatch, content))):
        return _recorded(path)
    if isinstance(content.get("plan"), dict) and isinstance(content.get("request"), dict):
        return PlanFile(_plan(content["plan"], where, path), str(content["request"].get("text") or ""))
    if "steps" not in content and "plan" in content:
        return PlanFile(_answer(text, where))
    return PlanFile(_plan(content, where, path))


def _edited_or_answer(text: str, content: Any, where: str, path: Path) -> Plan:
    try:
        return _edited(text, where, path)
    except SettingsError as error:
        steps = content if isinstance(content, list) else content[STEPS]
        # A misspelled field of a person's plan is not dropped: published plans always have both texts.
        keys = [{normal_key(key) for key in one} for one in steps if isinstance(one, dict)] if steps else []
        if not keys or not all({"prompt", "auxiliary_text"} <= one for one in keys):
            raise
        return _else_answer(text, error)


def _else_answer(text: str, error: SettingsError) -> Plan:
    """Return the plan of a text as an agent's answer. If it is none, raise the given error."""
    if ONLY_EDITED.search(text):
        raise error
    try:
        return read_plan(text)
    except AnswerError:
        raise error from None


def _edited(text: str, where: str, path: Path) -> Plan:
    try:
        plan = apply_edits(read_edits(text), None).plan
    except PlanTextError as error:
        raise SettingsError(f"{where}: {error.message}", error.hint) from error
    return with_step_images(plan, path.parent)


def _answer(text: str, where: str) -> Plan:
    try:
        return read_plan(text)
    except AnswerError as error:
        raise SettingsError(f"{where}: {error.message}", error.hint) from error


def _plan(content: Any, where: str, path: Path) -> Plan:
    folder = RunFiles(path.parent)

    def picture(digest: str) -> Picture:
        found = folder.read_picture(digest)
        if found is None:
            raise SettingsError(
                f"{where} refers to image {digest!r}, which is not in the folder of the plan.",
                "Use the plan.json in its run folder, or name an image file without a digest.",
            )
        return found

    try:
        plan = Plan.model_validate(content, context={"pictures": picture})
    except ValidationError as error:
        raise SettingsError(f"{where}{first_fault(error, Plan)}") from error
    return with_step_images(plan, path.parent)


def _recorded(path: Path) -> PlanFile:
    from ..story.execution_record.reader import read_record
    from ..story.execution_record.trajectory import record_trajectory

    trajectory = record_trajectory(read_record(path))
    return PlanFile(trajectory.plan, trajectory.request.text)
