"""Files are written completely, under their own names, and never through a link in an untrusted folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.stories import make_trajectory

from interleave_thinker.backend.core.errors import JournalError, SettingsError
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.core.types import Identities, Request, RunSettings
from interleave_thinker.backend.output.exporters import REGISTRY, export_by_name
from interleave_thinker.backend.story.journal.journal import Journal

LEFT = ".index.html.0123456789abcdef.tmp"


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_no_exporter_writes_through_a_link(tmp_path: Path, name: str) -> None:
    trajectory = make_trajectory()
    written = export_by_name(name, trajectory, tmp_path / "first").name
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    (other / "file").write_text("mine")
    (run / written).symlink_to(other / "file")
    export_by_name(name, trajectory, run)
    assert (other / "file").read_text() == "mine" and not (run / written).is_symlink()


@pytest.mark.parametrize("name", ["markdown", "record"])
def test_no_image_is_written_into_a_linked_folder(tmp_path: Path, name: str) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    run.mkdir()
    other.mkdir()
    (run / "images").symlink_to(other)
    with pytest.raises(JournalError, match="is a link"):
        export_by_name(name, make_trajectory(), run)
    assert not list(other.iterdir())
    (run / "images").unlink()
    (run / "images").mkdir()
    for path in export_by_name(name, make_trajectory(), tmp_path / "plain").parent.glob("images/*"):
        (run / "images" / path.name).symlink_to(other / path.name)
    export_by_name(name, make_trajectory(), run)
    assert not list(other.iterdir())


def test_a_prompt_set_is_not_stored_through_a_link(tmp_path: Path) -> None:
    folder, other = tmp_path / "prompt_set", tmp_path / "other"
    other.mkdir()
    folder.symlink_to(other)
    with pytest.raises(SettingsError, match="is a link"):
        default_prompt_set().save(folder)
    folder.unlink()
    folder.mkdir()
    (folder / "critic.txt").symlink_to(other / "file")
    default_prompt_set().save(folder)
    assert not list(other.iterdir()) and not (folder / "critic.txt").is_symlink()


def test_files_of_a_killed_export_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*paths: object) -> None:
        raise KeyboardInterrupt

    request, run = Request(text="A story."), tmp_path / "run"
    begin(run, request)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        patch.setattr(os, "unlink", lambda *given, **options: None)
        with pytest.raises(KeyboardInterrupt):
            export_by_name("markdown", make_trajectory(), run)
        with pytest.raises(KeyboardInterrupt):
            export_by_name("page", make_trajectory(), run)
    assert len(list(run.rglob(".*.tmp"))) == 2
    begin(run, request)
    assert not list(run.rglob(".*.tmp"))


def test_a_folder_named_like_a_temporary_file_is_left_alone(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / LEFT).mkdir(parents=True)
    (run / LEFT / "mine").write_text("x")
    with pytest.raises(JournalError, match="not empty"):
        begin(run, Request(text="A story."))
    begin(tmp_path / "other", Request(text="A story."))
    (run / LEFT).rename(tmp_path / "other" / LEFT)
    (tmp_path / "other" / LEFT.replace("index", "page")).symlink_to("/nowhere")
    begin(tmp_path / "other", Request(text="A story."))
    assert (tmp_path / "other" / LEFT / "mine").read_text() == "x"
    assert not os.path.lexists(tmp_path / "other" / LEFT.replace("index", "page"))


def begin(folder: Path, request: Request) -> None:
    journal = Journal(folder)
    journal.begin(request, RunSettings(), Identities(generator="painted"))
    journal.end()
