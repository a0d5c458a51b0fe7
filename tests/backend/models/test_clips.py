"""Making clips: lengths and sizes by family, what is made and what is kept, and pipelines of diffusers."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import tiny_pipelines
from support.clips import COLORS, blend, plain, story

from interleave_thinker import Story, Trajectory, load_trajectory
from interleave_thinker.backend.core.errors import Cancelled, GeneratorError, JournalError, SettingsError
from interleave_thinker.backend.core.files import video as encoding
from interleave_thinker.backend.core.files.video import clip_of, frames_of
from interleave_thinker.backend.core.types.clip import Clip, ClipPair, Footage, Movie
from interleave_thinker.backend.models import clips as pipelines
from interleave_thinker.backend.models.clips import FAMILIES, LTX, MINIMAX, WAN, open_clip_maker
from interleave_thinker.backend.story.clips import clip_pairs, clips_of, missing_pairs, with_clips
from interleave_thinker.backend.story.journal.copy import save_trajectory
from interleave_thinker.backend.story.journal.journal import Journal

SMALL = {"size": "64x32", "seconds": 0.5, "steps": 1}


class Blends:
    """Blends both images, and fails at the steps of `fails`."""

    def __init__(self, identity: str = "blend", fails: tuple[int, ...] = ()) -> None:
        self.identity, self.fails = identity, fails
        self.made: list[int] = []

    def make(self, pair: ClipPair, seed: int) -> Footage:
        if pair.step in self.fails:
            raise GeneratorError("No memory left.")
        self.made.append(pair.step)
        return blend(pair)


@pytest.mark.parametrize("family", FAMILIES.values())
@pytest.mark.parametrize("seconds", [0.01, 3.3, 500.0])
def test_a_length_is_one_that_the_model_supports(family, seconds: float) -> None:
    length = family.length(seconds)
    assert length % family.step == family.rest and 1 < length <= family.most
    if 1 <= seconds <= 5:
        assert abs(length - seconds * family.fps) <= family.step / 2
    assert family.frames % family.step == family.rest


def test_lengths_and_sizes_of_the_families() -> None:
    assert [family.length(5) for family in (WAN, LTX, MINIMAX)] == [81, 121, 124]
    assert WAN.size((1024, 1024)) == (624, 624) and WAN.size((832, 480)) == (832, 480)
    assert LTX.size((64, 48)) == (736, 544) and LTX.size((32, 32), 64 * 64) == (64, 64)
    assert MINIMAX.size((10_000, 1)) == (101600, 32), "a side never falls below the multiple"


def test_clips_are_made_once_and_again_when_something_changed(tmp_path: Path) -> None:
    told = story(*COLORS)
    folder = save_trajectory(told, tmp_path / "run")

    def made(maker: Blends, **options) -> list[int]:
        shown = []
        result = Story(load_trajectory(folder), folder).make_clips(maker, on_clip=shown.append, **options)
        assert result.trajectory == load_trajectory(folder) and len(result.trajectory.clips) == 2
        assert [one.pair.step for one in shown if not one.cached] == maker.made
        return maker.made

    assert made(Blends()) == [2, 4]
    assert made(Blends()) == []
    movie = next((folder / "clips").glob("*.mp4"))
    data = movie.read_bytes()
    movie.write_bytes(data[:-1] + b"?")
    with pytest.raises(JournalError, match="was changed or damaged"):
        made(Blends())
    assert made(Blends(), again=True) == [2, 4] and movie.read_bytes() == data
    assert made(Blends("other")) == [2, 4], "another model"
    assert made(Blends("other"), seed=1) == [2, 4], "another seed"
    assert made(Blends("other"), seed=1, again=True) == [2, 4]
    with pytest.raises(SettingsError, match="steps"):
        made(Blends(), steps=3)


def test_a_failed_clip_leaves_those_before_it(tmp_path: Path) -> None:
    folder = save_trajectory(story(*COLORS), tmp_path / "run")
    with pytest.raises(GeneratorError, match="memory"):
        Story(load_trajectory(folder), folder).make_clips(Blends(fails=(4,)))
    maker = Blends()
    Story(load_trajectory(folder), folder).make_clips(maker)
    assert maker.made == [4]


def test_a_story_in_memory_has_its_clips_and_a_run_in_use_is_refused(tmp_path: Path) -> None:
    told = Story(story(*COLORS)).make_clips(Blends())
    assert sorted(clips_of(told.trajectory)) == [2, 4]
    folder = save_trajectory(told.trajectory, tmp_path / "run")
    with Journal(folder).writing(), pytest.raises(JournalError, match="using"):
        Story(told.trajectory, folder).make_clips(Blends("other"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = tmp_path_factory.mktemp("pipelines")
    return {"wan": tiny_pipelines.wan(made / "wan"), "ltx": tiny_pipelines.ltx(made / "ltx")}


@pytest.fixture
def ftfy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Wan's pipeline run without ftfy, which only repairs broken Unicode in prompts."""
    monkeypatch.setattr(pipelines, "find_spec", lambda name: name)
    wan = importlib.import_module("diffusers.pipelines.wan.pipeline_wan_i2v")
    monkeypatch.setattr(wan, "ftfy", SimpleNamespace(fix_text=str), raising=False)
    yield


