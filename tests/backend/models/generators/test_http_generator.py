"""The HTTP client with a real server: its requests, its retries, and its errors for invalid answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import pytest
from support.image_service import ImageService, image_service, paint

from interleave_thinker import Cancelled, GeneratorError, Picture, SettingsError
from interleave_thinker.backend.core.remote import balanced
from interleave_thinker.backend.core.types import CastShown, DrawSettings, StepSettings
from interleave_thinker.backend.models.generators import http_service, open_generator, service_client
from interleave_thinker.backend.models.generators.http_service import HttpGenerator


@pytest.fixture
def service() -> Iterator[ImageService]:
    with image_service() as running:
        yield running


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
    own = generator.with_step_settings(StepSettings(negative="a red sail", size="96x32"))
    assert [own.draw("a boat", source, 7).size for source in (None, red())] == [(96, 32)] * 2
    service.requests.pop()
    generator.draw("a boat", None, 7)
    told = CastShown(text="Mia wears red.")
    generator.with_step_settings(DrawSettings(cast=told)).draw("a boat", None, 7)
    assert [body["negative_prompt"] for body in service.requests] == ["a red sail", "blur", "blur"]


def test_ignored_options_are_logged_once(service: ImageService, caplog: pytest.LogCaptureFixture) -> None:
    generator = open_generator(service.url, steps=4)
    drawn = {"success": True, "edited_image": red().base64_png()}
    for said in (["steps", "bad\nline", 7, "x" * 900], ["steps"], {"steps": 1}, [f"o{n}" for n in range(99)]):
        service.faults.append((200, json.dumps(drawn | {"ignored": said}).encode()))
        generator.draw("a boat", None, 7)
    lines = [one.getMessage() for one in caplog.records if "ignores these options" in one.getMessage()]
    assert len(lines) == 2 and all("\n" not in line and len(line) < 400 for line in lines)
    assert lines[0] == f"{service.url} ignores these options: steps, bad line, {'x' * 60}."


@pytest.mark.parametrize(
    "body",
    [
        b"<html>proxy</html>",
        b"{}",
        b'{"success": true}',
        b'{"success": true, "edited_image": "%%%"}',
        b'{"success": true, "edited_image": "aGVsbG8="}',
    ],
)
def test_unreadable_answers_are_typed_errors(service: ImageService, body: bytes) -> None:
    service.faults = [(200, body)]
    with pytest.raises(GeneratorError):
        open_generator(service.url).draw("a boat", None, 1)


def test_an_endless_answer_ends_the_request(service: ImageService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_service, "MAX_ANSWER_BYTES", 1000)
    for answer, words in (
        ((200, b"x" * 100_000), "more than 1000 bytes"),
        ((401, b"who are you"), r"401.*who are you.*INTERLEAVE_GENERATOR_KEY"),
    ):
        service.faults = [answer]
        with pytest.raises(GeneratorError, match=words):
            open_generator(service.url).draw("a boat", None, 1)
    assert len(service.requests) == 2, "it is not retried"


def test_identity_names_url_and_no_key(service: ImageService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "secret-key")
    generator = open_generator(service.url, guidance=2.5)
    assert service.url in generator.identity and "tiny-painter" in generator.identity
    assert "secret-key" not in generator.identity
    generator.draw("a boat", None, 1)
    assert service.headers_seen[0]["authorization"] == "Bearer secret-key"
    service.health = {"model": "another"}
    assert open_generator(service.url, guidance=2.5).identity != generator.identity


@pytest.mark.parametrize("health", [None, {"model": {"nested": 1}}])
def test_services_without_a_useful_health_endpoint_work(service: ImageService, health: dict | None) -> None:
    service.health = health
    generator = open_generator(service.url)
    assert generator.identity == f"http {service.url}"
    generator.draw("a boat", None, 1)


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
    assert asked.is_set() and not service.ends.is_set() and service.left.wait(10)


# Several services


PROMPTS = [f"a boat, {number}" for number in range(40)]
"""Enough requests that each of three services certainly gets one."""


@pytest.fixture
def services() -> Iterator[list[ImageService]]:
    with ExitStack() as stack:
        found = [stack.enter_context(image_service()) for _ in range(3)]
        for one in found:
            one.health = {"identity": "painter/1 digest"}
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are a hundredth as long."""
    monkeypatch.setattr(balanced, "FIRST_PAUSE", 0.0025)


