"""Texts of exports in ten languages: every text of an export is translated, and no text is unused."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.core.drift import Drift
from interleave_thinker.backend.core.errors import SettingsError
from interleave_thinker.backend.output.exporters import ANIMATIONS, export_by_name, options_of, typesetting
from interleave_thinker.backend.output.report.export_options import (
    FOLDER,
    FOUND,
    LANGUAGES,
    NOT_CHECKED,
    words_in,
)
from interleave_thinker.backend.output.report.run_report import StepDrift
from interleave_thinker.backend.story.outcomes import stop_sentence, summarize

EXPORTERS = Path(__file__).resolve().parents[4] / "backend" / "output" / "exporters"
SAID = re.compile(r"""\bsay\(\s*(["'])((?:(?!\1)[^\\]|\\.)+)\1""")
FROM_ELSEWHERE = {
    *("generator", "critic", "source", "planner", "prompt set"),
    *("Not reached", "No image", "kept", "picked by hand", "approved", "approved by time", "Untitled story"),
    *(*FOUND.values(), NOT_CHECKED),
}
"""Names, and texts that reach `say` or `heard` as values."""
OTHERS = LANGUAGES[1:]
DRAWN = ("pdf", "comic", "comic-pdf", "comic-png", "gif", "webp", "sheet")


def said_by_exports() -> set[str]:
    files = [*EXPORTERS.rglob("*.py"), *EXPORTERS.rglob("*.j2")]
    return {text for path in files for _, text in SAID.findall(path.read_text(encoding="utf-8"))}


def content(language: str) -> dict[str, dict[str, str]]:
    return json.loads((FOLDER / f"{language}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_translates_all_export_texts_without_duplicates(language: str) -> None:
    known = content(language)
    assert said_by_exports() | FROM_ELSEWHERE <= known["view"].keys() | known["export"].keys()
    assert known["export"].keys() <= said_by_exports() | FROM_ELSEWHERE
    assert not known["export"].keys() & (known["view"].keys() | known["server"].keys())


def test_lines_of_the_run_are_found_by_their_pattern() -> None:
    words, trajectory = words_in("fr"), make_trajectory()
    assert words.heard(stop_sentence(trajectory.results[0])) != stop_sentence(trajectory.results[0])
    assert "étapes" in words.heard(summarize(trajectory).sentence)
    assert words.heard("A stranger's own words.") == "A stranger's own words."
    assert words_in("en").heard("Accepted at attempt 2") == "Accepted at attempt 2"


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("first", [None, Drift(color=9.5, structure=1.0)])
def test_drift_is_reported_in_the_language(language: str, first: Drift | None) -> None:
    sentence = StepDrift(from_source=Drift(color=1.24, structure=0.078), from_anchor=first).sentence
    said = words_in(language).heard(sentence)
    assert "1.2" in said and "8%" in said and ("100%" in said) == (first is not None)
    assert not re.search(r"colour|first image", said)


@pytest.mark.parametrize("language", ["", "de", "../zh", "EN"])
def test_an_unknown_language_is_rejected(language: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not supported"):
        export_by_name("page", make_trajectory(), tmp_path, language=language)


@pytest.mark.parametrize(("name", "language"), [("markdown", "zh"), *(("page", one) for one in OTHERS)])
def test_a_page_is_in_the_language_around_the_story(name: str, language: str, tmp_path: Path) -> None:
    trajectory, words = make_trajectory(), words_in(language)
    written = export_by_name(name, trajectory, tmp_path, language=language).read_text(encoding="utf-8")
    page = html.unescape(written)
    assert words.say("The plan") in page and words.heard(stop_sentence(trajectory.results[0])) in page
    english = {
        "The request", "Accepted at attempt", "Prompt used", "Show every attempt", "Made by", "not judged",
    }  # fmt: skip
    assert not [text for text in english if text in page]
    assert (trajectory.plan.steps[0].name or "") in page
    if name == "page":
        assert f'<html lang="{language}">' in page


@pytest.mark.parametrize("name", DRAWN)
def test_language_and_title_change_the_rendered_image(name: str, tmp_path: Path) -> None:
    assert {"audience", "title", "language"} <= options_of(name)
    forms = {"english": {}, "french": {"language": "fr"}, "titled": {"title": "A title of its own"}}
    every = {"attempts": True} if name in ANIMATIONS else {}
    made = set()
    for form, options in forms.items():
        export_by_name(name, make_trajectory(2), tmp_path / form, **options, **every)
        made.add(b"".join(path.read_bytes() for path in sorted((tmp_path / form).iterdir())))
    # The pages of a comic have no words of ours.
    assert len(made) == (2 if name.startswith("comic") else 3)


def test_an_export_for_programs_rejects_a_language() -> None:
    for name in ("record", "story", "zip"):
        assert "language" not in options_of(name)


def test_texts_without_a_font_are_rendered_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typesetting, "_has", lambda name, letter: letter.isascii())
    assert typesetting.drawable(words_in("ko")).tag == "en"
    assert typesetting.drawable(words_in("en")).tag == "en"
    monkeypatch.setattr(typesetting, "_has", lambda name, letter: True)
    assert typesetting.drawable(words_in("ko")).tag == "ko"
