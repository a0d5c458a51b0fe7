"""The MP4 export, read back by PyAV: pictures, reading times, cross-fades and subtitles."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat
from support.cli_calls import python
from support.stories import make_trajectory

from interleave_thinker import SettingsError, export_by_name
from interleave_thinker.backend.output.exporters.video import FPS, seconds_of

av = pytest.importorskip("av", reason="PyAV is not installed: pip install .[video]")


def pictures_in(path: Path) -> list[Image.Image]:
    with av.open(str(path)) as container:
        return [frame.to_image() for frame in container.decode(video=0)]


def difference(one: Image.Image, other: Image.Image) -> float:
    """Mean absolute difference per channel, 0 to 255."""
    return max(ImageStat.Stat(ImageChops.difference(one, other)).mean)


def test_every_image_is_shown_for_its_reading_time(tmp_path: Path) -> None:
    trajectory = make_trajectory(3, size=301, text_step=False)
    path = export_by_name("mp4", trajectory, tmp_path, fade=0, captions="none")
    frames = pictures_in(path)
    assert frames[0].size == (302, 302), "sides are even"
    words = [one.step.auxiliary_text or one.step.instruction or one.step.name for one in trajectory.results]
    lengths = [round(FPS * seconds_of(one)) for one in words]
    assert len(frames) == sum(lengths)
    begin = 0
    for result, length in zip(trajectory.results, lengths, strict=True):
        assert result.image is not None
        for at in (begin, begin + length - 1):
            assert difference(frames[at].crop((0, 0, 301, 301)), result.image.image.convert("RGB")) < 8
        begin += length


def test_a_cross_fade_ends_a_scene(tmp_path: Path) -> None:
    trajectory = make_trajectory(2, size=64, text_step=False)
    hard = pictures_in(export_by_name("mp4", trajectory, tmp_path / "hard", fade=0, captions="none"))
    soft = pictures_in(export_by_name("mp4", trajectory, tmp_path / "soft", fade=1, captions="none"))
    assert len(hard) == len(soft), "a fade does not change the times"
    first, last = hard[0], hard[-1]
    cut = next(at for at, image in enumerate(hard) if difference(image, last) < difference(image, first))
    middle = soft[cut - FPS // 2]
    whole = difference(first, last)
    assert abs(difference(middle, first) - difference(middle, last)) < 0.3 * whole
    assert difference(soft[cut - FPS - 2], first) < 0.1 * whole


def test_subtitles_are_a_track_and_captions_are_pixels(tmp_path: Path) -> None:
    trajectory = make_trajectory(2, size=300, text_step=False)
    burned = export_by_name("mp4", trajectory, tmp_path / "burned")
    assert pictures_in(burned)[0].height > 300
    path = export_by_name("mp4", trajectory, tmp_path / "track", captions="subtitles", title="The title")
    with av.open(str(path)) as container:
        (stream,) = container.streams.subtitles
        packets = [packet for packet in container.demux(stream) if packet.size]
        texts = [one.dialogue.decode() for packet in packets for one in packet.decode()]
        begins = [float(packet.pts * packet.time_base) for packet in packets]
    written = [one.step.auxiliary_text or one.step.instruction or "" for one in trajectory.results]
    assert [text for text in texts if text] == ["The title", *written]
    assert begins[0] == 0 and begins[1] == pytest.approx(seconds_of("The title"), abs=0.05)


def test_codes_in_a_text_are_shown_as_text(tmp_path: Path) -> None:
    trajectory = make_trajectory(1, text_step=False)
    (result,) = trajectory.results
    step = result.step.model_copy(update={"auxiliary_text": r'C:\New {\an8}folder, "ok" <b>'})
    shown = trajectory.model_copy(update={"results": (result.model_copy(update={"step": step}),)})
    path = export_by_name("mp4", shown, tmp_path, captions="subtitles")
    with av.open(str(path)) as container:
        (packet,) = [one for one in container.demux(container.streams.subtitles[0]) if one.size]
    assert bytes(packet)[2:].decode().replace("\u2060", "") == step.auxiliary_text


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\nsys.path.insert(0, sys.argv[1])\nimport conftest\n"
        "from support.stories import make_trajectory\n"
        "from interleave_thinker.backend.core.errors import JournalError\n"
        "from interleave_thinker.backend.output.exporters import export_by_name\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "try:\n    export_by_name('mp4', make_trajectory(3, size=300), sys.argv[2])\n"
        "except JournalError as error:\n    print(error)\n"
    )
    done = python(code, Path(__file__).parents[3], tmp_path / "out")
    assert "cannot be written" in done.stdout, done.stderr
    assert not [*(tmp_path / "out").glob("*")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"captions": "loud"}, "burned in, subtitles or none"),
        ({"fade": 4.0}, "fade must be 0 to 3"),
        ({"fade": float("nan")}, "fade must be 0 to 3"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        export_by_name("mp4", make_trajectory(1), tmp_path, **options)
    assert not (tmp_path / "story.mp4").exists()


def test_reading_times() -> None:
    assert seconds_of("") == 2.5
    assert seconds_of("word " * 12) == pytest.approx(5.0)
    assert seconds_of("狐" * 20) == pytest.approx(5.0)
    assert seconds_of("word " * 500) == 20.0
