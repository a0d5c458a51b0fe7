"""Reads what writers and directors have already as a plan: Fountain scripts, Markdown outlines, shot lists.

Every reader is a pure function of the text. What it does not understand it leaves out only where the format
says so (notes, transitions, page breaks); a file without any step is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import SettingsError
from ...types import MAX_STEPS, Plan
from .fountain import read_fountain
from .markdown import read_markdown
from .shot_list import read_shot_list

READERS: dict[str, Callable[[str], Plan]] = {
    ".fountain": read_fountain,
    ".md": read_markdown,
    ".csv": read_shot_list,
    ".tsv": read_shot_list,
}
"""Readers by the ending of the file. They raise ValueError with a sentence if they find no plan."""


def read_script(text: str, ending: str, where: str) -> Plan:
    """Read a script.

    Args:
        text: Content of the file.
        ending: Ending of its name, a key of `READERS`.
        where: Name of the file for error messages.

    Raises:
        SettingsError: It has no steps, or more than a plan can have.
    """
    try:
        return READERS[ending](text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except ValueError as error:
        reason = str(error) if type(error) is ValueError else "it has a text that a plan cannot hold"
        raise SettingsError(
            f"{where}: {reason}.", f"A plan has 1 to {MAX_STEPS} steps. See the page about scripts."
        ) from error
