"""The dataset card: what is in the data, who made it, under which terms, and what is not known of it.

Decision: what nobody said is written as not known. A source whose licence forbids derivatives is refused, for
rows are derivatives; one that forbids commercial use marks the whole.
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
"""Rows that a guard left out, named on the card."""
MAX_REPORT = 256 * 1024 * 1024
NO_DERIVATIVES = re.compile(r"(?:^|[-_ ])nd(?:[-_ ]|$)|no[- ]?deriv", re.IGNORECASE)
NON_COMMERCIAL = re.compile(r"(?:^|[-_ ])nc(?:[-_ ]|$)|non[- ]?commercial|research[- ]only", re.IGNORECASE)
TERMS = "outputs of this service may be restricted for training: check its terms"


def check_sources(sources: Sequence[str]) -> list[tuple[str, str]]:
    """Sources of `NAME=LICENCE` with their licences; raises SettingsError for another form, or a licence that
    forbids derivatives."""
    found = []
    for source in sources:
        name, equals, licence = source.partition("=")
        if not equals or not name.strip() or not licence.strip():
            raise SettingsError(f"{source!r} is no source.", "Write NAME=LICENCE, such as CoMM=cc-by-4.0.")
        if NO_DERIVATIVES.search(licence):
            raise SettingsError(
                f"{name.strip()!r} is under {licence.strip()!r}, which forbids derivatives; rows are some.",
                "Leave this source out.",
            )
        found.append((name.strip(), licence.strip()))
    return found


def _by_set() -> defaultdict[str, dict[str, Any]]:
    return defaultdict(dict)


@dataclass
class CardContents:
    """What is packed. `counts` are rows by set and split, `data_files` patterns likewise, `makers` names by
    role; `screened` is what a guard left out now, `earlier` when the rows of a folder were made."""

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
    """The card; raises SettingsError for a guard report that cannot be read."""
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
        lines += ["", f"{contents.trajectories} trajectories, each in a folder with its record and pictures."]
    lines += ["", "## Who made it", ""]
    for role, names in contents.makers.items():
        terms = "" if role == "generator" else f" ({TERMS})"
        lines += [f"- {role}: {name}{terms}" for name in names] or [f"- {role}: not known"]
    lines += ["", "## Sources", ""]
    for name, licence in contents.sources:
        mark = " **non-commercial: so is this data**" if NON_COMMERCIAL.search(licence) else ""
        lines.append(f"- {name}: {licence}{mark}")
    lines += [] if contents.sources else ["No outside source is named."]
    lines += ["", "## Contamination", "", *_guard_lines(contents)]
    lines += ["", "## Known gaps", ""]
    if contents.damaged:
        lines.append(f"- {contents.damaged} trajectories could not be read and are not in it.")
    if contents.without_images:
        lines.append(f"- {contents.without_images} rows had images that were gone and are not in it.")
    lines += [
        "- Verdicts and reasoning are the teacher's; "
        "what a judge or a person said against them is in the rows and in the filter's report.",
        "- Nobody has checked the pictures for faces, marks or styles of real people.",
    ]
    return "\n".join(lines) + "\n"


def _guard_lines(contents: CardContents) -> list[str]:
    lines = [
        f"- when `{one_line(name)}` was made: {one_line(found.as_line())}"
        for name, found in contents.earlier.items()
    ]
    if contents.screened:
        lines.append(f"- when it was packed, every row: {one_line(contents.screened.as_line())}")
        lines += [f"  - {one_line(f'{where}: {found}')}" for where, found in _first(contents.screened)]
    if contents.guard_report is not None:
        report = read_json(contents.guard_report, SettingsError, "Guard report", MAX_REPORT)
        text = json.dumps(report, ensure_ascii=False, indent=1)
        lines += ["", "Report of `data guard check`:", "", "```json", text[:20_000], "```"]
    return lines or ["Not checked against any benchmark."]


def _first(screened: Screened) -> list[tuple[str, str]]:
    return list(screened.found.items())[:MAX_NAMED]
