"""Exports for an audience show only the story, and comics show complete images and texts."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from PIL import Image
from support.stories import TELLINGS, assert_apart, drawing, make_trajectory

from interleave_thinker import Picture, SettingsError
from interleave_thinker.backend.output.exporters import REGISTRY, export_by_name, options_of
from interleave_thinker.backend.output.exporters.comic import comic_pages, speech
from interleave_thinker.backend.output.exporters.export_files import GIF_MARK
from interleave_thinker.backend.output.report.export_options import Panel, panels_of

RUN = make_trajectory(4, size=64)
GRAPH = {"prompt": '{"1": {"class_type": "A"}}', "workflow": '{"nodes": [], "name": "\\u5c0f\\u8239"}'}
SIZES = ((900, 500), (512, 512), (300, 800), (640, 480), (64, 64))
LONG = "And then the little boat sailed on and on over the wide water. " * 40
SHORT = "The boat said: “Good morning, fish!”"


@pytest.mark.parametrize("name", ["page", "markdown"])
def test_exports_for_an_audience_show_only_the_story(tmp_path: Path, name: str) -> None:
    text = export_by_name(name, RUN, tmp_path, audience=True, title="The Red Boat").read_text()
    assert "The Red Boat" in text and all(one in text for one in TELLINGS if one)
    secrets = [
        "ccepted",
        "Try ",
        "ttempt",
        "likely right",
        "nintended",
        "seed",
        "Never",
        "udged",
        RUN.request.text,
    ]
    for step in RUN.plan.steps:
        secrets += [part for part in (step.name, step.prompt, step.instruction) if part]
    body = text.split("<body")[-1].split("<script")[0]
    assert [one for one in secrets if one in body] == []
    if name == "markdown":
        kept = [result.image for result in RUN.results if result.image]
        assert [Picture.open(path) for path in sorted((tmp_path / "images").iterdir())] == kept


def test_story_without_texts_shows_its_instructions() -> None:
    results = []
    for result in RUN.results:
        step = result.step.model_copy(update={"auxiliary_text": None, "prompt": result.step.prompt or "x"})
        results.append(result.model_copy(update={"step": step}))
    told = panels_of(RUN.model_copy(update={"results": tuple(results)}))
    assert told[0].text == RUN.results[0].step.instruction


@pytest.mark.parametrize("name", [name for name in REGISTRY if "audience" in options_of(name)])
def test_every_export_is_written_of_a_run_without_results(tmp_path: Path, name: str) -> None:
    whole = export_by_name(name, RUN, tmp_path / "whole", audience=True)
    nothing = export_by_name(name, RUN.model_copy(update={"results": ()}), tmp_path / "none", audience=True)
    assert whole.stat().st_size > 100 and nothing.stat().st_size > 50


def test_a_storyboard_has_equal_images_with_number_and_name_of_each_shot() -> None:
    shot = Picture(drawing(1, size=64).image.resize((640, 360)))
    panels = [Panel(number=number, name=f"Shot {number}", picture=shot, text=SHORT) for number in range(1, 8)]
    _, first, second = comic_pages(panels, "Title", 800, 6, "shots")
    boxes = [box for page in (first, second) for _, box in page.pictures]
    assert len(first.pictures) == 6
    assert len({(right - left, low - top) for left, top, right, low in boxes}) == 1
    assert len({left for left, *_ in boxes}) == 2
    written = [text.block.lines for page in (first, second) for text in page.texts]
    assert [lines[0] for lines in written] == [f"{number}. Shot {number}" for number in range(1, 8)]
    assert all(" ".join(lines[1:]) == SHORT for lines in written)


@pytest.mark.parametrize(
    ("most", "lettering", "texts"),
    [
        (4, "captions", ("",)),
        (1, "captions", (SHORT,)),
        (9, "captions", (SHORT,)),
        (2, "captions", (SHORT, LONG)),
        (4, "balloons", (SHORT,)),
        (9, "balloons", (SHORT, LONG)),
        (4, "none", (SHORT,)),
        (9, "shots", (SHORT, LONG)),
    ],
)
def test_images_of_a_comic_do_not_overlap(most: int, lettering: str, texts: tuple[str, ...]) -> None:
    panels = [
        Panel(number=number, picture=Picture(drawing(1, size=64).image.resize(size)), text=text)
        for number, (size, text) in enumerate(zip(SIZES * 2, itertools.cycle(texts), strict=False), start=1)
    ]
    panels.insert(3, Panel(number=99, text="A text alone."))
    cover, *pages = comic_pages(panels, "Title", 800, most, lettering)  # type: ignore[arg-type]
    assert cover.pictures[0][0] == panels[-1].picture
    assert [picture for page in pages for picture, _ in page.pictures] == [
        panel.picture for panel in panels if panel.picture
    ]
    assert len({page.size for page in (cover, *pages)}) == 1
    for page in pages:
        assert len(page.pictures) <= most
        assert_apart(page.size, [box for _, box in page.pictures])
        for box in [*(shape.box for shape in page.shapes), *(text.box for text in page.texts)]:
            assert_apart(page.size, [box])
        for picture, (left, top, right, bottom) in page.pictures:
            shape = picture.size[0] / picture.size[1]
            assert abs((right - left) / (bottom - top) - shape) < 0.05 * shape


@pytest.mark.parametrize(("options", "wrong"), [({"panels": 0}, "panels"), ({"lettering": "runes"}, "runes")])
def test_invalid_comic_options_are_errors(tmp_path: Path, options: dict[str, object], wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        export_by_name("comic", RUN, tmp_path, **options)


@pytest.mark.parametrize(
    ("text", "said", "rest"),
    [
        ('The wind blew. "Sail on!" said the fish.', ["Sail on!"], "The wind blew."),
        ("鱼儿说：“早上好！”太阳升起来了，照亮了海湾。", ["早上好！"], "鱼儿说：太阳升起来了，照亮了海湾。"),
        ("„Guten Morgen“, sagte der Fisch.", ["Guten Morgen"], ""),
        ("Nobody speaks here.", [], "Nobody speaks here."),
        ("「おはよう」", ["おはよう"], ""),
        ('"The wind is good," said Mia.', ["The wind is good."], ""),
        ('"Well," said Mia, "let us sail."', ["Well, let us sail."], ""),
        ('"Come," said Mia. "We sail now."', ["Come.", "We sail now."], ""),
        ("“天亮了，”鱼儿说。", ["天亮了。"], ""),
        ('" " she said.', [""], ""),
    ],
)
def test_speech_goes_into_balloons(text: str, said: list[str], rest: str) -> None:
    assert speech(text) == (said, rest)


@pytest.mark.timeout(60)
def test_an_open_quote_and_spaces_are_read_quickly() -> None:
    assert speech("«" + " " * 200_000) == ([], "")


def test_an_image_carries_the_graph_where_comfyui_looks_for_it(tmp_path: Path) -> None:
    with Image.open(export_by_name("sheet", RUN, tmp_path, metadata=GRAPH)) as sheet:
        assert {name: sheet.info[name] for name in GRAPH} == GRAPH
    with Image.open(export_by_name("webp", RUN, tmp_path, metadata=GRAPH)) as webp:
        exif = webp.getexif()
    assert exif[0x0110] == f"prompt:{GRAPH['prompt']}" and exif[0x010F] == f"workflow:{GRAPH['workflow']}"
    with Image.open(export_by_name("gif", RUN, tmp_path, metadata=GRAPH)) as gif:
        comment = gif.info["comment"].decode()
    assert json.loads(comment.removeprefix(GIF_MARK)) == GRAPH
    for name in ("sheet", "webp", "gif"):
        with Image.open(export_by_name(name, RUN, tmp_path / "bare")) as bare:
            assert not ({"prompt", "workflow", "exif"} & bare.info.keys()), name
