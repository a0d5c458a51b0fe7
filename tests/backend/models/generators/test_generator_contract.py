"""The contract of generators, tested with every implementation. Add a new one to FACTORIES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

import pytest
from PIL import Image, ImageChops
from support import gemini_api, tiny_pipelines
from support.image_service import image_service
from support.images_api import images_service

from interleave_thinker import Generator, InterleaveError, Picture, open_generator
from interleave_thinker.backend.core.types import MAX_TEXT, DrawSettings, Identities, StepImage, StepSettings


@dataclass
class Subject:
    """Opens one generator: `open()` plainly, `open(**changed)` with an option that affects the image.

    `size` is the size of all its images, if it does not keep that of the source image.
    """

    spec: str
    options: dict[str, object]
    changed: dict[str, object]
    size: tuple[int, int] | None = None

    def open(self, **options: object) -> Generator:
        return open_generator(self.spec, **{**self.options, **options})


@contextmanager
def diffusers_subject(folder: Path) -> Iterator[Subject]:
    tiny_pipelines.stable_diffusion(folder)
    yield Subject(f"diffusers:{folder}", {"device": "cpu", "steps": 2, "size": "64x64"}, {"steps": 3})


@contextmanager
def http_subject(folder: Path) -> Iterator[Subject]:
    with image_service() as service:
        yield Subject(service.url, {}, {"steps": 3})


@contextmanager
def services_subject(folder: Path) -> Iterator[Subject]:
    with image_service() as first, image_service() as second:
        for one in (first, second):
            one.health = {"identity": "tiny-painter/1"}
        yield Subject(f"http:{first.url},{second.url}", {}, {"steps": 3})


@contextmanager
def images_subject(folder: Path) -> Iterator[Subject]:
    with images_service() as service:
        yield Subject(f"images:painter@{service.url}", {}, {"steps": 3})


@contextmanager
def gemini_subject(folder: Path) -> Iterator[Subject]:
    with gemini_api.gemini_service() as service:
        spec = f"gemini:{gemini_api.MODEL}@{service.url}"
        yield Subject(spec, {}, {"input_side": 64}, size=(1024, 1024))


@contextmanager
def fake_subject(folder: Path) -> Iterator[Subject]:
    yield Subject("fake:64", {}, {"size": 128})


FACTORIES: dict[str, Callable[[Path], AbstractContextManager[Subject]]] = {
    "diffusers": diffusers_subject, "http": http_subject, "http, several": services_subject,
    "images": images_subject, "gemini": gemini_subject, "fake": fake_subject,
}  # fmt: skip

SOURCE = Picture(Image.linear_gradient("L").convert("RGB").resize((64, 64)))


@pytest.fixture(scope="module", params=FACTORIES)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    with FACTORIES[request.param](tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.fixture(scope="module")
def generator(subject: Subject) -> Generator:
    return subject.open()


@pytest.mark.parametrize("source", [None, SOURCE], ids=["text-to-image", "edit"])
def test_same_arguments_same_pixels(subject: Subject, generator: Generator, source: Picture | None) -> None:
    first = generator.draw("a small house", source, 11)
    assert isinstance(first, Picture)
    assert generator.draw("a small house", source, 11) == first
    assert subject.open().draw("a small house", source, 11) == first, "opened again"


@pytest.mark.parametrize("source", [None, SOURCE], ids=["text-to-image", "edit"])
def test_the_seed_matters(subject: Subject, generator: Generator, source: Picture | None) -> None:
    if not generator.repeatable:
        assert "unseeded" in generator.identity and subject.spec.startswith("gemini:")
        return
    assert generator.draw("a small house", source, 11) != generator.draw("a small house", source, 2**53)


def test_an_edit_keeps_its_source_and_size(subject: Subject, generator: Generator) -> None:
    before = SOURCE.image.tobytes()
    assert generator.draw("a small house", SOURCE, 11).size == (subject.size or SOURCE.size)
    assert SOURCE.image.tobytes() == before


def test_identity_is_stable_and_changes_with_the_options(subject: Subject, generator: Generator) -> None:
    identity = generator.identity
    assert identity.strip()
    generator.draw("a small house", None, 1)
    assert generator.identity == identity == subject.open().identity
    assert subject.open(**subject.changed).identity != identity
    with pytest.raises(InterleaveError):
        subject.open(no_such_option=1)
    if subject.spec == "fake:64":
        assert identity == "painted/1 64x64", "the identity in stored runs"


THREADS, ROUNDS = 4, 2


@contextmanager
def tinyworld_subject(folder: Path) -> Iterator[Subject]:
    yield Subject("tinyworld", {}, {})


IN_THREADS = {**FACTORIES, "tinyworld": tinyworld_subject}
"""The tiny world's pages have one size and it has no options, so of the bodies here it takes the one on
threads alone."""


@pytest.mark.parametrize("name", ["diffusers", "http", "images"])
def test_an_identity_fits_into_a_record_with_any_negative_prompt(name: str, tmp_path: Path) -> None:
    with FACTORIES[name](tmp_path) as subject:
        one, other, short = (
            subject.open(negative=text).identity for text in ("x" * MAX_TEXT + "a", "x" * MAX_TEXT + "b", "x")
        )
    assert one != other
    assert Identities(generator=one).generator == one
    assert one.startswith(short.split()[0])


@pytest.mark.parametrize("name", IN_THREADS)
def test_parallel_threads_get_the_results_of_single_calls(name: str, tmp_path: Path) -> None:
    """Concurrent text-to-image and edits, in one generator and in another one opened meanwhile."""
    if name in ("diffusers", "tinyworld"):
        pytest.importorskip("diffusers")
    with IN_THREADS[name](tmp_path) as opened:
        generator = opened.open()
        asked = [
            (f"a {color} house", SOURCE if number % 2 else None, number)
            for number, color in enumerate(("red", "blue", "green", "yellow") * ROUNDS)
        ]
        alone = [generator.draw(*arguments) for arguments in asked]
        start = Barrier(THREADS)

        def draw(first: int) -> list[Picture]:
            start.wait()
            own = opened.open() if first == 0 else generator
            return [own.draw(*arguments) for arguments in asked[first::THREADS]]

        with ThreadPoolExecutor(THREADS) as pool:
            together = list(pool.map(draw, range(THREADS)))
    assert [together[number % THREADS][number // THREADS] for number in range(len(asked))] == alone


def test_many_images_in_one_call_are_those_of_single_calls() -> None:
    pytest.importorskip("diffusers")
    generator = open_generator("tinyworld")
    assert generator.draws_many
    asked = [("a red house", None, 1), ("a blue house", SOURCE, 2), ("seven green ducks", SOURCE, 1)]
    many = generator.draw_many(*zip(*asked, strict=True))
    turned = generator.draw_many(*zip(*asked[::-1], strict=True))[::-1]
    for one, other, single in zip(many, turned, (generator.draw(*one) for one in asked), strict=True):
        for image in (one, other):
            worst = max(high for _, high in ImageChops.difference(image.image, single.image).getextrema())
            assert worst <= 2, f"{worst} of 255 away from the single one"


def test_reference_models_see_earlier_images_in_order(generator: Generator) -> None:
    assert (generator.max_reference_images > 0) == ("reference" in generator.step_settings)
    if not generator.max_reference_images:
        return
    other = Picture(SOURCE.image.rotate(90))
    earlier, turned = ((SOURCE, other), (other, SOURCE))

    def draw(settings: StepSettings) -> Picture:
        return generator.with_step_settings(settings).draw("a red house", SOURCE, 5)

    drawn = [draw(DrawSettings(beside=one)) for one in ((), earlier, turned, (other,))]
    assert len({one.digest for one in drawn}) == 4 and drawn[1] == draw(DrawSettings(beside=earlier))
    assert drawn[0] == generator.draw("a red house", SOURCE, 5)
    reference = StepImage(name="other.png", picture=other)
    assert draw(StepSettings(reference=reference)) == drawn[3], "a reference is the last of them"
    assert draw(DrawSettings(beside=(SOURCE,), reference=reference)) == drawn[1]


def test_options_of_one_call_act_like_options_at_opening(subject: Subject) -> None:
    generator = subject.open()
    if not generator.draw_options:
        return
    chosen: dict[str, object] = {"steps": 3, "guidance": 2.5, "size": (32, 32)}
    chosen = {name: value for name, value in chosen.items() if name in generator.draw_options}
    assert chosen
    opened = subject.open(**(chosen | ({"size": "32x32"} if "size" in chosen else {})))
    other = generator.with_draw_options(**chosen)  # type: ignore[arg-type]
    assert other.draw("a red house", SOURCE, 5) == opened.draw("a red house", SOURCE, 5)
    assert other.identity != generator.identity
    assert generator.draw("a red house", SOURCE, 5) == subject.open().draw("a red house", SOURCE, 5)