@pytest.mark.parametrize("name", ["wan", "ltx"])
@pytest.mark.usefixtures("ftfy")
def test_a_pipeline_makes_frames_from_both_images(folders: dict[str, Path], name: str) -> None:
    maker = open_clip_maker(str(folders[name]), **SMALL)
    pair = clip_pairs(story("red", "blue"))[0]
    frames = maker.make(pair, 3).frames
    family = WAN if name == "wan" else LTX
    assert len(frames) == family.length(0.5) and {frame.size for frame in frames} == {(64, 32)}
    assert maker.make(pair, 3).frames == frames
    changes = {"prompt": "All is gone.", "first": pair.last, "last": pair.first}
    for field, value in changes.items():
        assert maker.make(pair.model_copy(update={field: value}), 3).frames != frames, field
    assert maker.make(pair, 4).frames != frames
    other = open_clip_maker(str(folders[name]), **SMALL | {"steps": 2})
    assert other.identity != maker.identity


@pytest.mark.usefixtures("ftfy")
def test_a_pipeline_stops_when_it_is_interrupted(folders: dict[str, Path]) -> None:
    maker = open_clip_maker(str(folders["wan"]), **SMALL | {"steps": 3})
    asked = iter((False, False, True))
    maker.interrupted = lambda: next(asked)
    with pytest.raises(Cancelled):
        maker.make(clip_pairs(story("red", "blue"))[0], 0)


def test_unusable_options(tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="pip install ftfy"):
        open_clip_maker(str(folders["wan"]))
    monkeypatch.setattr(pipelines, "find_spec", lambda name: name)
    with pytest.raises(SettingsError, match="only the first frame"):
        open_clip_maker(str(tiny_pipelines.wan(tmp_path / "one", ignores_last=True)))
    (tmp_path / "sd").mkdir()
    (tmp_path / "sd" / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    with pytest.raises(SettingsError, match="not a known pipeline for clips"):
        open_clip_maker(str(tmp_path / "sd"))
    for wrong in ({"seconds": 0}, {"seconds": 61}, {"size": "5000x32"}, {"size": "x"}, {"dtype": "int8"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            open_clip_maker(str(folders["ltx"]), **wrong)
    with pytest.raises(SettingsError, match="colour"):
        open_clip_maker(str(folders["ltx"]), colour=1)


# Clips as values


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
    odd = clip_of(pair, Footage([plain("red", 33)] * 2, 8))
    assert (len(shown), odd.size, len(list(frames_of(odd)))) == (5, (32, 32), 2), "odd sides become even"
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


def test_a_story_without_clips_is_written_as_before() -> None:
    told = story(*COLORS)
    assert "clips" not in told.model_dump()
    pair = clip_pairs(told)[0]
    clip = clip_of(pair, blend(pair))
    stored = dict(clip) | {"accepted": False, "reasoning": "The boat vanished."}
    assert Clip.model_validate(stored) == clip, "the verdict of earlier versions is ignored"
    written = with_clips(told, [clip]).model_dump_json()
    movies = {clip.movie.digest: clip.movie}
    pictures = {one.image.digest: one.image for one in told.results if one.image}
    read = Trajectory.model_validate_json(
        written, context={"pictures": pictures.__getitem__, "movies": movies.__getitem__}
    )
    assert read.clips == (clip,) and isinstance(read.clips[0], Clip)
