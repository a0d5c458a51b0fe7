"""The cast in exports: a section with images and traits, safe texts, and a story that is opened elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from support.stories import make_trajectory

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.types import CastMember, StepImage, Trajectory
from interleave_thinker.backend.output.exporters import export_by_name, page
from interleave_thinker.backend.output.exporters.record import FILE_NAME, read_record
from interleave_thinker.backend.output.exporters.story import StoryFile
from interleave_thinker.backend.output.report.export_options import ExportOptions
from interleave_thinker.backend.story.execution_record.trajectory import record_trajectory
from interleave_thinker.backend.story.journal.archive import unpack_run
from interleave_thinker.backend.story.loop.replay import load_trajectory


def picture(color: str) -> Picture:
    return Picture(Image.new("RGB", (40, 60), color))


OLD, NEW = picture("#aa0000"), picture("#00aa00")
IMAGES = (StepImage(name="old.png", picture=OLD), StepImage(name="new.png", picture=NEW))
CAST = (
    CastMember(name="Mia", traits=("short black hair", "red coat"), images=IMAGES),
    CastMember(name="<b>lamp*", kind="prop"),
)
WITHOUT = make_trajectory(2)


@pytest.fixture
def story() -> Trajectory:
    return WITHOUT.model_copy(update={"plan": WITHOUT.plan.model_copy(update={"cast": CAST})})


def test_the_page_lists_the_members_with_their_newest_image(story: Trajectory) -> None:
    html = page.render(story)
    section = html[html.index('<section class="cast"') : html.index('<section class="plan"')]
    assert "The cast" in section and "short black hair, red coat" in section
    assert section.count('class="picture"') == 1 and 'aria-label="Mia"' in section
    assert "&lt;b&gt;lamp*" in section and "<b>lamp" not in html
    plain = page.render(WITHOUT)
    assert html.count("<symbol") == plain.count("<symbol") + 1, "the newest image alone"
    assert '<section class="cast"' not in plain
    assert "角色表" in page.render(story, ExportOptions(language="zh"))
    assert '<section class="cast"' not in page.render_story(story, ExportOptions(audience=True))


def test_markdown_lists_the_members(story: Trajectory, tmp_path: Path) -> None:
    text = export_by_name("markdown", story, tmp_path).read_text(encoding="utf-8")
    section = text[text.index("## The cast") : text.index("## The plan")].splitlines()
    shown, _, mia, _, lamp, _ = section[2:]
    assert mia == "**Mia** (character): short black hair, red coat"
    assert lamp == r"**\<b\>lamp\*** (prop)"
    with Image.open(tmp_path / shown.removeprefix("![Mia](").removesuffix(")")) as image:
        assert image.getpixel((0, 0)) == (0, 170, 0)
    assert "## The cast" not in export_by_name("markdown", WITHOUT, tmp_path).read_text(encoding="utf-8")


def test_story_json_has_the_cast(story: Trajectory, tmp_path: Path) -> None:
    path = export_by_name("story", story, tmp_path)
    mia, lamp = StoryFile.model_validate_json(path.read_text(encoding="utf-8")).cast
    assert (mia.name, mia.kind, mia.traits) == ("Mia", "character", ("short black hair", "red coat"))
    colors = [Image.open(tmp_path / one.file).getpixel((0, 0)) for one in mia.images]
    assert colors == [(170, 0, 0), (0, 170, 0)]
    assert (lamp.name, lamp.kind, lamp.images) == ("<b>lamp*", "prop", ())
    plain = export_by_name("story", WITHOUT, tmp_path / "plain").read_text(encoding="utf-8")
    assert "cast" not in json.loads(plain)


def test_a_story_file_opened_elsewhere_has_its_cast(story: Trajectory, tmp_path: Path) -> None:
    path = export_by_name("zip", story, tmp_path)
    elsewhere = unpack_run(path, tmp_path / "elsewhere")
    path.unlink()
    loaded = load_trajectory(elsewhere)
    assert loaded == story
    assert [image.picture for image in loaded.plan.cast[0].images] == [OLD, NEW]


def test_an_execution_record_keeps_the_members_and_the_lists_of_steps(
    story: Trajectory, tmp_path: Path
) -> None:
    steps = (story.plan.steps[0].model_copy(update={"cast": ("Mia",)}), *story.plan.steps[1:])
    plan = story.plan.model_copy(update={"steps": steps})
    export_by_name("record", story.model_copy(update={"plan": plan}), tmp_path)
    found = record_trajectory(read_record(tmp_path)).plan
    assert [step.cast for step in found.steps] == [("Mia",), *(None for _ in steps[1:])]
    assert [(one.name, one.kind, one.traits) for one in found.cast] == [
        (one.name, one.kind, one.traits) for one in CAST
    ]
    export_by_name("record", WITHOUT, tmp_path / "plain")
    assert "cast" not in (tmp_path / "plain" / FILE_NAME).read_text(encoding="utf-8")
