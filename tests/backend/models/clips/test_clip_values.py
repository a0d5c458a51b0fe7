"""Clips as values: the pairs of a story, the clips that belong to them, and their frames as a movie."""

from __future__ import annotations

import tempfile

import pytest
from support.clips import COLORS, blend, plain, story

from interleave_thinker.backend.core.errors import GeneratorError, JournalError
from interleave_thinker.backend.core.files import video as encoding
from interleave_thinker.backend.core.files.video import clip_of, frames_of
from interleave_thinker.backend.core.types import Trajectory
from interleave_thinker.backend.core.types.clip import Clip, Footage, Movie
from interleave_thinker.backend.story.clips import clip_pairs, clips_of, missing_pairs, with_clips


def test_pairs_join_successive_images_over_text_and_equal_images() -> None:
    pairs = clip_pairs(story("red", "blue", None, "green", "green"))
    assert [(pair.step, pair.prompt) for pair in pairs] == [(2, "All is blue."), (4, "All is green.")]
    assert pairs[0].last == pairs[1].first == plain("blue")


def test_a_clip_belongs_to_its_images_and_prompt_alone() -> None:
    told = story(*COLORS)
    told = with_clips(told, [clip_of(pair, blend(pair)) for pair in clip_pairs(told)])
    assert sorted(clips_of(told)) == [2, 4] and not missing_pairs(told)
    other = told.model_copy(update={"results": story("red", "gold", None, "green").results})
    assert not clips_of(other)
    assert [pair.step for pair in missing_pairs(other)] == [2, 4]
    other = told.model_copy(update={"results": story("gold", "blue", None, "green").results})
    assert sorted(clips_of(other)) == [4]
    assert with_clips(other, ()).clips == (clips_of(told)[4],)


def test_a_movie_returns_the_frames() -> None:
    pair = clip_pairs(story(*COLORS))[0]
    clip = clip_of(pair, blend(pair), maker="blend")
    assert (clip.frames, clip.size, clip.seconds, clip.maker) == (5, (32, 32), 0.625, "blend")
    shown = [frame.getpixel((16, 16)) for frame in frames_of(clip)]
    assert len(shown) == 5
    expected = ((255, 0, 0), (127, 0, 128), (0, 0, 255))
    for got, color in zip((shown[0], shown[2], shown[4]), expected, strict=True):
        assert isinstance(got, tuple)
        assert max(abs(one - other) for one, other in zip(got, color, strict=True)) < 12


def test_a_movie_that_is_not_what_its_clip_states_is_refused() -> None:
    pair = clip_pairs(story(*COLORS))[0]
    clip = clip_of(pair, blend(pair))
    for change in ({"frames": 4}, {"frames": 6}, {"size": (64, 32)}, {"movie": Movie(b"no movie")}):
        with pytest.raises(JournalError, match=clip.model_copy(update=change).movie.digest):
            list(frames_of(clip.model_copy(update=change)))


def test_frames_that_no_clip_can_have_are_refused() -> None:
    pair = clip_pairs(story(*COLORS))[0]
    mixed = Footage([plain("red"), plain("red", 64)], 8)
    rates = [Footage([plain("red")] * 2, fps) for fps in (0, 1e-9, 121, float("nan"))]
    for footage in (Footage([], 8), mixed, Footage([plain("red", 1)], 8), *rates):
        with pytest.raises(GeneratorError, match="step 2"):
            clip_of(pair, footage)


@pytest.mark.parametrize("broken", ["disk", "encoder"])
def test_a_failure_of_the_encoder_names_the_step(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    pair = clip_pairs(story(*COLORS))[0]
    if broken == "disk":
        monkeypatch.setattr(tempfile, "tempdir", "/missing folder")
    else:
        monkeypatch.setattr(encoding, "CODEC", "libx000")
    with pytest.raises(GeneratorError, match="clip of step 2 cannot be encoded"):
        clip_of(pair, blend(pair))


def test_odd_sides_become_even() -> None:
    pair = clip_pairs(story(*COLORS))[0]
    clip = clip_of(pair, Footage([plain("red", 33)] * 2, 8))
    assert clip.size == (32, 32) and len(list(frames_of(clip))) == 2


def test_a_story_without_clips_is_written_as_before() -> None:
    told = story(*COLORS)
    assert "clips" not in told.model_dump()
    pair = clip_pairs(told)[0]
    clip = clip_of(pair, blend(pair))
    written = with_clips(told, [clip]).model_dump_json()
    movies = {clip.movie.digest: clip.movie}
    pictures = {one.image.digest: one.image for one in told.results if one.image}
    read = Trajectory.model_validate_json(
        written, context={"pictures": pictures.__getitem__, "movies": movies.__getitem__}
    )
    assert read.clips == (clip,) and isinstance(read.clips[0], Clip)


def test_the_verdict_that_earlier_versions_stored_with_a_clip_is_ignored() -> None:
    pair = clip_pairs(story(*COLORS))[0]
    clip = clip_of(pair, blend(pair))
    stored = dict(clip) | {"accepted": False, "reasoning": "The boat vanished."}
    assert Clip.model_validate(stored) == clip
