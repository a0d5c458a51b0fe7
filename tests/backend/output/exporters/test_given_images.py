"""Exports of a plan of text-only steps contain the images of the request, since they are about these."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageSequence
from pypdf import PdfReader
from support.stories import make_trajectory

from interleave_thinker import Picture, Plan, Step, StepResult, StopReason, Trajectory, export_by_name
from interleave_thinker.backend.output.exporters.pdf import story_pages, story_pdf
from interleave_thinker.backend.output.exporters.sheet import contact_sheet
from interleave_thinker.backend.output.report.export_options import PLAIN, ExportOptions, panels_of

COLORS = ((250, 10, 20), (10, 240, 30))
FRAMES = tuple(Picture(Image.new("RGB", (320, 200), color)) for color in COLORS)
STEPS = tuple(
    Step(number=number, name=name, auxiliary_text=f"It does {name}.")
    for number, name in enumerate(("reach", "grasp", "lift"), 1)
)
STORY = make_trajectory(2, size=64)
GIVEN = STORY.request.model_copy(update={"images": FRAMES})
NOTES = Trajectory(
    request=GIVEN,
    plan=Plan(steps=STEPS),
    results=tuple(StepResult(step=step, stop_reason=StopReason.text_only) for step in STEPS),
)
AUDIENCE = ExportOptions(audience=True)


def has(image: Image.Image, color: tuple[int, int, int]) -> bool:
    """Return whether an image has a large area of about this color."""
    small = image.convert("RGB").resize((160, 160))
    near = [p for p in small.getdata() if max(abs(a - b) for a, b in zip(p, color, strict=True)) < 12]
    return len(near) > 400


def test_given_images_come_before_the_texts() -> None:
    panels = panels_of(NOTES)
    assert [one.picture for one in panels] == [*FRAMES, None, None, None]
    assert [one.text for one in panels] == ["", "", *(step.auxiliary_text for step in STEPS)]


def test_a_story_with_images_of_its_own_does_not_show_the_given_ones() -> None:
    story = STORY.model_copy(update={"request": GIVEN})
    shown = [one.picture for one in panels_of(story)]
    assert not set(shown) & set(FRAMES)
    unfinished = story.model_copy(update={"results": ()})
    assert panels_of(unfinished) == (), "it has no image yet, but its plan has"


@pytest.mark.parametrize("options", [PLAIN, AUDIENCE])
def test_a_pdf_and_a_sheet_show_them(options: ExportOptions) -> None:
    pages = story_pages(NOTES, 400, options)
    assert [one for page in pages for one, _ in page.pictures] == [*FRAMES]
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(story_pdf(NOTES, options))).pages)
    assert "It does grasp." in text
    for show in ("audience",) if options.audience else ("chosen", "attempts"):
        sheet = contact_sheet(NOTES, show=show, options=options)
        assert all(has(sheet, color) for color in COLORS)


@pytest.mark.parametrize("audience", [False, True])
def test_an_animation_begins_with_them(tmp_path: Path, audience: bool) -> None:
    with Image.open(export_by_name("gif", NOTES, tmp_path, audience=audience)) as film:
        frames = [frame.convert("RGB").copy() for frame in ImageSequence.Iterator(film)]
    assert len(frames) == 5
    assert has(frames[0], COLORS[0]) and has(frames[1], COLORS[1])


@pytest.mark.parametrize("audience", [False, True])
def test_a_page_and_a_comic_contain_them(tmp_path: Path, audience: bool) -> None:
    page = export_by_name("page", NOTES, tmp_path, audience=audience).read_text()
    assert page.count('src="data:' if audience else '<symbol id="') == 2
    export_by_name("comic-png", NOTES, tmp_path, audience=audience)
    with Image.open(tmp_path / "page_0002.png") as panels:
        assert all(has(panels, color) for color in COLORS)


@pytest.mark.parametrize("name", ["markdown", "story", "record"])
def test_exports_with_image_files_contain_them(tmp_path: Path, name: str) -> None:
    export_by_name(name, NOTES, tmp_path)
    images = {Picture.open(one).digest for one in tmp_path.rglob("*.png")}
    assert images == {one.digest for one in FRAMES}
    if name == "markdown":
        export_by_name(name, NOTES, tmp_path / "told", audience=True)
        assert len(list((tmp_path / "told").rglob("*.png"))) == 2
