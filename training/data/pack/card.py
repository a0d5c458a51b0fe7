"""The dataset card: what is in the data, who made it, under which terms, and what is not known of it.

Decision: what nobody said is written as not known. A source whose licence forbids derivatives is refused, for
rows are derivatives; one that forbids commercial use marks the whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ....backend.errors import SettingsError
from ....backend.files.bounded_reader import read_json

CARD = "README.md"
MAX_REPORT = 256 * 1024 * 1024
NO_DERIVATIVES = re.compile(r"(?:^|[-_ ])nd(?:[-_ ]|$)|no[- ]?deriv", re.IGNORECASE)
NON_COMMERCIAL = re.compile(r"(?:^|[-_ ])nc(?:[-_ ]|$)|non[- ]?commercial|research[- ]only", re.IGNORECASE)
TERMS = "outputs of this service may be restricted for training: check its terms"


class CardData(BaseModel):
    """What a person says of the data."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(default="Interleaved stories", max_length=200, description="Title of the card.")
    license: str = Field(default="unknown", max_length=100, description="Licence of the whole.")


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


def card(
    about: CardData,
    counts: Mapping[str, Mapping[str, int]],
    data_files: Mapping[str, Mapping[str, str]],
    makers: Mapping[str, Sequence[str]],
    sources: Sequence[tuple[str, str]],
    guard_report: Path | None,
) -> str:
    """The card. `counts` are rows by set and split, `data_files` patterns likewise, `makers` names by role.
    Raises SettingsError for a guard report that cannot be read."""
    lines = ["---", f"license: {json.dumps(about.license)}", "configs:"]
    for name, splits in data_files.items():
        lines += [f"- config_name: {json.dumps(name)}", "  data_files:"]
        for split, pattern in splits.items():
            lines += [f"  - split: {split}", f"    path: {json.dumps(pattern)}"]
    lines += ["---", "", f"# {about.title}", "", "| set | split | rows |", "|---|---|---|"]
    lines += [
        f"| {name} | {split} | {count} |"
        for name, splits in counts.items()
        for split, count in splits.items()
    ]
    lines += ["", "## Who made it", ""]
    for role, names in makers.items():
        terms = "" if role == "generator" else f" ({TERMS})"
        lines += [f"- {role}: {name}{terms}" for name in names] or [f"- {role}: not known"]
    lines += ["", "## Sources", ""]
    for name, licence in sources:
        mark = " **non-commercial: so is this data**" if NON_COMMERCIAL.search(licence) else ""
        lines.append(f"- {name}: {licence}{mark}")
    lines += [] if sources else ["No outside source is named."]
    lines += ["", "## Contamination", "", *_guard_lines(guard_report)]
    lines += [
        "",
        "## Known gaps",
        "",
        "- Verdicts and reasoning are the teacher's; what a judge or a person said against them is in the "
        "rows and in the filter's report.",
        "- Nobody has checked the pictures for faces, marks or styles of real people.",
    ]
    return "\n".join(lines) + "\n"


def _guard_lines(path: Path | None) -> list[str]:
    if path is None:
        return ["Not checked against any benchmark."]
    report = read_json(path, SettingsError, "Guard report", MAX_REPORT)
    text = json.dumps(report, ensure_ascii=False, indent=1)
    return ["Held against the benchmarks of a guard index; its report:", "", "```json", text[:20_000], "```"]
