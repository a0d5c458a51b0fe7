"""`interleave-thinker clips`: makes what is missing, and says what it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import tiny_pipelines
from support.cli_calls import call
from support.clips import COLORS, story

from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.loop.replay import load_trajectory


def test_clips_are_made_and_kept(tmp_path: Path) -> None:
    run = save_trajectory(story(*COLORS), tmp_path / "run")
    pipeline = tiny_pipelines.ltx(tmp_path / "ltx")
    command = ["clips", str(run), "--pipeline", str(pipeline), "--size", "32x32", "--seconds", "0.5"]
    command += ["--steps", "1"]
    first = call(*command)
    assert first.exit_code == 0, first.output
    assert "Step 2: clip of 0.4 s, made in" in first.output and f"2 clips in {run / 'clips'}" in first.output
    again = call(*command, "--json")
    made = [json.loads(line) for line in again.stdout.splitlines() if line.startswith("{")]
    assert [(one["step"], one["cached"]) for one in made] == [(2, True), (4, True)]
    assert all((run / one["file"]).is_file() for one in made)
    assert len(load_trajectory(run).clips) == 2


@pytest.mark.parametrize("colors", [(), ("red",), ("red", "red")])
def test_a_story_without_two_images_has_no_clips(tmp_path: Path, colors: tuple[str, ...]) -> None:
    run = save_trajectory(story(*(colors or (None,))), tmp_path / "run")
    done = call("clips", run, "--pipeline", "nothing")
    assert done.exit_code == 2 and "two different images" in done.output
