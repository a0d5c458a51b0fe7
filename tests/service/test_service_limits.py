"""Access and limits: API keys, pages of other sites, large, slow and hostile bodies, limits per client."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.running_service import Service, running_service, wait_until

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.service.front import HeldMemory, Places, RequestMemory
from interleave_thinker.service.pool import Busy
from interleave_thinker.service.settings import ModelSettings, ServiceSettings
from interleave_thinker.service.web import request_handler

FAKE = ModelSettings(name="fake", generator="fake:16", devices=("cpu",))
IMAGE = FakeGenerator(16).draw("a", None, 1).base64_png()
BODY = json.dumps({"prompt": "a boat", "image": IMAGE, "seed": 1, "width": 16, "height": 16}).encode()
KEY = "a-key-of-this-test"
SLOW_SECONDS = 0.5


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    limits = ServiceSettings(max_body=1, body_seconds=SLOW_SECONDS)
    with running_service(tmp_path_factory.mktemp("service"), [FAKE], limits) as running:
        yield running


def raw(service: Service, sent: bytes) -> bytes:
    """Return the answer to bytes on a connection of their own, until the service closes it."""
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(sent)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts)


def still_draws(service: Service) -> None:
    assert service.client.post("/edit", content=BODY).json()["success"] is True
    wait_until(lambda: service.front.held.bytes == 0)


def test_memory_is_held_until_its_request_ends() -> None:
    held = HeldMemory(10)
    one, other = RequestMemory(held), RequestMemory(held)
    one.take(6)
    with pytest.raises(Busy):
        other.take(5)
    other.take(4)
    one.give_back()
    one.take(9)
    one.give_back()
    assert held.bytes == 4, "a finished request takes nothing and gives back once"


def test_places_that_are_free_again_are_forgotten() -> None:
    async def ask(places: Places) -> None:
        async with places.place("a client", lambda: Busy("full")):
            await asyncio.sleep(0)

    async def ask_together(places: Places) -> None:
        await asyncio.gather(*(ask(places) for _ in range(3)))

    places = Places(1, 60.0)
    asyncio.run(ask_together(places))
    assert not places.taken and not places.waiting


def test_a_large_body_gives_413_without_being_read(service: Service) -> None:
    large = service.client.post("/edit", content=b"x" * (3 * 1024 * 1024))
    assert large.status_code == 413 and large.json()["success"] is False
    still_draws(service)


def test_slow_body_is_408_and_delays_no_other_request(service: Service) -> None:
    head = b"POST /edit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n"
    number = service.front.settings.per_client + 8
    with ThreadPoolExecutor(number) as clients:
        slow = [clients.submit(raw, service, head + b'{"prompt') for _ in range(number)]
        still_draws(service)
        answers = [one.result() for one in slow]
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)


@settings(max_examples=150)
@given(st.data())
def test_mutated_body_gets_an_answer_and_never_a_crash(service: Service, data: st.DataObject) -> None:
    body = bytearray(BODY)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body)))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    headers = {"Content-Type": "application/json"}
    answer = service.client.post("/edit", content=bytes(body), headers=headers)
    assert answer.status_code in (200, 400, 404, 422), answer.text
    assert isinstance(answer.json()["success"], bool)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b'{"prompt": "a", "x": [' + b"0," * 300_000 + b"0]}",
        b'{"prompt": "\\ud800"}',
        b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
        b'{"prompt": "a", "image": {"a": 1}}',
        b"\xff\xfe{}",
    ],
    ids=range(7),
)
def test_hostile_json_is_422(service: Service, body: bytes) -> None:
    answer = service.client.post("/generate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 or (answer.status_code == 200 and b"prompt" in body), answer.text
    assert answer.headers["content-type"] == "application/json"


def test_an_image_with_too_many_pixels_is_rejected_by_its_header(service: Service) -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", 10000, 10000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    bomb = b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 8) + b"IDAT12345678"
    answer = service.client.post("/edit-upload", data={"prompt": "a"}, files={"image_file": ("a.png", bomb)})
    assert answer.status_code == 400 and "10000x10000" in answer.json()["error"]


def test_pixels_count_towards_all_memory(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may contain many pixels."""
    monkeypatch.setattr(service.front.held, "most", 1_500_000)
    small = Picture.white((500, 500)).base64_png()
    body = {"prompt": "a boat", "image": small, "seed": 1, "width": 16, "height": 16}
    answer = service.post("/edit", **body)
    assert len(small) < 10_000 and answer.status_code == 503 and answer.headers["retry-after"] == "2"
    still_draws(service)


