"""docs/tutorials/first-story-python.md: its ten lines run as written, and resume after a kill."""

from __future__ import annotations

import os
import re
import runpy
import signal
from pathlib import Path

import pytest

from interleave_thinker.backend.story.journal.journal import Journal
from interleave_thinker.backend.story.journal.store import DrawRecord

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "tutorials" / "first-story-python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.M | re.S)


def records(folder: Path) -> dict[str, tuple[int, str]]:
    """Return the attempts and verdicts of the run, each with the time of its last change."""
    files = sorted((folder / "my-story").glob("[av]*s/*.json"))
    return {path.name: (path.stat().st_mtime_ns, path.read_text("utf-8")) for path in files}


def test_the_story_of_the_document_has_at_most_ten_lines() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10


def test_the_ten_lines_resume_after_a_kill_and_generate_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import diffusers  # noqa: F401 - loaded once, for the child too
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "story.py").write_text(BLOCKS[0], encoding="utf-8")
    keep = Journal.keep_drawn

    def keep_and_stop(self: Journal, drawn: DrawRecord) -> None:
        keep(self, drawn)
        os.kill(os.getpid(), signal.SIGSTOP)

    child = os.fork()
    if child == 0:
        try:
            Journal.keep_drawn = keep_and_stop  # type: ignore[method-assign]
            runpy.run_path("story.py")
        finally:
            os._exit(1)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]), "it ended without a record"
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    before = records(tmp_path)
    assert before and not (tmp_path / "my-story" / "trajectory.json").exists()

    runpy.run_path("story.py")
    done = records(tmp_path)
    assert done.items() >= before.items() and len(done) > len(before)
    *attempts, last = capsys.readouterr().out.splitlines()
    assert last == "True 2 my-story/story.pdf"
    assert (tmp_path / "my-story" / "story.pdf").read_bytes()[:5] == b"%PDF-"

    runpy.run_path("story.py")
    assert records(tmp_path) == done
    *reused, last = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[0] for line in reused] == [line.rpartition(" ")[0] for line in attempts]
    assert all(line.endswith(" True") for line in reused)
