"""Clips in exports: the video plays them, the page and story.json have them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from PIL import Image, ImageStat
from support.clips import blend, story, with_blends

from interleave_thinker.backend.core.files.video import clip_of, frames_at
from interleave_thinker.backend.output.exporters import export_by_name
from interleave_thinker.backend.output.exporters import page as page_images
from interleave_thinker.backend.output.exporters.video import FPS, seconds_of
from interleave_thinker.backend.story.clips import clip_pairs, clips_of, with_clips

av = pytest.importorskip("av", reason="PyAV is not installed: pip install .[video]")
RUN = with_blends(story("red", "blue", None, "green", side=256))
PLAIN = RUN.model_copy(update={"clips": ()})
VIDEO = re.compile(r'<video [^>]*poster="data:image/[^"]+"[^>]*src="data:video/mp4;base64,([^"]+)"')


def color_of(image: Image.Image) -> list[float]:
    return ImageStat.Stat(image.resize((1, 1))).mean


def test_the_video_plays_a_clip_instead_of_a_cross_fade(tmp_path: Path) -> None:
    def colors(trajectory) -> list[list[float]]:
        path = export_by_name("mp4", trajectory, tmp_path, captions="none")
        with av.open(str(path)) as container:
            return [color_of(frame.to_image()) for frame in container.decode(video=0)]

    frames = colors(RUN)
    clips = clips_of(RUN)
    lengths = [round(FPS * clip.seconds) for clip in clips.values()]
    assert len(frames) == len(colors(PLAIN)) + sum(lengths), "stills keep their reading times"
    begin = round(FPS * seconds_of(""))
    part = frames[begin : begin + lengths[0]]
    expected = [color_of(image) for image in frames_at(clips[2], FPS)]
    assert part == [pytest.approx(color, abs=12) for color in expected]
    assert frames[begin - 1][0] > 240 > 12 > part[-1][0], "red until the clip begins, blue when it ends"


def test_frames_are_repeated_or_left_out_for_another_rate() -> None:
    clip = clips_of(RUN)[2]
    reds = [color_of(image)[0] for image in frames_at(clip, 24)]
    assert len(reds) == 15 and reds[:3] == [reds[0]] * 3 and reds == sorted(reds, reverse=True)
    assert len(list(frames_at(clip, 4))) == 2


@pytest.mark.parametrize("audience", [False, True])
def test_the_page_has_a_clip_with_the_image_as_its_poster(tmp_path: Path, audience: bool) -> None:
    page = export_by_name("page", RUN, tmp_path, audience=audience).read_text()
    assert [base64.b64decode(one) for one in VIDEO.findall(page)] == [clip.movie.data for clip in RUN.clips]
    assert page.count("muted") == page.count(" controls") == 2 and "media-src data:" in page
    plain = export_by_name("page", PLAIN, tmp_path, audience=audience).read_text()
    assert "<video" not in plain


def test_a_page_stays_below_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_images, "MAX_CLIP_BYTES", len(RUN.clips[0].movie.data))
    page = export_by_name("page", RUN, tmp_path).read_text()
    assert len(VIDEO.findall(page)) == 1 and page.count('<figure class="plate">') == 3


def test_story_json_names_the_clips(tmp_path: Path) -> None:
    steps = json.loads(export_by_name("story", RUN, tmp_path).read_text())["steps"]
    clip = steps[1]["clip"]
    assert (clip["seconds"], clip["width"], clip["height"]) == (0.625, 256, 256)
    assert (tmp_path / clip["file"]).read_bytes() == clips_of(RUN)[2].movie.data
    assert "clip" not in steps[0] and "clip" in steps[3]


def test_a_clip_that_changed_is_in_no_export(tmp_path: Path) -> None:
    other = RUN.model_copy(update={"results": story("gold", "pink", None, "green", side=256).results})
    assert "<video" not in export_by_name("page", other, tmp_path).read_text()
    pair = clip_pairs(other)[0]
    assert with_clips(other, [clip_of(pair, blend(pair))]).clips[0].first == pair.first.digest
