"""Clips of the tiny world: exact frames, planted faults, and rows and verdicts about them."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from interleave_thinker.backend.answers.reading import read_verdict
from interleave_thinker.backend.errors import GeneratorError, SettingsError
from interleave_thinker.backend.pipeline.clips.attempts import ClipRun
from interleave_thinker.backend.types import RunSettings, StopReason
from interleave_thinker.backend.types.clip import ClipPair
from interleave_thinker.tinyworld.lab.clips.critic import BatchedClipCritic
from interleave_thinker.tinyworld.lab.clips.in_between import ClipScript, Hidden, frames_of, tracks_of
from interleave_thinker.tinyworld.lab.clips.oracle import OracleClipCritic, fault_in
from interleave_thinker.tinyworld.lab.clips.planted import (
    HELD_OUT,
    KEEP,
    SLOWLY,
    TRAINED,
    ClipPrompt,
    Kind,
    TinyClips,
    plant,
    read_clip_prompt,
    script_of,
)
from interleave_thinker.tinyworld.lab.clips.rows import JudgedClip, make_rows, random_clip
from interleave_thinker.tinyworld.lab.world.scenes import random_edit, random_scene
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.drawing import draw
from interleave_thinker.tinyworld.runtime.reading import UNREADABLE
from interleave_thinker.tinyworld.runtime.scene import (
    EMPTY,
    Add,
    ChangeBackdrop,
    Edit,
    Move,
    Recolor,
    Remove,
    Replace,
    Scene,
    identity_of,
)

BOAT, BLUE_BOAT, SUN = identity_of("red", "boat"), identity_of("blue", "boat"), identity_of("yellow", "sun")
SEA = Scene(2).put(3, BOAT).put(2, SUN)
"""A red boat at the left and a yellow sun at the top right."""
EDITS: tuple[Edit, ...] = (
    Add(identity_of("white", "fish"), 7),
    Remove("boat"),
    Recolor("boat", "blue"),
    Move("boat", 5),
    Replace("boat", identity_of("white", "fish")),
    ChangeBackdrop(1),
)


def clip(edit: Edit) -> ClipScript:
    return ClipScript(SEA, edit.apply(SEA))


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
def test_a_clip_starts_and_ends_with_the_images_and_changes_in_every_frame(edit: Edit) -> None:
    frames = frames_of(clip(edit), 9)
    assert (frames[0], frames[-1]) == (draw(SEA), draw(edit.apply(SEA)))
    assert len({one.digest for one in frames}) == 9


@pytest.mark.parametrize(
    ("edit", "cells"),
    [
        (Move("boat", 5), {3: EMPTY, 4: BOAT, 5: EMPTY, 2: SUN}),
        (Move("boat", 4), {3: UNREADABLE, 4: UNREADABLE, 2: SUN}),
        (Recolor("boat", "blue"), {3: UNREADABLE}),
        (Add(BLUE_BOAT, 8), {8: UNREADABLE, 3: BOAT}),
        (Remove("sun"), {2: UNREADABLE}),
        (Replace("sun", BLUE_BOAT), {2: UNREADABLE}),
    ],
)
def test_halfway_things_are_halfway(edit: Edit, cells: dict[int, int]) -> None:
    shown = clip(edit).cells(0.5)
    assert {cell: shown[cell] for cell in cells} == cells


def test_a_moving_and_recolored_thing_is_one_thing() -> None:
    after = Scene(2).put(4, BLUE_BOAT).put(2, SUN)
    assert {(one.from_cell, one.to_cell) for one in tracks_of(SEA, after)} == {(2, 2), (3, 4)}


@pytest.mark.parametrize("kind", [*TRAINED, HELD_OUT])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: type(edit).__name__)
def test_a_planted_fault_is_in_the_frames_and_found_by_the_oracle(kind: Kind, edit: Edit) -> None:
    prompt = ClipPrompt(edit).text()
    script = plant(kind, SEA, edit, Random(3))
    assert script is not None
    frames = frames_of(script)
    assert frames[0] == draw(SEA)
    assert fault_in(frames, prompt) == ("vanished" if kind == HELD_OUT else kind)
    assert (frames[-1] == draw(edit.apply(SEA))) == (kind != "wrong direction")
    assert fault_in(frames_of(clip(edit)), prompt) is None


@pytest.mark.parametrize("kind", [*TRAINED, HELD_OUT])
def test_a_clause_prevents_its_kind_of_fault_and_can_be_read(kind: Kind) -> None:
    prompt = ClipPrompt(Move("boat", 5))
    assert not prompt.prevents(kind)
    against = prompt.against(kind, SEA)
    assert against.prevents(kind) and read_clip_prompt(against.text()) == against
    others = [one for one in (*TRAINED, HELD_OUT) if against.prevents(one)]
    assert set(others) == ({"vanished", HELD_OUT} if kind in ("vanished", HELD_OUT) else {kind})


def test_the_stated_share_of_clips_is_wrong_and_half_of_the_faults_repeat() -> None:
    rng, first, again = Random(1), [], []
    for _ in range(1500):
        scene = random_scene(rng)
        prompt = ClipPrompt(random_edit(rng, scene))
        plain = ClipScript(scene, prompt.edit.apply(scene))
        first.append(script_of(scene, prompt, 1) != plain)
        again.append(script_of(scene, prompt, 2) != plain)
    both = sum(one and two for one, two in zip(first, again, strict=True)) / len(first)
    # 0.36 = 1 - 0.8 * 0.8, less the few scenes without a place for the fault; both: 0.2 + 0.8 * 0.04.
    assert sum(first) / len(first) == pytest.approx(0.36, abs=0.04)
    assert both == pytest.approx(0.23, abs=0.04)


def test_the_verdict_is_about_the_frames_that_are_shown() -> None:
    script = ClipScript(SEA, SEA.put(3, BLUE_BOAT), hidden=Hidden(tracks_of(SEA, SEA)[0], 0.2, 0.3))
    prompt = ClipPrompt(Recolor("boat", "blue"))
    assert JudgedClip(script, prompt, 3).success
    five = JudgedClip(script, prompt, 5)
    verdict = five.verdict()
    assert not five.success and verdict.refined_prompt == f"make the boat blue; {KEEP}"
    assert "was left red boat want left blue boat see left blue boat" in verdict.reasoning
    assert "was top right" not in verdict.reasoning, "it stays right, so only the middle frames are about it"
    assert "see 2 top right nothing no" in verdict.reasoning
    assert "see 2 left change yes" in verdict.reasoning
    assert "see 3 top right yellow sun yes" in verdict.reasoning
    assert verdict.reasoning.endswith("so no")


@pytest.mark.parametrize("kind", [None, *TRAINED])
def test_labels_agree_with_pixels(kind: Kind | None) -> None:
    """With all frames shown, what the rows call right is what the oracle calls right."""
    rng = Random(7)
    for _ in range(12):
        one = random_clip(rng, 9, [kind])
        found = fault_in(frames_of(one.script, 9), ClipPrompt(one.prompt.edit).text())
        assert one.wrong == found == kind


def test_rows_teach_the_critics_form(tmp_path: Path) -> None:
    rows = make_rows(tmp_path, 12, seed=0)
    verdicts = [read_verdict(row.messages[1].content) for row in rows]
    assert {one.success for one in verdicts} == {True, False}
    for row, verdict in zip(rows, verdicts, strict=True):
        assert len(row.images) in (2, 3, 5) and all((tmp_path / name).is_file() for name in row.images)
        assert row.messages[0].content.count("<image>") == len(row.images)
        words = re.findall(r"\b(?:yes|no)\b", verdict.reasoning)
        assert (words[-1] == "yes") == verdict.success == ("no" not in words[:-1])
    assert SLOWLY in " ".join(row.messages[1].content for row in rows)


def pair(edit: Edit) -> ClipPair:
    after = edit.apply(SEA)
    return ClipPair(step=2, first=draw(SEA), last=draw(after), prompt=ClipPrompt(edit).text())


def test_with_the_oracle_nearly_all_clips_become_right() -> None:
    rng, right = Random(5), []
    for number in range(12):
        scene = random_scene(rng)
        edit = random_edit(rng, scene)
        wanted = ClipPair(
            step=2, first=draw(scene), last=draw(edit.apply(scene)), prompt=ClipPrompt(edit).text()
        )
        result = ClipRun(TinyClips(), OracleClipCritic(), RunSettings(seed=number)).clip(wanted)
        assert result.kept is not None and result.kept.footage is not None
        frames = result.kept.footage.frames
        right.append(fault_in(frames, wanted.prompt) is None)
        assert right[-1] == (result.stop_reason is StopReason.accepted)
    assert sum(right) >= 11


def test_a_foreign_prompt_is_refused() -> None:
    foreign = pair(EDITS[0]).model_copy(update={"prompt": "a photo of a cat"})
    with pytest.raises(GeneratorError, match="photo of a cat"):
        TinyClips().make(foreign, 0)


def test_the_shipped_critic_is_not_a_critic_of_clips() -> None:
    with pytest.raises(SettingsError, match="not a critic of clips"):
        BatchedClipCritic(checkpoint("critic"), 3)
