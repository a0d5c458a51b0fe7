"""This package's clients with its service: the same pixels as the library, through either protocol.

Also with two services, and with full and draining ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("python_multipart", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from support.running_service import Service, running_service

from interleave_thinker import Generator, GeneratorError, Picture, open_generator
from interleave_thinker.backend.core.types import StepImage, StepSettings
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.service.settings import ModelSettings, ServiceSettings

MODEL = ModelSettings(name="fake", generator="fake:64")
SOURCE = FakeGenerator(64).draw("a source", None, 3)
MASK = StepImage(name="mask.png", picture=Picture.white((64, 64)))
PROMPTS = [f"a boat, {number}" for number in range(8)]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    # Each service generates every image itself: a shared cache would hide differences.
    settings = ServiceSettings(keep=0)
    with running_service(first, [MODEL], settings) as one, running_service(second, [MODEL], settings) as two:
        yield one, two


@pytest.fixture(params=["http", "http of two", "images", "images of two"])
def client(request: pytest.FixtureRequest, services: tuple[Service, Service]) -> Generator:
    urls = ",".join(one.url for one in services[: 2 if "two" in request.param else 1])
    return open_generator(f"http:{urls}" if "http" in request.param else f"images:fake@{urls}")


def test_every_client_gives_the_librarys_pixels(client: Generator) -> None:
    library = open_generator("fake:64")
    for source in (None, SOURCE):
        for number, prompt in enumerate(PROMPTS):
            assert client.draw(prompt, source, number) == library.draw(prompt, source, number)


def test_settings_of_a_step_reach_the_service(client: Generator) -> None:
    library = open_generator("fake:64")
    given = {"negative": "fog", "mask": MASK}
    settings = StepSettings(**{name: given[name] for name in given if name in client.step_settings})
    drawn = client.with_step_settings(settings).draw("a sail", SOURCE, 1)
    assert drawn == library.with_step_settings(settings).draw("a sail", SOURCE, 1)
    assert drawn != client.draw("a sail", SOURCE, 1)


def test_a_service_is_known_by_its_model_and_can_repeat(services: tuple[Service, Service]) -> None:
    one, two = services
    both = f"{one.url},{two.url}"
    identities = {open_generator(f"http:{urls}").identity for urls in (one.url, two.url, both)}
    assert identities == {"http model='painted/1 64x64'"}
    assert open_generator(f"images:fake@{both}").repeatable, "its description lists the seed"


def test_refusal_of_the_model_fails_the_request(services: tuple[Service, Service]) -> None:
    client = open_generator(f"images:nobody@{services[0].url}")
    with pytest.raises(GeneratorError, match="nobody"):
        client.draw("a boat", None, 1)