def spec(*services: ImageService) -> str:
    return "http:" + ",".join(one.url for one in services)


def asked(*services: ImageService) -> list[int]:
    return [len(one.requests) for one in services]


def test_parallel_requests_use_all_services(services: list[ImageService]) -> None:
    generator = open_generator(spec(*services))
    meeting = Barrier(3)
    for one in services:
        one.meets = meeting
    with ThreadPoolExecutor(3) as pool:
        images = list(pool.map(generator.draw, PROMPTS[:3], [None] * 3, [1, 2, 3]))
    assert asked(*services) == [1, 1, 1]
    drawn = {body["prompt"]: paint(body) for one in services for body in one.requests}
    assert images == [drawn[prompt] for prompt in PROMPTS[:3]]


def test_equal_requests_use_one_service_and_others_are_spread(services: list[ImageService]) -> None:
    generator = open_generator(spec(*services))
    for _ in range(4):
        generator.draw("a boat", None, 1)
    assert sorted(asked(*services)) == [0, 0, 4]
    for prompt in PROMPTS:
        generator.draw(prompt, None, 1)
    assert all(asked(*services))


def test_a_rested_service_is_checked(services: list[ImageService], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balanced, "REST_SECONDS", 0.0)
    first, second, _ = services
    generator = open_generator(spec(first, second))
    first.health, first.faults = {"identity": "another"}, [(502, b"")] * 3
    draw_until(generator, lambda: not first.faults)
    greeted, drawn = first.greeted, len(first.requests)
    draw_until(generator, lambda: first.greeted > greeted + 2)
    assert len(first.requests) == drawn, "it came back as another one"
    first.health = {"identity": "painter/1 digest"}
    draw_until(generator, lambda: len(first.requests) > drawn)


def draw_until(generator: object, done: Callable[[], bool]) -> None:
    """Send requests until something has happened, for at most a minute."""
    until = time.monotonic() + 60
    while not done():
        assert time.monotonic() < until
        for prompt in PROMPTS:
            generator.draw(prompt, None, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fault", "words", "tried"),
    [
        ((503, b"no gpu free"), r"no gpu free.*6 attempts with 3 services", [2, 2, 2]),
        ((500, b"queue full"), r"queue full.*6 attempts", [2, 2, 2]),
        ((504, b"late"), "504", [0, 1, 1]),
        ((200, b'{"success": false, "error": "no such style"}'), "image: no such style", [0, 0, 1]),
        ((503, b"full", {"Retry-After": "3600"}), "at least 3600 s", [1, 1, 1]),
    ],
    ids=["busy", "down", "late", "its decision", "busy for long"],
)
def test_a_request_may_fail(services: list[ImageService], fault: Any, words: str, tried: list[int]) -> None:
    generator = open_generator(spec(*services), deadline=60.0)
    for one in services:
        one.faults = [fault] * 9
    with pytest.raises(GeneratorError, match=words):
        generator.draw("a boat", None, 1)
    assert sorted(asked(*services)) == tried


WRONG = {
    "redirect": (307, b"", {"Location": "http://127.0.0.1:9/edit"}),
    "no image": (200, b'{"success": true, "edited_image": "AAAA"}'),
    "other page": (404, b"not found"),
    "other key": (401, b"who are you"),
}
Sent = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]


@pytest.mark.parametrize("sent", WRONG.values(), ids=WRONG)
def test_wrong_service_loses_no_image_and_is_logged_once(
    sent: Sent,
    services: list[ImageService],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "a-key-of-ours")
    monkeypatch.setattr(balanced, "REST_SECONDS", 0.0)
    good, bad, _ = services
    generator = open_generator(spec(good, bad))
    bad.faults = [sent] * 100
    images = [generator.draw(prompt, None, 1) for prompt in PROMPTS]
    assert images == [paint(body) for body in good.requests] and bad.requests
    named = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
    assert len(named) == 1 and named[0].startswith(bad.url), named
    assert "a-key-of-ours" not in caplog.text


