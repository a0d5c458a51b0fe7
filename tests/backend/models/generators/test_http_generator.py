"""The HTTP client with a real server: its requests, its retries, and its errors for invalid answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest
from support.image_service import ImageService, image_service, paint

from interleave_thinker.backend.core.errors import Cancelled, GeneratorError, SettingsError
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.remote import balanced
from interleave_thinker.backend.core.types import CastShown, DrawSettings, StepSettings
from interleave_thinker.backend.models.generators import http_service, open_generator


@pytest.fixture
def service() -> Iterator[ImageService]:
    with image_service() as running:
        yield running


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are a hundredth as long."""
    monkeypatch.setattr(balanced, "FIRST_PAUSE", 0.0025)


def red(size: tuple[int, int] = (48, 32)) -> Picture:
    from PIL import Image

    return Picture(Image.new("RGB", size, (200, 30, 30)))


def test_sends_the_published_body_and_returns_the_services_pixels(service: ImageService) -> None:
    generator = open_generator(service.url, steps=4, negative="blur", size="80x64")
    image = generator.draw("a boat", red(), 7)
    body = service.requests[0]
    assert Picture.from_base64(body["image"]) == red()
    assert {k: v for k, v in body.items() if k != "image"} == {
        "prompt": "a boat", "seed": 7, "num_inference_steps": 4, "negative_prompt": "blur", "width": 80,
        "height": 64,
    }  # fmt: skip
    assert image == paint(body) and image.size == (80, 64)


def test_a_step_can_set_a_negative_prompt(service: ImageService) -> None:
    generator = open_generator(service.url, negative="blur")
    assert generator.step_settings == {"negative", "size"}
    generator.with_step_settings(StepSettings(negative="a red sail")).draw("a boat", None, 7)
    generator.draw("a boat", None, 7)
    told = CastShown(text="Mia wears red.")
    generator.with_step_settings(DrawSettings(cast=told)).draw("a boat", None, 7)
    assert [body["negative_prompt"] for body in service.requests] == ["a red sail", "blur", "blur"]


def test_a_step_can_set_its_size(service: ImageService) -> None:
    generator = open_generator(service.url, size="80x64")
    own = generator.with_step_settings(StepSettings(size="48x32"))
    sizes = [one.draw("a boat", source, 7).size for one in (own, generator) for source in (None, red())]
    assert sizes == [(48, 32), (48, 32), (80, 64), (80, 64)]


def test_ignored_options_are_logged_once(service: ImageService, caplog: pytest.LogCaptureFixture) -> None:
    generator = open_generator(service.url, steps=4)
    drawn = {"success": True, "edited_image": red().base64_png()}
    for said in (["steps", "bad\nline", 7, "x" * 900], ["steps"], {"steps": 1}, [f"o{n}" for n in range(99)]):
        service.faults.append((200, json.dumps(drawn | {"ignored": said}).encode()))
        generator.draw("a boat", None, 7)
    lines = [one.getMessage() for one in caplog.records if "ignores these options" in one.getMessage()]
    assert len(lines) == 2 and all("\n" not in line and len(line) < 400 for line in lines)
    assert lines[0] == f"{service.url} ignores these options: steps, bad line, {'x' * 60}."


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_errors_are_retried(service: ImageService, status: int) -> None:
    service.faults = [(status, b"busy"), (status, b"busy")]
    assert open_generator(service.url).draw("a boat", None, 1) == paint(service.requests[-1])
    assert len(service.requests) == 3


def test_six_attempts_and_then_a_typed_error(service: ImageService, quick: None) -> None:
    service.faults = [(503, b"no gpu free")] * 9
    with pytest.raises(GeneratorError, match=r"503.*no gpu free.*6 attempts"):
        open_generator(service.url).draw("a boat", None, 1)
    assert len(service.requests) == 6


@pytest.mark.parametrize(
    "answer", [{"success": False, "error": "prompt too long"}, {"success": False, "error": None}]
)
def test_refusal_of_the_service_is_an_error_and_not_retried(service: ImageService, answer: dict) -> None:
    service.faults = [(200, json.dumps(answer).encode())]
    with pytest.raises(GeneratorError, match=answer["error"] or "no reason given"):
        open_generator(service.url).draw("a boat", None, 1)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<html>proxy</html>",
        b"[]",
        b"{}",
        b'{"success": true}',
        b'{"success": true, "edited_image": ""}',
        b'{"success": true, "edited_image": "%%%"}',
        b'{"success": true, "edited_image": "aGVsbG8="}',
        b'{"success": true, "edited_image": 5}',
        b"\xff\xfe",
        b"",
    ],
)
def test_unreadable_answers_are_typed_errors(service: ImageService, body: bytes) -> None:
    service.faults = [(200, body)]
    with pytest.raises(GeneratorError):
        open_generator(service.url).draw("a boat", None, 1)


def test_client_faults_are_not_retried(service: ImageService) -> None:
    service.faults = [(401, b"who are you")]
    with pytest.raises(GeneratorError, match=r"401.*who are you.*INTERLEAVE_GENERATOR_KEY"):
        open_generator(service.url).draw("a boat", None, 1)
    assert len(service.requests) == 1


def test_endless_answer_is_aborted(service: ImageService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_service, "MAX_ANSWER_BYTES", 1000)
    service.faults = [(200, b"x" * 100_000)]
    with pytest.raises(GeneratorError, match="more than 1000 bytes"):
        open_generator(service.url).draw("a boat", None, 1)


def test_an_unreachable_service_raises() -> None:
    with image_service() as service:
        url = service.url
    started = time.monotonic()
    with pytest.raises(GeneratorError, match="service is running"):
        open_generator(url)
    assert time.monotonic() - started < 30


def test_identity_names_url_model_and_options_but_no_key(
    service: ImageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "secret-key")
    generator = open_generator(service.url, guidance=2.5)
    assert service.url in generator.identity and "tiny-painter" in generator.identity
    assert "secret-key" not in generator.identity
    generator.draw("a boat", None, 1)
    assert service.headers_seen[0]["Authorization"] == "Bearer secret-key"
    service.health = {"model": "another"}
    assert open_generator(service.url, guidance=2.5).identity != generator.identity


@pytest.mark.parametrize("health", [None, {}, {"model": {"nested": 1}}, {"status": "ok", "models": []}])
def test_services_without_a_useful_health_endpoint_work(service: ImageService, health: dict | None) -> None:
    service.health = health
    generator = open_generator(service.url)
    assert generator.identity == f"http {service.url}"
    generator.draw("a boat", None, 1)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "//",
        "ftp://host",
        "//user:secret@host",
        "//host:99999",
        "//host?key=secret",
        "file:///etc/passwd",
        "//[1",
    ],
)
def test_unusable_urls_are_settings_errors(argument: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_generator(f"http:{argument}")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["/health", "/edit"])
def test_cancelling_does_not_wait_for_a_service_that_hangs(service: ImageService, path: str) -> None:
    """Much less than the timeouts of 300 s, and of 10 s for its health."""
    service.hangs_at = path
    asked = threading.Event()

    def interrupted() -> bool:
        if service.hanging.is_set():
            asked.set()
        return asked.is_set()

    with pytest.raises(Cancelled):
        open_generator(service.url, interrupted=interrupted).draw("a boat", None, 1)
    assert asked.is_set() and not service.ends.is_set()
