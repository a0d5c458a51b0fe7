"""The client of the Gemini API: what is sent, the key, refusals, and invalid answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from PIL import Image
from support.gemini_api import BLOCKED, MODEL, GeminiService, answered, gemini_service, images_in, painted

from interleave_thinker import Finished, Picture, Plan, Step, open_generator
from interleave_thinker.backend.core.errors import DrawRefused, GeneratorError, SettingsError
from interleave_thinker.backend.core.remote import balanced
from interleave_thinker.backend.core.types import DrawSettings, Request, RunSettings, StepImage, StepSettings
from interleave_thinker.backend.models.generators.gemini_api import image_shape
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.loop import run

KEY = "AIza-a-key-of-ours-0123456789"
RED = Picture(Image.new("RGB", (1200, 600), (200, 30, 30)))
BLUE = Picture(Image.new("RGB", (20, 30), (30, 30, 200)))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiService]:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setattr(balanced, "FIRST_PAUSE", 0.0025)
    with gemini_service() as running:
        running.key = KEY
        yield running


def spec(service: GeminiService, model: str = MODEL) -> str:
    return f"gemini:{model}@{service.url}"


def test_a_request_has_the_published_size_and_reduced_images(service: GeminiService) -> None:
    generator = open_generator(spec(service))
    earlier = DrawSettings(beside=(BLUE,), reference=StepImage(name="r.png", picture=RED))
    generator.draw("a boat", None, 7)
    drawn = generator.with_step_settings(earlier).draw("make it blue", RED, 8)  # type: ignore[attr-defined]
    text, edit = service.requests
    form = {"aspectRatio": "1:1", "imageSize": "1K"}
    settings = {"responseModalities": ["TEXT", "IMAGE"], "imageConfig": form}
    assert text == {
        "contents": [{"role": "user", "parts": [{"text": "a boat"}]}],
        "generationConfig": settings,
    }
    assert edit["generationConfig"] == settings and edit["contents"][0]["parts"][0] == {
        "text": "make it blue"
    }
    assert [one.size for one in images_in(edit)] == [(20, 30), (512, 256), (512, 256)]
    assert images_in(edit)[0] == BLUE, "a small image is not enlarged"
    assert drawn == painted(edit) and drawn.size == (1024, 1024)
    assert service.paths == [f"/v1beta/models/{MODEL}", *[f"/v1beta/models/{MODEL}:generateContent"] * 2]


def test_size_and_settings_are_part_of_the_identity(service: GeminiService) -> None:
    plain = open_generator(spec(service))
    assert not plain.repeatable
    assert (
        plain.identity == f"gemini {service.url}/v1beta model='{MODEL}' unseeded size=1:1@1K input_side=512"
    )
    wide = open_generator(spec(service), size="2752x1536", input_side=256)
    wide.draw("a boat", RED, 1)
    assert service.requests[-1]["generationConfig"]["imageConfig"] == {
        "aspectRatio": "16:9",
        "imageSize": "2K",
    }
    assert images_in(service.requests[-1])[0].size == (256, 128)
    others = [open_generator(spec(service, "other")), open_generator(spec(service), input_side=256), wide]
    assert len({plain.identity, *(one.identity for one in others)}) == 4
    open_generator(spec(service, "gemini-2.5-flash-image")).draw("a boat", None, 1)
    form = service.requests[-1]["generationConfig"]["imageConfig"]
    assert form == {"aspectRatio": "1:1"}, "a model without classes gets none"
    own = plain.with_step_settings(StepSettings(size="2048x1152"))  # type: ignore[attr-defined]
    own.draw("a boat", None, 1)
    form = service.requests[-1]["generationConfig"]["imageConfig"]
    assert form == {"aspectRatio": "16:9", "imageSize": "2K"}, "the size of a step"
    with pytest.raises(SettingsError, match="cannot generate images of 1000x100"):
        plain.with_step_settings(StepSettings(size="1000x100"))  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="does not accept the option 'steps'"):
        open_generator(spec(service), steps=4)


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ((64, 64), ("1:1", 1)),
        ((896, 1152), ("4:5", 1)),
        ((2048, 2048), ("1:1", 2)),
        ((8192, 8192), ("1:1", 4)),
        ((768, 6144), ("1:8", 2)),
    ],
)
def test_a_size_is_an_aspect_ratio_and_a_class(size: tuple[int, int], shape: tuple[str, int]) -> None:
    assert image_shape(size, "gemini-nano-banana-2.1") == shape


@pytest.mark.parametrize(
    ("size", "model"),
    [
        ((1000, 100), MODEL),
        ((1024, 900), MODEL),
        ((2048, 512), "gemini-3-pro-image"),
        ((512, 2048), "gemini-2.5-flash-image"),
    ],
)
def test_a_size_without_a_similar_ratio_is_an_error(size: tuple[int, int], model: str) -> None:
    with pytest.raises(SettingsError, match="16:9"):
        image_shape(size, model)


def test_source_all_shows_the_story_in_its_order(service: GeminiService) -> None:
    service.changes = True
    steps = tuple(Step(number=number, prompt=f"page {number}") for number in range(1, 6))
    settings = RunSettings(source="all", max_attempts=1)
    events = run(
        Request(text="a story"),
        Collaborators(None, open_generator(spec(service), input_side=4096)),
        settings,
        plan=Plan(steps=steps),
    )
    (story,) = [event.trajectory for event in events if isinstance(event, Finished)]
    made = [result.image for result in story.results]
    assert [images_in(body) for body in service.requests] == [made[:place] for place in range(5)]


# The key


def test_key_is_sent_only_in_its_header(
    service: GeminiService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "another-key-0123456789")
    generator = open_generator(spec(service))
    generator.draw("a boat", None, 1)
    assert [one.get("x-goog-api-key") for one in service.headers_seen] == [KEY, KEY]
    assert not any("authorization" in one for one in service.headers_seen)
    assert not any("another-key" in str(one) for one in service.headers_seen)
    assert KEY not in generator.identity + caplog.text + "".join(service.paths)


def test_a_wrong_key_is_an_error_at_opening(service: GeminiService, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "AIza-another-one-9876543210"
    monkeypatch.setenv("GEMINI_API_KEY", wrong)
    with pytest.raises(GeneratorError, match=r"API key not valid: \(key\)") as caught:
        open_generator(spec(service))
    assert wrong not in str(caught.value) and "GEMINI_API_KEY" in caught.value.hint
    assert service.requests == []


def test_a_missing_key_is_an_error_before_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="GEMINI_API_KEY is not set") as caught:
        open_generator("gemini:gemini-3-pro-image")
    assert "charges for each image" in caught.value.hint


def test_key_goes_only_to_allowed_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.delenv("GEMINI_API_KEY_HOSTS", raising=False)
    with pytest.raises(SettingsError, match=r"not allowed to be sent to proxy\.invalid") as caught:
        open_generator("gemini:m@https://proxy.invalid")
    assert "GEMINI_API_KEY_HOSTS" in caught.value.hint
    monkeypatch.setenv("GEMINI_API_KEY_HOSTS", "proxy.invalid")
    with pytest.raises(GeneratorError, match=r"proxy\.invalid/v1beta/models/m failed"):
        open_generator("gemini:m@https://proxy.invalid", deadline=5.0)


# Refusals and failures

UNSAFE = json.dumps({"candidates": [{"finishReason": "IMAGE_SAFETY", "finishMessage": "Unable to show it."}]})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (BLOCKED, "PROHIBITED_CONTENT"),
        (UNSAFE.encode(), r"IMAGE_SAFETY, Unable to show it\."),
        (answered({"text": "I cannot do that."}), r"STOP, I cannot do that\."),
        (answered({"text": "hm", "thought": True}, finish="NO_IMAGE"), r"NO_IMAGE\."),
    ],
)
def test_no_image_refuses_the_prompt(service: GeminiService, answer: bytes, words: str) -> None:
    generator = open_generator(spec(service))
    service.faults = [(200, answer)]
    with pytest.raises(DrawRefused, match=f"returned no image: {words}"):
        generator.draw("something", None, 1)
    assert len(service.requests) == 1, "each request may be charged, so it is not repeated"


def test_the_last_image_that_is_no_draft_is_used(service: GeminiService) -> None:
    def part(picture: Picture) -> dict:
        return {"inline_data": {"mime_type": "image/png", "data": picture.base64_png()}}

    service.faults = [(200, answered(part(RED), part(BLUE), {"thought": True, **part(RED)}, {"text": "!"}))]
    assert open_generator(spec(service)).draw("a boat", None, 1) == BLUE