def test_full_service_is_skipped_while_another_is_free(services: list[ImageService]) -> None:
    first, second, _ = services
    generator = open_generator(spec(first, second), deadline=20.0)
    first.faults = [(503, b"full", {"Retry-After": "3600"})]
    for prompt in PROMPTS:
        generator.draw(prompt, None, 1)
    assert asked(first, second) == [1, len(PROMPTS)]


def test_a_service_that_loads_its_model_is_waited_for(services: list[ImageService]) -> None:
    service = services[0]
    service.loading = 2
    generator = open_generator(spec(service))
    assert service.greeted == 3 and "painter/1 digest" in generator.identity
    service.loading = 10**6
    with pytest.raises(GeneratorError, match=r"HTTP 503.*loading"):
        open_generator(spec(service), deadline=1.0)
    greeted = service.greeted
    with pytest.raises(Cancelled):
        open_generator(spec(service), interrupted=lambda: service.greeted > greeted)


# Who they are


def test_models_of_a_list_are_one_unless_mixing_is_allowed(services: list[ImageService]) -> None:
    identities = {open_generator(spec(*services[:count])).identity for count in (1, 2, 3)}
    assert identities == {"http model='painter/1 digest'"}
    services[1].health = {"identity": "painter/2"}
    with pytest.raises(SettingsError, match=r"different models.*painter/2.*set mixed"):
        open_generator(spec(*services))
    mixed = open_generator(spec(*services), mixed=True).identity
    assert mixed == open_generator(spec(*reversed(services)), mixed=True).identity
    assert "painter/1" in mixed and "painter/2" in mixed
    for one in services:
        one.health = None
    identity = open_generator(spec(*services)).identity
    assert identity == "http " + ",".join(sorted(one.url for one in services))


def test_a_list_opens_with_one_silent(services: list[ImageService], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_client, "GREETING_SECONDS", 1.0)
    services[0].hangs_at = "/health"
    generator = open_generator(spec(*services[:2]))
    generator.draw("a boat", None, 1)
    assert asked(*services[:2]) == [0, 1]
    services[1].hangs_at = "/health"
    with pytest.raises(GeneratorError, match="did not answer"):
        open_generator(spec(*services[:2]))


def test_a_service_reports_its_parallel_requests(services: list[ImageService]) -> None:
    services[0].health = {"identity": "painter/1 digest", "workers": {"alive": 3, "dead": 1}}
    services[1].health = {"identity": "painter/1 digest", "workers": "lots"}
    generator = cast(HttpGenerator, open_generator(spec(*services[:2])))
    assert (generator.draws_at_once, generator.idle_workers) == (8, 4)
    over = threading.Event()
    services[0].hangs_at = services[1].hangs_at = "/edit"
    with ThreadPoolExecutor(1) as pool:
        drawing = pool.submit(generator.stopped_by(over).draw, "a boat", None, 1)
        while not any(one.hanging.wait(0.01) for one in services[:2]):
            assert not drawing.done()
        assert generator.idle_workers == 3
        over.set()


# Files of addresses


def test_services_file(services: list[ImageService], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balanced, "REST_SECONDS", 0.0)
    first, second, third = services
    port = int(second.url.rpartition(":")[2])
    file = tmp_path / "ip.txt"
    file.write_text(f"# cards\n\n{first.url}  # the old one\n")
    generator = open_generator(f"http:@{file}", service_port=port)
    generator.draw("a boat", None, 1)
    file.write_text(f"{first.url}\n127.0.0.1\n")
    draw_until(generator, lambda: len(second.requests) > 0)
    assert second.greeted == 1
    for text in ("", "not a URL\n", None):
        file.unlink() if text is None else file.write_text(text)
        generator.draw("a boat", None, 1)
    file.write_text(third.url)
    third.health = {"identity": "another"}
    with pytest.raises(GeneratorError, match="now has another model"):
        generator.draw("a boat", None, 1)
    assert third.requests == []
