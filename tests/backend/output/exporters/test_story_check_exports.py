"""Findings of story checks on the page and in the execution record; stories without a check are as before."""

from __future__ import annotations

import html
import json
from pathlib import Path

from support.stories import make_trajectory

from interleave_thinker.backend.core.types import StoryCheck, StoryFinding, Trajectory
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.output.exporters.record import read_record

HAT = "The fox must wear a <hat>."


def checked() -> Trajectory:
    trajectory = make_trajectory()
    result = next(one for one in trajectory.results if one.image)
    number, image = result.step.number, result.attempts[0].image
    assert image is not None
    found = StoryFinding(step=number, kind="identity", problem=HAT)
    checks = (
        StoryCheck(key="a", checker="c", images={number: image.digest}, findings=(found,), reopened=number),
        StoryCheck(key="b", checker="c", images={number: "0" * 40}, findings=(found,)),
        StoryCheck(key="c", checker="c", images={}, warning="No server."),
    )
    return trajectory.model_copy(update={"checks": checks})


def test_the_page_shows_findings_about_images_of_the_run(tmp_path: Path) -> None:
    page = html.unescape(export_by_name("page", checked(), tmp_path).read_text(encoding="utf-8"))
    assert page.count(f"Story check, identity, attempt 1: {HAT}") == 1, "not the one about an older image"
    assert "The story was not checked: No server." in page
    french = html.unescape(export_by_name("page", checked(), tmp_path, language="fr").read_text("utf-8"))
    assert f"Contrôle de l'histoire, identité, essai 1 : {HAT}" in french
    assert "Story check" not in export_by_name("page", make_trajectory(), tmp_path).read_text("utf-8")


def test_the_record_has_the_checks(tmp_path: Path) -> None:
    path = export_by_name("record", checked(), tmp_path)
    checks = json.loads(path.read_text(encoding="utf-8"))["story_checks"]
    assert (
        checks[0]["findings"][0]["problem"] == HAT
        and checks[0]["reopened"] == checks[0]["findings"][0]["step"]
    )
    assert [check["warning"] for check in checks] == ["", "", "No server."]
    assert read_record(path).entries, "readers ignore it"
    path = export_by_name("record", make_trajectory(), tmp_path / "plain")
    assert "story_checks" not in path.read_text(encoding="utf-8")
