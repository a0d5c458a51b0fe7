"""The routes as clients see them: fields and statuses of both protocols, and the pixels of the library."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("python_multipart", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from PIL import Image
from support.running_service import POOLS, Service, running_service

from interleave_thinker import Picture, open_generator
from interleave_thinker.backend.core.types import StepImage, StepSettings
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.service.settings import ModelSettings

SOURCE = FakeGenerator(48).draw("a source", None, 3)
PUBLISHED_EDIT = set(
    [
        "success",
        "task_id",
        "original_image",
        "edited_image",
        "seed",
        "original_prompt",
        "enhanced_prompt",
        "gpu_id",
        "processing_time",
        "error",
    ]
)
PUBLISHED_DRAW = set(
    ["success", "task_id", "image", "seed", "enhanced_prompt", "gpu_id", "generation_time", "error"]
)
PUBLISHED_STATUS = set(
    ["active_workers", "task_queue_size", "result_queue_size", "pending_tasks", "total_gpus", "system_ready"]
)


# Loading the tiny world takes seconds, mostly imports, so the tests that need it come last.
@pytest.fixture(scope="module", params=POOLS)
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    models = [
        ModelSettings(name="fake", generator="fake:64", devices=("cpu",)),
        ModelSettings(name="tiny", generator="tinyworld", devices=("cpu",)),
    ]
    with running_service(tmp_path_factory.mktemp("service"), models, where=request.param) as running:
        yield running


def picture(text: str) -> Picture:
    return Picture.from_base64(text)


def png(image: Picture) -> tuple[str, bytes, str]:
    return ("image.png", image.png(), "image/png")


def test_an_edit_has_the_published_fields(service: Service) -> None:
    answer = service.post(
        "/edit",
        image=SOURCE.base64_png(),
        prompt="a boat",
        seed=0,
        enhance_prompt=False,
        negative_prompt="",
        num_inference_step=28,
        guidance_scale=2.5,
        width=32,
        height=32,
    )
    body = answer.json()
    assert answer.status_code == 200 and set(body) >= PUBLISHED_EDIT and body["success"] is True
    assert body["seed"] == 0 and body["error"] is None and body["original_image"] is None
    assert picture(body["edited_image"]) == FakeGenerator(32).draw("a boat", SOURCE, 0)
    assert body["ignored"] == ["guidance", "steps"]


def test_a_response_has_the_published_fields(service: Service) -> None:
    body = service.post("/generate", prompt="a boat", seed=5).json()
    assert set(body) >= PUBLISHED_DRAW
    assert picture(body["image"]) == FakeGenerator(64).draw("a boat", None, 5)
    assert service.post("/generate", prompt="a boat", aspect_ratio="1:1", seed=5).json()["size"] == [
        1328,
        1328,
    ]


def test_a_fill_model_uses_the_mask(service: Service) -> None:
    white = Picture.white(SOURCE.size)
    body = service.post(
        "/fill", image=SOURCE.base64_png(), mask_image=white.base64_png(), prompt="a", seed=1
    ).json()
    masked = FakeGenerator(64).with_step_settings(StepSettings(mask=StepImage(name="mask", picture=white)))
    assert picture(body["filled_image"]) == masked.draw("a", SOURCE, 1)
    assert service.post("/fill", image=SOURCE.base64_png(), prompt="a").status_code == 422


def test_files_of_a_form_are_the_same_as_base64(service: Service) -> None:
    white = Picture.white(SOURCE.size)
    form = {"prompt": "a boat", "seed": "3", "negative_prompt": "rain"}
    edited = service.client.post("/edit-upload", data=form, files={"image_file": png(SOURCE)}).json()
    plain = service.post(
        "/edit", image=SOURCE.base64_png(), prompt="a boat", seed=3, negative_prompt="rain"
    ).json()
    assert edited["edited_image"] == plain["edited_image"]
    files = {"image_file": png(SOURCE), "mask_file": png(white)}
    filled = service.client.post("/fill-upload", data=form, files=files).json()
    assert filled["success"] and filled["filled_image"] != plain["edited_image"]


def test_unknown_fields_are_listed_by_every_route(service: Service) -> None:
    asked = {"prompt": "a boat", "seed": 5, "num_inference_steps": 3, "enhance_prompt": True, "strength": 0.5}
    nothing = {"enhance_prompt": False, "quality": None, "user": "somebody", "pixels": ""}
    plain = service.post("/edit", prompt="a boat", seed=5, **nothing).json()
    assert plain["ignored"] == []
    named = service.post("/edit", **asked, **{"x" * 900: [[1]]}).json()
    assert named["ignored"] == ["enhance_prompt", "steps", "strength", "x" * 60]
    assert named["edited_image"] == plain["edited_image"]
    api = service.post("/v1/images/generations", prompt="a boat", seed=5, quality="high").json()
    assert api["ignored"] == ["quality"]
    form = {"prompt": "a boat", "seed": "5", "guidance_scale": "2", "max_sequence_length": "512"}
    upload = service.client.post("/edit-upload", data=form, files={"image_file": png(SOURCE)}).json()
    assert upload["ignored"] == ["guidance", "max_sequence_length"]
    many = service.post("/edit", prompt="a", seed=1, **{f"option {number}": 1 for number in range(99)}).json()
    assert len(many["ignored"]) == 20


def test_no_cache_gives_a_new_image(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    body, fresh = {"prompt": "cached?", "seed": 5}, {"Cache-Control": "no-cache"}
    draw, drawn = service.pool.draw, []
    monkeypatch.setattr(service.pool, "draw", lambda *given: drawn.append(given) or draw(*given))
    assert all(service.client.post("/edit", json=body, headers=one).is_success for one in ({}, {}, fresh))
    assert len(drawn) == 2


def test_an_image_may_be_webp_without_loss(service: Service) -> None:
    answer = service.client.post("/edit?format=webp", json={"prompt": "a boat", "seed": 5}).json()
    data = base64.b64decode(answer["edited_image"])
    assert Image.open(io.BytesIO(data)).format == "WEBP"
    assert Picture.from_bytes(data) == FakeGenerator(64).draw("a boat", None, 5)


def test_the_images_api_generates_and_edits(service: Service) -> None:
    answer = service.post("/v1/images/generations", prompt="a boat", n=2, seed=5, size="32x32", model="fake")
    drawn = [picture(one["b64_json"]) for one in answer.json()["data"]]
    assert drawn == [FakeGenerator(32).draw("a boat", None, seed) for seed in (5, 6)]
    second = FakeGenerator(16).draw("another", None, 1)
    files = [("image[]", png(SOURCE)), ("image[]", png(second))]
    form = {"prompt": "a boat", "seed": "5", "size": "auto"}
    edited = service.client.post("/v1/images/edits", data=form, files=files).json()
    referring = FakeGenerator(64).with_step_settings(
        StepSettings(reference=StepImage(name="reference", picture=second))
    )
    assert picture(edited["data"][0]["b64_json"]) == referring.draw("a boat", SOURCE, 5)


def test_a_transparent_mask_shows_what_to_change(service: Service) -> None:
    see_through = Image.new("RGBA", SOURCE.size, (0, 0, 0, 0))
    buffer = io.BytesIO()
    see_through.save(buffer, "PNG")
    files = {"image": png(SOURCE), "mask": ("mask.png", buffer.getvalue(), "image/png")}
    data = {"prompt": "a", "seed": "1"}
    answer = service.client.post("/v1/images/edits", data=data, files=files).json()
    white = StepImage(name="mask", picture=Picture.white(SOURCE.size))
    masked = FakeGenerator(64).with_step_settings(StepSettings(mask=white))
    assert picture(answer["data"][0]["b64_json"]) == masked.draw("a", SOURCE, 1)


REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "no prompt": ("/edit", {}, 422),
    "empty prompt": ("/generate", {"prompt": ""}, 422),
    "half a size": ("/edit", {"prompt": "a", "width": 64}, 422),
    "too many pixels": ("/edit", {"prompt": "a", "width": 8192, "height": 8192}, 422),
    "guidance is not a number": ("/edit", {"prompt": "a", "guidance_scale": "NaN"}, 422),
    "no base64": ("/edit", {"prompt": "a", "image": "a b"}, 400),
    "an address": ("/edit", {"prompt": "a", "image": "http://127.0.0.1/a.png"}, 400),
    "no image file": ("/edit", {"prompt": "a", "image": "AAAA"}, 400),
    "mask without image": ("/edit", {"prompt": "a", "mask_image": "AAAA"}, 400),
    "unknown model": ("/edit", {"prompt": "a", "model": "dall-e-9"}, 404),
    "a size the model cannot draw": ("/edit", {"prompt": "a", "width": 64, "height": 32}, 200),
    "a ratio that is none": ("/generate", {"prompt": "a", "aspect_ratio": "7:1"}, 422),
}


@pytest.mark.parametrize("case", REFUSED)
def test_every_rejection_has_the_published_format(service: Service, case: str) -> None:
    path, body, status = REFUSED[case]
    answer = service.post(path, **body)
    assert answer.status_code == status
    said = answer.json()
    assert said["success"] is False and said["error"] and said["detail"]
    assert isinstance(said["detail"], list) == (status == 422)


def test_the_images_api_returns_errors_in_its_own_form(service: Service) -> None:
    for body, status in (
        ({"prompt": "a", "size": "64x32"}, 400),
        ({"prompt": "a", "model": "gpt-image-1"}, 404),
        ({"prompt": "a", "n": 11}, 422),
        ({"prompt": "a", "response_format": "url"}, 422),
        ({"prompt": "a", "stream": True}, 422),
    ):
        answer = service.client.post("/v1/images/generations", json=body)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
    no_image = service.client.post("/v1/images/edits", data={"prompt": "a"})
    assert no_image.status_code == 400, no_image.text


def test_openais_client_is_served(service: Service) -> None:
    openai = pytest.importorskip("openai", reason="needs the client library openai")
    client = openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0)
    made = client.images.generate(model="fake", prompt="a boat", size="32x32")
    assert picture(made.data[0].b64_json).size == (32, 32)
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


@pytest.mark.parametrize("path", ["/nope", "/v1/models/none", "/v1/images/generations"])
def test_unknown_route_is_answered_in_the_clients_format(service: Service, path: str) -> None:
    answer = service.client.get(path)
    method = path == "/v1/images/generations"
    assert answer.status_code == (405 if method else 404)
    assert ("allow" in answer.headers) == method
    error = answer.json()["error"]
    if path == "/nope":
        assert "/nope" in error and answer.json()["success"] is False
    else:
        assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/health", "/nope", "/edit"])
def test_head_is_get_without_a_body(service: Service, path: str) -> None:
    asked, expected = service.client.head(path), service.client.get(path)
    assert asked.status_code == expected.status_code and asked.content == b""
    assert asked.headers["content-type"] == expected.headers["content-type"]
    assert "content-length" in asked.headers


@pytest.mark.parametrize(
    ("name", "value"), [("seed", True), ("size", "\u0663\u0662x\u0663\u0662"), ("num_inference_steps", False)]
)
def test_invalid_number_is_rejected(service: Service, name: str, value: Any) -> None:
    answer = service.post("/v1/images/generations", prompt="a boat", **{name: value})
    assert answer.status_code == 422 and answer.json()["error"]["param"] == name
    if name == "seed":
        assert service.post("/edit", prompt="a boat", seed=value).status_code == 422
        assert service.client.post("/v1/images/edits", data={"prompt": "a", "seed": value}).status_code == 422


def test_body_with_wrong_content_type_is_rejected(service: Service) -> None:
    """A page of another site can send text without a preflight request, but not JSON."""
    answer = service.client.post("/edit", content=b'{"prompt": "a"}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    form = service.client.post(
        "/edit-upload", content=b"--x", headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert form.status_code in (400, 422)


@pytest.mark.parametrize("model", ["fake", "tiny"])
@pytest.mark.parametrize("source", [None, SOURCE], ids=["text", "edit"])
def test_the_service_draws_as_the_library_does(service: Service, model: str, source: Picture | None) -> None:
    service.wait_for(model)
    prompt = "Draw a sea page with a red boat in the middle."
    expected = open_generator({"fake": "fake:64", "tiny": "tinyworld"}[model]).draw(prompt, source, 7)
    image = source.base64_png() if source else None
    answer = service.post("/edit", prompt=prompt, image=image, seed=7, model=model).json()
    assert picture(answer["edited_image"]) == expected


def test_a_header_names_the_model(service: Service) -> None:
    service.wait_for("tiny")
    by_header = service.client.post(
        "/edit", json={"prompt": "a"}, headers={"serve-multiplexed-model-id": "tiny"}
    )
    assert by_header.json()["model_type"] == "tiny"


def test_health_status_and_models(service: Service) -> None:
    service.wait_for("tiny")
    health = service.client.get("/health")
    assert health.status_code == 200
    said = health.json()
    assert said["gpu_manager_ready"] is True and isinstance(said["timestamp"], float)
    assert said["identity"] == FakeGenerator(64).identity and said["workers"]["alive"] == 2
    assert said["models"]["tiny"] == open_generator("tinyworld").identity
    assert set(service.client.get("/status").json()) >= PUBLISHED_STATUS
    assert service.client.get("/ready").status_code == 200
    assert set(service.client.get("/").json()) >= {"message", "status"}
    schema = service.client.get("/openapi.json").json()
    assert {"/edit", "/generate", "/fill", "/v1/images/edits"} <= set(schema["paths"])
    assert service.client.get("/docs").headers["content-type"] == "text/html; charset=utf-8"
