"""Dataset card: content, sources, licenses and known gaps of packed data.

What is not known is stated as not known. A source whose license forbids derivatives is refused, since rows
are derivatives; one that forbids commercial use marks the whole dataset.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_json
from ....backend.shown_text import one_line
from ..decontamination.screening import Screened
from .settings import CardData

CARD = "README.md"
MAX_NAMED = 50
"""Maximum number of rows left out by a guard that the card lists."""
MAX_REPORT = 256 * 1024 * 1024
NO_DERIVATIVES = re.compile(r"(?:^|[-_ ])nd(?:[-_ ]|$)|no[- ]?deriv", re.IGNORECASE)
NON_COMMERCIAL = re.compile(r"(?:^|[-_ ])nc(?:[-_ ]|$)|non[- ]?commercial|research[- ]only", re.IGNORECASE)
TERMS = "check this service's terms: they may restrict training on its outputs"


def check_sources(sources: Sequence[str]) -> list[tuple[str, str]]:
    """Parse sources in the form `NAME=LICENSE`.

    Returns:
        (name, license) of each source.

    Raises:
        SettingsError: A source has another form, or its license forbids derivatives.
    """
    found = []
    for source in sources:
        name, equals, licence = source.partition("=")
        if not equals or not name.strip() or not licence.strip():
            raise SettingsError(
                f"{source!r} is not in the form NAME=LICENSE.", "Write for example CoMM=cc-by-4.0."
            )
        if NO_DERIVATIVES.search(licence):
            raise SettingsError(
                f"The license {licence.strip()!r} of {name.strip()!r} forbids derivatives, such as training "
                "rows.",
                "Leave this source out.",
            )
        found.append((name.strip(), licence.strip()))
    return found


def _by_set() -> defaultdict[str, dict[str, Any]]:
    return defaultdict(dict)


@dataclass
class CardContents:
    """Content of the card.

    `counts` are rows and `data_files` file patterns by set and split; `makers` are model names by role;
    `screened` is what a guard left out during packing, and `earlier` when the rows of a folder were created.
    """

    sources: Sequence[tuple[str, str]] = ()
    guard_report: Path | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=_by_set)
    data_files: dict[str, dict[str, str]] = field(default_factory=_by_set)
    makers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    screened: Screened | None = None
    earlier: Mapping[str, Screened] = field(default_factory=dict)
    trajectories: int = 0
    damaged: int = 0
    without_images: int = 0


def card(about: CardData, contents: CardContents) -> str:
    """Return the card as Markdown.

    Raises:
        SettingsError: The guard report cannot be read.
    """
    lines = ["---", f"license: {json.dumps(about.license)}", "configs:"]
    for name, splits in contents.data_files.items():
        lines += [f"- config_name: {json.dumps(name)}", "  data_files:"]
        for split, pattern in splits.items():
            lines += [f"  - split: {split}", f"    path: {json.dumps(pattern)}"]
    lines += ["---", "", f"# {about.title}", "", "| set | split | rows |", "|---|---|---|"]
    lines += [
        f"| {name} | {split} | {count} |"
        for name, splits in contents.counts.items()
        for split, count in splits.items()
    ]
    if contents.trajectories:
        lines += ["", f"{contents.trajectories} trajectories, each in a folder with its record and images."]
    lines += ["", "## Models", ""]
    for role, names in contents.makers.items():
        terms = "" if role == "generator" else f" ({TERMS})"
        lines += [f"- {role}: {name}{terms}" for name in names] or [f"- {role}: not known"]
    lines += ["", "## Sources", ""]
    for name, licence in contents.sources:
        is_restricted = NON_COMMERCIAL.search(licence)
        mark = " **non-commercial, and therefore this dataset too**" if is_restricted else ""
        lines.append(f"- {name}: {licence}{mark}")
    lines += [] if contents.sources else ["No outside sources are named."]
    lines += ["", "## Contamination", "", *_guard_lines(contents)]
    lines += ["", "## Known gaps", ""]
    if contents.damaged:
        lines.append(f"- {contents.damaged} trajectories could not be read and are not included.")
    if contents.without_images:
        lines.append(f"- {contents.without_images} rows with missing images are not included.")
    lines += [
        "- Verdicts and reasoning are the teacher's; corrections by a judge or a person are in the rows and "
        "in the filter's report.",
        "- The images were not checked for faces, trademarks or styles of real people.",
    ]
    return "\n".join(lines) + "\n"


def _guard_lines(contents: CardContents) -> list[str]:
    lines = [
        f"- when `{one_line(name)}` was created: {one_line(found.as_line())}"
        for name, found in contents.earlier.items()
    ]
    if contents.screened:
        lines.append(f"- when it was packed, for every row: {one_line(contents.screened.as_line())}")
        lines += [f"  - {one_line(f'{where}: {found}')}" for where, found in _first(contents.screened)]
    if contents.guard_report is not None:
        report = read_json(contents.guard_report, SettingsError, "Guard report", MAX_REPORT)
        text = json.dumps(report, ensure_ascii=False, indent=1)
        lines += ["", "Report of `data guard check`:", "", "```json", text[:20_000], "```"]
    return lines or ["Not checked against any benchmark."]


def _first(screened: Screened) -> list[tuple[str, str]]:
    return list(screened.found.items())[:MAX_NAMED]
