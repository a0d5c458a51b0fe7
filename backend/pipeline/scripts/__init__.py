"""Reads scripts as plans: Fountain screenplays, outlines, shot lists.

Every reader is a pure function of the text. Each line of the text is in a step of the plan, or its notice
(`Plan.warning`) names it. A file without any step is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import SettingsError
from ...types import MAX_STEPS, Plan
from .fountain import SCREENPLAY, read_fountain
from .markdown import read_markdown
from .shot_list import is_table_of_tabs, read_shot_list

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