def test_all_image_headers_are_checked_first(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(data: bytes, where: str) -> Picture:
        raise AssertionError(f"{where} was decoded")

    monkeypatch.setattr(request_handler, "decode_image", decoded)
    buffer = io.BytesIO()
    Image.new("1", (7000, 7000)).save(buffer, "PNG")
    files = [("image[]", (f"{number}.png", buffer.getvalue())) for number in range(3)]
    answer = service.client.post("/v1/images/edits", data={"prompt": "a", "size": "16x16"}, files=files)
    assert answer.status_code == 400 and "147000000 pixels" in answer.json()["error"]["message"]
    assert len(buffer.getvalue()) < 20_000


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_chunked_body_has_the_same_limits(service: Service) -> None:
    kind = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    head = b"POST /edit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + kind
    halves = chunk(BODY[:40]) + chunk(BODY[40:])
    whole = raw(service, head + halves + b"0\r\n\r\n")
    assert whole.startswith(b"HTTP/1.1 200") and b'"success": true' in whole
    assert raw(service, head + chunk(b"x" * 65536) * 48 + b"0\r\n\r\n").startswith(b"HTTP/1.1 413")
    for unfinished in (halves, chunk(b"{")[:-2], b"7fffffff\r\n{"):
        assert raw(service, head + unfinished).startswith(b"HTTP/1.1 408")
    for wrong in (b"zz\r\n{}\r\n", b"-5\r\n{}\r\n", b"f" * 40 + b"\r\n"):
        assert raw(service, head + wrong).startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
    both = b"POST /edit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" + kind
    assert not raw(service, both + halves + b"0\r\n\r\n").startswith(b"HTTP/1.1 5")
    still_draws(service)


def test_requests_from_pages_of_other_sites_are_rejected(service: Service) -> None:
    for headers in (
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Host": "["},
    ):
        answer = service.client.post("/edit", content=BODY, headers=headers)
        assert answer.status_code == 403, headers
    own = service.client.post("/edit", content=BODY, headers={"Origin": service.url})
    assert own.status_code == 200


def test_key_is_checked_before_the_body_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_SERVICE_KEY", KEY)
    with running_service(tmp_path, [FAKE]) as locked:
        length = b"Content-Length: 100000\r\n"
        head = b"POST /edit HTTP/1.1\r\nHost: a\r\n" + length + b"\r\n"
        assert raw(locked, head).startswith(b"HTTP/1.1 401")
        for given_key in ({}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {KEY}x"}):
            refused = locked.client.post("/edit", content=BODY, headers=given_key)
            assert refused.status_code == 401 and KEY not in refused.text
            assert refused.headers["www-authenticate"] == "Bearer"
        for path in ("/status", "/v1/models"):
            assert locked.client.get(path).status_code == 401
        for path in ("/health", "/ready", "/", "/docs", "/openapi.json"):
            assert locked.client.get(path).status_code == 200
        right = {"Authorization": f"Bearer {KEY}"}
        assert locked.client.post("/edit", content=BODY, headers=right).status_code == 200


def test_requests_per_client_are_limited(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (tmp_path / "package").mkdir()
    model = ModelSettings(name="faulty", generator="faulty", options={"notes": str(notes)})
    shares = ServiceSettings(per_client=2, patience=0.5)
    with running_service(tmp_path / "package", [model], shares) as sharing, ThreadPoolExecutor(4) as clients:
        asked = [
            clients.submit(sharing.post, "/edit", prompt=f"slow 1.2 {number}", seed=1) for number in range(2)
        ]
        wait_until(lambda: sharing.front.under_way() == 2)
        third = sharing.post("/edit", prompt="a", seed=1)
        assert third.status_code == 429 and int(third.headers["Retry-After"]) >= 1
        assert all(one.result().status_code == 200 for one in asked)
        assert sharing.post("/edit", prompt="a", seed=1).status_code == 200
