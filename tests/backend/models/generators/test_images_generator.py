"""The client of the OpenAI Images API with open and hosted servers.

Tests the fields sent to each, and refusals, addresses and invalid answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from support.images_api import ImagesService, images_service, painted

from interleave_thinker import DrawRefused, GeneratorError, Picture, SettingsError, open_generator
from interleave_thinker.backend.core.types import DrawSettings, StepImage, StepSettings
from interleave_thinker.backend.models.generators.images_api import described


@pytest.fixture
def service() -> Iterator[ImagesService]:
    with images_service() as running:
        yield running


@pytest.fixture
def hosted() -> Iterator[ImagesService]:
    with images_service(hosted=True) as running:
        yield running


def spec(*services: ImagesService) -> str:
    return "images:painter@" + ",".join(one.url for one in services)


def plain(color: tuple[int, int, int], size: tuple[int, int] = (48, 32)) -> Picture:
    return Picture(Image.new("RGB", size, color))


RED, GREEN, BLUE = plain((200, 30, 30)), plain((30, 200, 30)), plain((30, 30, 200), (20, 20))


def test_a_text_is_json_and_an_edit_is_a_form(service: ImagesService) -> None:
    generator = open_generator(spec(service), steps=4, negative="blur", size="80x64")
    drawn = generator.draw("a boat", None, 7)
    edited = generator.draw("make it blue", RED, 8)
    text, edit = service.requests
    extras = {"model": "painter", "size": "80x64", "response_format": "b64_json", "negative_prompt": "blur"}
    assert text == {**extras, "prompt": "a boat", "n": 1, "seed": 7, "num_inference_steps": 4}
    assert edit.pop("images") == [RED] and edit.pop("image") == ["image-1.png"]
    assert edit == {**extras, "prompt": "make it blue", "n": "1", "seed": "8", "num_inference_steps": "4"}
    assert drawn == painted(text) and edited.size == (80, 64)


def test_several_images_arrive_in_order(service: ImagesService) -> None:
    generator = open_generator(spec(service))
    step = StepSettings(reference=StepImage(name="b.png", picture=BLUE))
    generator.with_step_settings(step).draw("both", RED, 1)  # type: ignore[attr-defined]
    earlier = DrawSettings(beside=(RED, BLUE))
    generator.with_step_settings(earlier).draw("all", GREEN, 1)  # type: ignore[attr-defined]
    assert [one["images"] for one in service.requests] == [[RED, BLUE], [GREEN, RED, BLUE]]
    assert "image" not in service.requests[1] and len(service.requests[1]["image[]"]) == 3


@pytest.mark.parametrize("field", ["mask", "mask_image"])
def test_a_mask_is_as_the_server_reads_one(service: ImagesService, tmp_path: Path, field: str) -> None:
    half = Image.new("L", (48, 32), 0)
    half.paste(255, (0, 0, 24, 32))
    half.save(tmp_path / "mask.png")
    extras = "seed,mask_image" if field == "mask_image" else None
    generator = open_generator(spec(service), mask=str(tmp_path / "mask.png"), extras=extras)
    generator.draw("a sail", RED, 1)
    mask = service.requests[0][field]
    if field == "mask_image":
        assert mask.mode == "L" and mask.tobytes() == half.tobytes()
    else:
        assert mask.mode == "RGBA"
        assert (mask.getpixel((0, 0))[3], mask.getpixel((40, 0))[3]) == (0, 255), "transparent may change"
    assert generator.identity != open_generator(spec(service), extras=extras).identity
    service.requests.clear()
    generator.draw("a boat", None, 1)
    assert field not in service.requests[0], "a mask is for edits"


def test_a_step_can_set_mask_negative_and_size(service: ImagesService) -> None:
    generator = open_generator(spec(service))
    assert generator.step_settings == {"mask", "reference", "negative", "size"}  # type: ignore[attr-defined]
    mask = StepImage(name="m.png", picture=Picture.white((4, 4)))
    step = StepSettings(mask=mask, negative="fog", size="96x64")
    generator.with_step_settings(step).draw("a sail", RED, 1)  # type: ignore[attr-defined]
    generator.draw("a sail", RED, 1)
    assert service.requests[0]["mask"].size == RED.size and service.requests[0]["negative_prompt"] == "fog"
    assert service.requests[0]["size"] == "96x64" and "size" not in service.requests[1]
    assert "mask" not in service.requests[1] and "negative_prompt" not in service.requests[1]


# Seeds


def test_description_of_an_open_server_is_read(service: ImagesService) -> None:
    generator = open_generator(spec(service))
    assert service.pages == ["/v1/models", "/openapi.json"] and service.requests == []
    assert generator.repeatable and "unseeded" not in generator.identity
    assert generator.identity == f"images {service.url} model='painter'"


def test_hosted_model_is_unseeded_and_gets_no_unsupported_field(hosted: ImagesService) -> None:
    generator = open_generator(spec(hosted))
    assert not generator.repeatable and "unseeded" in generator.identity
    first, second = (generator.draw("a boat", RED, 7) for _ in range(2))
    assert first != second
    # The server rejects the format once, which costs no image; later requests omit it.
    assert ["response_format" in one for one in hosted.requests] == [True, False, False]
    assert not any("seed" in one for one in hosted.requests)
    assert generator.step_settings == {"mask", "reference", "size"}  # type: ignore[attr-defined]


def test_optional_fields_can_be_listed(service: ImagesService, hosted: ImagesService) -> None:
    generator = open_generator(spec(service), extras="seed")
    assert service.pages == ["/v1/models"] and generator.repeatable
    assert not open_generator(spec(service), extras="none").repeatable
    with pytest.raises(SettingsError, match=r"does not report support for steps.*in extras.*steps,"):
        open_generator(spec(service), extras="seed", steps=4)
    with pytest.raises(SettingsError, match=r"support for steps.*in extras"):
        open_generator(spec(hosted), steps=4)
    with pytest.raises(SettingsError, match="optional field 'color'"):
        open_generator(spec(service), extras="color")
    assert not open_generator(spec(service, hosted)).repeatable, "only fields of both servers are used"


@pytest.mark.parametrize(
    "page",
    [
        b"{",
        b'{"paths": 3}',
        b'{"paths": {"//[/images/edits": {}}}',
        b'{"paths": {"/images/edits": {"post": {"requestBody": {"content": '
        b'{"x": {"schema": {"allOf": 5}}}}}}}}',
    ],
)
def test_a_service_page_without_a_description_offers_no_extras(page: bytes) -> None:
    assert described(page).extras == frozenset()


def test_a_server_without_arrays_gets_its_images_one_by_one(service: ImagesService) -> None:
    assert described(json.dumps(service.page).encode()).array
    assert not described(json.dumps(service.page).replace("image[]", "picture").encode()).array


# Refusals


@pytest.mark.parametrize("code", ["moderation_blocked", "content_policy_violation"])
def test_moderation_rejects_the_request(hosted: ImagesService, code: str) -> None:
    generator = open_generator(spec(hosted))
    error = {"error": {"message": "Your request was rejected.", "type": "user_error", "code": code}}
    hosted.faults = [(400, json.dumps(error).encode())]
    with pytest.raises(DrawRefused, match=r"refuses this prompt.*rejected"):
        generator.draw("something", None, 1)
    assert len(hosted.requests) == 1, "the request is not repeated"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (422, {"detail": "Field 'image' or 'url' is required"}, "422"),
        (401, {"error": {"message": "no key"}}, "INTERLEAVE_GENERATOR_KEY"),
        (429, {"error": {"message": "credit", "code": "insufficient_quota"}}, "insufficient_quota"),
    ],
)
def test_refusals_are_errors_at_once(service: ImagesService, status: int, body: dict, words: str) -> None:
    generator = open_generator(spec(service))
    service.faults = [(status, json.dumps(body).encode())]
    with pytest.raises(GeneratorError, match=words):
        generator.draw("a boat", None, 1)
    assert len(service.requests) == 1


def test_an_address_is_not_followed(service: ImagesService) -> None:
    generator = open_generator(spec(service))
    service.faults = [(200, json.dumps({"data": [{"url": f"{service.url}/secret.png"}]}).encode())]
    pages = len(service.pages)
    with pytest.raises(GeneratorError, match="Addresses are not followed"):
        generator.draw("a boat", None, 1)
    assert len(service.pages) == pages
    service.faults = [(200, json.dumps({"data": [{"url": RED.data_url()}]}).encode())]
    assert generator.draw("a boat", None, 1) == RED


# Addresses and keys


def test_an_address_gets_the_path_of_the_api(service: ImagesService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_GENERATOR_KEY", "secret-key")
    generator = open_generator(spec(service).removesuffix("/v1"))
    generator.draw("a boat", None, 1)
    assert (
        service.headers_seen[0]["authorization"] == "Bearer secret-key" and "secret" not in generator.identity
    )
    assert generator.identity == open_generator(spec(service)).identity
