"""Every prompt set of the pack has a number, and pages and reports of a run show which one it used."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.exporters import export_by_name
from interleave_thinker.backend.prompts import NAMES, PromptSet, default_prompt_set, named_prompt_set
from interleave_thinker.backend.prompts.versions import KNOWN, described
from interleave_thinker.backend.report.text import report
from interleave_thinker.backend.types import Trajectory


def test_a_changed_prompt_set_needs_a_new_version() -> None:
    assert KNOWN[default_prompt_set().digest].startswith("default ")
    for name in NAMES:
        assert KNOWN[named_prompt_set(name).digest].startswith(f"{name} ")
    assert len(set(KNOWN.values())) == len(KNOWN)


def asked_in(digests: str) -> Trajectory:
    made = make_trajectory()
    return made.model_copy(update={"identities": made.identities.model_copy(update={"prompt_set": digests})})


def test_a_foreign_prompt_set_is_named_as_such() -> None:
    own = default_prompt_set().digest
    other = PromptSet(planner_text="a", planner_images="b", critic="c").digest
    assert described(f"{own}+{other}") == f"{KNOWN[own]} ({own}), not the pack's own ({other})"
    assert described("") == ""


@pytest.mark.parametrize("name", ["page", "markdown"])
def test_an_exported_run_names_its_prompt_set(tmp_path: Path, name: str) -> None:
    own = default_prompt_set().digest
    written = export_by_name(name, asked_in(own), tmp_path).read_text(encoding="utf-8")
    assert f"{KNOWN[own]} ({own})" in written


def test_the_report_names_its_prompt_set_where_it_is_known() -> None:
    own = default_prompt_set().digest
    assert report(asked_in(own)).endswith(f"\n\nPrompt set: {KNOWN[own]}")
    assert report(asked_in("abc")).endswith("\n\nPrompt set: not the pack's own (abc)")
    assert "Prompt set" not in report(asked_in(""))
