"""`serve check` with a correct service and with incorrect ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.image_service import ImageService, image_service

from interleave_thinker.service.check import CheckSettings, ServiceCheck

ASKED = CheckSettings(size=(32, 24), timeout=5)


@pytest.fixture
def service() -> Iterator[ImageService]:
    with image_service() as running:
        yield running


def found(url: str, key: str | None = None) -> dict[str, bool | None]:
    return {one.name: one.right for one in ServiceCheck(url, key, ASKED).findings()}


def test_correct_service(service: ImageService) -> None:
    assert found(service.url, "sesame") == {"health": True, "text": True, "edit": True, "again": True}
    assert service.headers_seen[-1]["cache-control"] == "no-cache"
    assert service.headers_seen[-1]["authorization"] == "Bearer sesame"
    assert [bool(body["image"]) for body in service.requests] == [False, True, True]


def test_unrepeatable_service_fails_the_check(service: ImageService) -> None:
    service.unlike_itself = True
    assert found(service.url) == {"health": True, "text": True, "edit": True, "again": False}


def test_service_that_only_edits_passes_the_check(service: ImageService) -> None:
    service.only_edits = True
    assert found(service.url) == {"health": True, "text": None, "edit": True, "again": True}


def test_an_unreachable_service_gives_one_line() -> None:
    (finding,) = ServiceCheck("http://127.0.0.1:9", None, ASKED).findings()
    assert finding.right is False
    assert "failed" in finding.said


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"success": true}', b'{"success": true, "edited_image": "no image"}', b"\xff" * 50]
)
def test_responses_without_an_image_are_failures(body: bytes) -> None:
    with image_service() as service:
        service.faults = [(200, body), (200, body)]
        assert found(service.url)["edit"] is False
