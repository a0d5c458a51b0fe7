"""Hostile files given to the command line: one line of error, and nothing written elsewhere.

Every reader is tested with some kinds of files, and every kind with some readers.
tests/stress/test_hostile_files.py tests all combinations, with limits.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.cli_calls import call
from support.hostile_files import KINDS, READERS, prepare, put

from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, Trajectory
from interleave_thinker.backend.output.exporters import pdf as story_pages
from interleave_thinker.backend.output.exporters.pdf import story_pages as pages_of
from interleave_thinker.backend.output.exporters.pdf import story_pdf

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and sockets of POSIX")

QUICK = [kind for kind in KINDS if "MB" not in kind and "million" not in kind]
LIGHT = [name for name, reader in READERS.items() if not reader.heavy]
CASES = [
    (name, kind)
    for number, name in enumerate(LIGHT)
    for kind in {"pipe", "endless device", QUICK[number % len(QUICK)], QUICK[(number + 7) % len(QUICK)]}
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    prepare(folder)
    return folder


@pytest.mark.parametrize(("name", "kind"), sorted(CASES))
def test_a_hostile_file_gives_a_one_line_error(template: Path, tmp_path: Path, name: str, kind: str) -> None:
    at, reader = tmp_path / "at", READERS[name]
    shutil.copytree(template, at)
    result = call(*put(at, reader, kind))
    if kind in reader.harmless:
        return
    assert result.exit_code in (1, 2), result.output
    said = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(said) == 1 and said[0].startswith("Error: "), result.stderr
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(result.output)
    assert [path.name for path in tmp_path.iterdir()] == ["at"]


def test_the_good_files_are_read(template: Path, tmp_path: Path) -> None:
    """Otherwise every case above could pass for the wrong reason."""
    for number, name in enumerate(LIGHT):
        reader = READERS[name]
        if name in (
            "prompts import",
            "recipe",
            "scripted:FILE",
            "judge IMAGE",
            "run --image",
            "doctor --plan",
        ):
            continue  # nothing good to import, or models that take seconds
        at = tmp_path / str(number)
        shutil.copytree(template, at)
        for path in reader.without:
            (at / path).unlink()
        result = call(*(part.replace("{at}", str(at)) for part in reader.command))
        assert result.exit_code == 0, f"{name}: {result.output}"


def test_book_of_very_long_texts_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_pages, "MAX_STORY_LENGTH", 4000)
    text = "word " * 19_000
    steps = tuple(Step(number=number, auxiliary_text=text) for number in (1, 2))
    story = Trajectory(request=Request(text=text), plan=Plan(steps=steps), results=(), settings=RunSettings())
    pages = pages_of(story, 600)
    assert 3 <= len(pages) <= 20
    assert any(line.endswith("…") for page in pages for one in page.texts for line in one.block.lines)
    assert story_pdf(story).startswith(b"%PDF")
