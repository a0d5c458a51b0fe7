"""Several services as one generator: their choice, slow, full, lost and wrong services, and their models."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier
from typing import cast

import pytest
from support.image_service import ImageService, image_service, paint

from interleave_thinker.backend.core.errors import Cancelled, GeneratorError, SettingsError
from interleave_thinker.backend.core.remote import balanced
from interleave_thinker.backend.core.remote.call import retry_after
from interleave_thinker.backend.models.generators import open_generator, service_client
from interleave_thinker.backend.models.generators.http_service import HttpGenerator

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


def test_silent_service_loses_no_image(services: list[ImageService]) -> None:
    first, second, _ = services
    generator = open_generator(spec(first, second))
    first.faults = [(500, b"queue full")] * 50
    images = [generator.draw(prompt, None, 1) for prompt in PROMPTS]
    assert images == [paint(body) for body in second.requests]
    assert len(first.requests) == balanced.FAILURES_BEFORE_REST, "it rests after that"


def test_rested_service_is_checked_before_it_is_used(
    services: list[ImageService], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """Send requests until something has happened, for at most ten seconds."""
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < 10
        for prompt in PROMPTS:
            generator.draw(prompt, None, 1)  # type: ignore[attr-defined]


def test_request_fails_only_if_all_services_fail(services: list[ImageService]) -> None:
    generator = open_generator(spec(*services))
    for one in services:
        one.faults = [(503, b"no gpu free")] * 9
    with pytest.raises(GeneratorError, match=r"no gpu free.*6 attempts with 3 services"):
        generator.draw("a boat", None, 1)
    assert sum(asked(*services)) == balanced.MAX_ATTEMPTS and all(asked(*services))


WRONG = {
    "redirect": (307, b"", {"Location": "http://127.0.0.1:9/edit"}),
    "page": (200, b"<html>It works!</html>"),
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


def test_refusal_of_a_service_is_final(services: list[ImageService]) -> None:
    generator = open_generator(spec(*services))
    for one in services:
        one.faults = [(200, b'{"success": false, "error": "no such style"}')]
    with pytest.raises(GeneratorError, match="could not generate the image: no such style"):
        generator.draw("a boat", None, 1)
    assert sum(asked(*services)) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_of_a_service_is_respected(services: list[ImageService], status: int) -> None:
    service = services[0]
    generator = open_generator(spec(service))
    service.faults = [(status, b"full", {"Retry-After": "0.2"})]
    began = time.monotonic()
    generator.draw("a boat", None, 1)
    assert time.monotonic() - began >= 0.2 and len(service.requests) == 2


def test_full_service_is_skipped_while_another_is_free(services: list[ImageService]) -> None:
    first, second, _ = services
    generator = open_generator(spec(first, second), deadline=20.0)
    first.faults = [(503, b"full", {"Retry-After": "3600"})]
    for prompt in PROMPTS:
        generator.draw(prompt, None, 1)
    assert asked(first, second) == [1, len(PROMPTS)]


def test_retry_after_beyond_the_deadline_is_an_error_at_once(services: list[ImageService]) -> None:
    service = services[0]
    generator = open_generator(spec(service), deadline=20.0)
    service.faults = [(503, b"full", {"Retry-After": "3600"})]
    with pytest.raises(GeneratorError, match="at least 3600 s"):
        generator.draw("a boat", None, 1)
    assert len(service.requests) == 1


def test_a_service_that_loads_its_model_is_waited_for(services: list[ImageService]) -> None:
    service = services[0]
    service.loading = 2
    began = time.monotonic()
    generator = open_generator(spec(service))
    assert time.monotonic() - began >= 0.6 and service.greeted == 3
    assert "painter/1 digest" in generator.identity
    assert generator.draw("a boat", None, 1) == paint(service.requests[-1])


def test_a_service_that_loads_for_too_long_is_an_error(services: list[ImageService]) -> None:
    service = services[0]
    service.loading = 10**6
    began = time.monotonic()
    with pytest.raises(GeneratorError, match=r"HTTP 503.*loading"):
        open_generator(spec(service), deadline=1.0)
    assert time.monotonic() - began < 20


def test_waiting_for_a_model_can_be_cancelled(services: list[ImageService]) -> None:
    service = services[0]
    service.loading = 10**6
    with pytest.raises(Cancelled):
        open_generator(spec(service), interrupted=lambda: service.greeted > 0)


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-5", "9" * 200, "Wed, 99 Foo 2026"])
def test_invalid_retry_after_is_none(value: str) -> None:
    assert retry_after(value) in (None, 0.0)


def test_a_retry_after_may_be_a_date() -> None:
    from email.utils import formatdate

    assert 50 < (retry_after(formatdate(time.time() + 60, usegmt=True)) or 0) <= 61


def test_late_request_is_sent_to_one_other_service(services: list[ImageService]) -> None:
    generator = open_generator(spec(*services))
    for one in services:
        one.faults = [(504, b"late")] * 9
    with pytest.raises(GeneratorError, match="504"):
        generator.draw("a boat", None, 1)
    assert sorted(asked(*services)) == [0, 1, 1]


def test_cancelling_closes_the_connection_at_once(services: list[ImageService]) -> None:
    service = services[0]
    service.hangs_at = "/edit"
    generator = open_generator(spec(service), interrupted=service.hanging.is_set)
    with pytest.raises(Cancelled):
        generator.draw("a boat", None, 1)
    assert service.left.wait(10)


# Who they are


def test_one_service_or_three_of_one_model_are_the_same_generator(services: list[ImageService]) -> None:
    identities = {open_generator(spec(*services[:count])).identity for count in (1, 2, 3)}
    assert identities == {"http model='painter/1 digest'"}


def test_services_of_different_models_are_rejected_unless_mixing_is_allowed(
    services: list[ImageService],
) -> None:
    services[1].health = {"identity": "painter/2"}
    with pytest.raises(SettingsError, match=r"different models.*painter/2.*set mixed"):
        open_generator(spec(*services))
    mixed = open_generator(spec(*services), mixed=True)
    again = open_generator(spec(*reversed(services)), mixed=True)
    assert mixed.identity == again.identity
    assert "painter/1" in mixed.identity and "painter/2" in mixed.identity


def test_services_without_a_model_name_are_identified_by_address(services: list[ImageService]) -> None:
    for one in services:
        one.health = None
    identity = open_generator(spec(*services)).identity
    assert identity == "http " + ",".join(sorted(one.url for one in services))
    services[0].health = {"identity": "painter/1 digest"}
    with pytest.raises(SettingsError, match="different models"):
        open_generator(spec(*services))


def test_list_opens_if_one_service_is_silent(
    services: list[ImageService], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_client, "GREETING_SECONDS", 1.0)
    services[0].hangs_at = "/health"
    generator = open_generator(spec(*services[:2]))
    generator.draw("a boat", None, 1)
    assert asked(*services[:2]) == [0, 1]
    services[1].hangs_at = "/health"
    with pytest.raises(GeneratorError, match="did not answer"):
        open_generator(spec(*services[:2]))


@pytest.mark.parametrize("size", ["\N{SUPERSCRIPT TWO}x64", "9" * 5000 + "x64", "64", "64x0"])
def test_invalid_size_is_a_settings_error(services: list[ImageService], size: str) -> None:
    with pytest.raises(SettingsError, match="WIDTHxHEIGHT"):
        open_generator(spec(services[0]), size=size)


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


# Addresses


def test_a_typed_address_has_the_forms_of_a_line(services: list[ImageService]) -> None:
    first, second, _ = services
    port = int(second.url.rpartition(":")[2])
    bare = first.url.removeprefix("http://")
    generator = open_generator(f"http:{bare},127.0.0.1", service_port=port)
    for prompt in PROMPTS:
        generator.draw(prompt, None, 1)
    assert all(asked(first, second))


# Files of addresses


def test_a_file_names_services_and_is_read_again_when_it_changes(
    services: list[ImageService], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("content", ["", "# nobody", "ftp://host", "host:0", "a b", "user:secret@host", "::"])
def test_a_file_without_addresses_is_a_settings_error(tmp_path: Path, content: str) -> None:
    file = tmp_path / "ip.txt"
    file.write_text(content)
    with pytest.raises(SettingsError) as caught:
        open_generator(f"http:@{file}")
    assert "secret" not in str(caught.value)


def test_devices_and_huge_files_are_rejected(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    huge = tmp_path / "huge"
    huge.write_text("host\n" * 100_000)
    many = tmp_path / "many"
    many.write_text("".join(f"host-{number}\n" for number in range(300)))
    for path in (pipe, huge, many, tmp_path / "none"):
        with pytest.raises(SettingsError):
            open_generator(f"http:@{path}")
