"""Failures behind the service, as its clients see them.

Workers that die, models that cannot be loaded, timeouts, clients that hang up, and requests that share one
image.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')
pytest.importorskip("fastapi", reason='a service needs: pip install ".[serve]"')

from support.running_service import LOCAL, POOLS, Service, running_service, wait_until
from support.service_generators import noted

from interleave_thinker import Picture, open_generator
from interleave_thinker.backend.models.generators.fake import FakeGenerator
from interleave_thinker.service import local_pool
from interleave_thinker.service.pool import Drawer
from interleave_thinker.service.settings import ModelSettings, ServiceSettings
from interleave_thinker.service.web import routes

ONLY_RAY = pytest.mark.parametrize("service", POOLS[1:], indirect=True)


def faulty(notes: Path, workers: int = 1) -> ModelSettings:
    notes.mkdir(exist_ok=True)
    return ModelSettings(
        name="faulty", generator="faulty", devices=("cpu",) * workers, options={"notes": str(notes)}
    )


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module", params=POOLS)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, notes: Path
) -> Iterator[Service]:
    """One worker, two on Ray, and a model that cannot be loaded."""
    models = [
        faulty(notes, 1 if request.param == LOCAL else 2),
        ModelSettings(name="absent", generator="faulty:no"),
    ]
    settings = ServiceSettings(timeout=20.0, patience=0.0)
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, models, settings, where=request.param) as running:
        running.wait_for("absent")
        yield running


def drawn(answer: httpx.Response) -> Picture:
    assert answer.status_code == 200, answer.text
    return Picture.from_base64(answer.json()["edited_image"])


def expected(prompt: str, seed: int) -> Picture:
    return FakeGenerator(32).draw(prompt, None, seed)


@ONLY_RAY
def test_dying_worker_loses_no_image(service: Service) -> None:
    with ThreadPoolExecutor(8) as clients:
        prompts = ["die once", *(f"page {number}" for number in range(16))]
        answers = list(clients.map(lambda prompt: service.post("/edit", prompt=prompt, seed=1), prompts))
    assert [drawn(answer) for answer in answers] == [expected(prompt, 1) for prompt in prompts]
    wait_until(lambda: service.phases("faulty") == ["alive", "alive"])


@ONLY_RAY
def test_request_that_kills_workers_is_given_up_after_two(service: Service, notes: Path) -> None:
    answer = service.post("/edit", prompt="die always", seed=1)
    assert answer.status_code == 500 and answer.json()["success"] is False
    assert noted(notes, "deaths").count("die always") == 2
    wait_until(lambda: service.phases("faulty") == ["alive", "alive"])
    assert drawn(service.post("/edit", prompt="after", seed=1)) == expected("after", 1)


@pytest.mark.parametrize("kind", ["memory", "crash"])
def test_failure_affects_only_its_request(service: Service, notes: Path, kind: str) -> None:
    deaths = len(noted(notes, "deaths"))
    answer = service.post("/edit", prompt=f"{kind} here", seed=1)
    assert answer.status_code == 500
    assert {"memory": "out of memory", "crash": "illegal memory access"}[kind] in answer.json()["error"]
    assert drawn(service.post("/edit", prompt=f"after {kind}", seed=1)) == expected(f"after {kind}", 1)
    assert len(noted(notes, "deaths")) == deaths


def test_a_rejection_by_the_model_is_returned(service: Service) -> None:
    answer = service.post("/edit", prompt="refuse this", seed=1)
    assert answer.status_code == 200
    assert answer.json()["error"] == "The model does not draw that. Ask for something else."


def test_a_model_that_cannot_be_loaded_reports_the_reason(service: Service) -> None:
    answer = service.post("/edit", prompt="a", model="absent")
    assert answer.status_code == 503 and "The folder does not exist" in answer.json()["error"]
    assert "Retry-After" not in answer.headers, "to ask again is of no use"
    (worker,) = [one for one in service.client.get("/status").json()["workers"] if one["model"] == "absent"]
    assert worker["phase"] == "dead" and worker["reason"] and worker["seconds_to_restart"] is None
    assert worker["restarts"] == 0 and service.pool.hopeless() == "", "the other model still generates"


def test_a_client_waits_for_loading(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "LOADING_SECONDS", 1)
    (tmp_path / "service").mkdir()
    slow = ModelSettings(
        name="faulty", generator="faulty", devices=("cpu",), options={"notes": str(notes), "load": 2.0}
    )
    with running_service(tmp_path / "service", [slow], loaded=False) as loading:
        health = loading.client.get("/health")
        assert (health.status_code, health.json()["status"]) == (503, "loading")
        generator = open_generator(f"http:{loading.url}")
        assert "faulty/1" in generator.identity
        assert generator.draw("a page", None, 3) == expected("a page", 3)


def test_an_equal_request_is_answered_from_the_cache(service: Service, notes: Path) -> None:
    for _ in range(3):
        assert drawn(service.post("/edit", prompt="same", seed=4)) == expected("same", 4)
    assert noted(notes, "drawn").count("same") == 1
    for _ in range(2):
        service.post("/edit", prompt="any")
    assert noted(notes, "drawn").count("any") == 2, "without a seed, every image is generated"


def test_client_that_hangs_up_leaves_the_queue(service: Service, notes: Path) -> None:
    def hang_up(prompt: str) -> None:
        with httpx.Client(base_url=service.url, timeout=0.3) as client, pytest.raises(httpx.ReadTimeout):
            client.post("/edit", json={"prompt": prompt, "seed": 1})

    threads = [threading.Thread(target=hang_up, args=(f"slow 15 {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: service.pool.queued("faulty") == 0 and service.front.under_way() == 0)
    assert drawn(service.post("/edit", prompt="next", seed=1)) == expected("next", 1)
    wait_until(lambda: noted(notes, "stopped"))
    assert not [line for line in noted(notes, "drawn") if line.startswith("slow 15")]


def test_full_queue_is_503_with_retry_after_and_timeout_is_504(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (tmp_path / "package").mkdir()
    settings = ServiceSettings(queue=1, patience=0.0, timeout=1.0)
    with running_service(tmp_path / "package", [faulty(notes)], settings) as small:
        with ThreadPoolExecutor(6) as clients:
            asked = [
                clients.submit(small.post, "/edit", prompt=f"slow 5 {number}", seed=1) for number in range(6)
            ]
            answers = [one.result() for one in asked]
        late = [answer for answer in answers if answer.status_code == 504]
        full = [answer for answer in answers if answer.status_code == 503]
        assert len(late) == 2 and len(full) == 4
        assert all(answer.json()["success"] is False and answer.json()["error"] for answer in answers)
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in full)
        assert drawn(small.post("/edit", prompt="after", seed=1)) == expected("after", 1)


def test_waiting_requests_share_a_batch(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (tmp_path / "package").mkdir()
    settings = ServiceSettings(queue=1, batch=4, batch_wait=50.0)
    with running_service(tmp_path / "package", [faulty(notes)], settings) as batching:
        prompts = ["slow 0.2 first", *(f"page {number}" for number in range(11))]
        with ThreadPoolExecutor(12) as clients:
            answers = list(clients.map(lambda prompt: batching.post("/edit", prompt=prompt, seed=2), prompts))
        assert [drawn(answer) for answer in answers] == [expected(prompt, 2) for prompt in prompts]
        calls = [int(line) for line in noted(notes, "calls")]
        assert sum(calls) == 12 and len(calls) <= 8 and max(calls) > 1
        assert batching.client.get("/health").json()["identity"].endswith("batch<=4")
        # One that fails takes none of its batch with it.
        with ThreadPoolExecutor(4) as clients:
            prompts = ["crash in a batch", "a", "b", "c"]
            answers = list(clients.map(lambda prompt: batching.post("/edit", prompt=prompt, seed=3), prompts))
        assert answers[0].status_code == 500
        assert [drawn(answer) for answer in answers[1:]] == [expected(prompt, 3) for prompt in prompts[1:]]


def test_model_that_loads_slowly_is_reported(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    slow = ModelSettings(name="slow", generator="faulty", options={"notes": str(tmp_path), "load": 3})
    settings = ServiceSettings(load_timeout=0.3, timeout=0.4)
    with running_service(tmp_path / "package", [slow], settings, loaded=False) as service:
        late = service.post("/edit", prompt="a", seed=1)
        assert late.status_code in (503, 504) and "'slow'" in late.json()["error"]
        service.wait_for("slow")
        (worker,) = service.pool.workers()
        assert (worker.phase, worker.reason) == ("dead", "The model 'slow' was not loaded within 0.3 s.")
        assert service.post("/edit", prompt="a", seed=1).status_code == 503
        wait_until(lambda: service.phases("slow") == ["alive"])
        assert drawn(service.post("/edit", prompt="a", seed=1)) == expected("a", 1)


def test_a_model_that_fails_to_load_is_loaded_again(tmp_path: Path) -> None:
    failed: list[str] = []

    def fail_once(model: ModelSettings, device: str, name: str, gpu: int) -> Drawer:
        if not failed:
            failed.append(name)
            raise RuntimeError("CUDA out of memory")
        return Drawer.open(model, device, name, gpu)

    fake = ModelSettings(name="fake", generator="fake:32")
    with running_service(tmp_path, [fake], drawers=fail_once) as service:
        (worker,) = service.pool.workers()
        assert (worker.phase, worker.restarts) == ("alive", 1) and "out of memory" in worker.reason
        assert drawn(service.post("/edit", prompt="a", seed=1)) == expected("a", 1)


def test_a_model_that_hangs_is_dead_until_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_pool, "STUCK_SECONDS", 0.2)
    hanging = Event()

    class Hanging(FakeGenerator):
        def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
            if prompt == "hang":
                hanging.wait(60)
            return super().draw(prompt, source, seed)

    fake = ModelSettings(name="fake", generator="fake:32")
    open_drawer = lambda model, _, name, gpu: Drawer(Hanging(32), model, name, gpu)  # noqa: E731
    with running_service(tmp_path, [fake], ServiceSettings(timeout=0.3), open_drawer) as service:
        assert service.post("/edit", prompt="hang", seed=1).status_code == 504
        wait_until(lambda: service.phases("fake") == ["dead"])
        answer = service.post("/edit", prompt="a", seed=1)
        assert answer.status_code == 503 and "has not answered" in answer.json()["error"]
        assert service.client.get("/ready").status_code == 503
        hanging.set()
        wait_until(lambda: service.phases("fake") == ["alive"])
        assert drawn(service.post("/edit", prompt="a", seed=1)) == expected("a", 1)


@ONLY_RAY
def test_a_model_that_changed_on_disk_is_not_used(service: Service, notes: Path) -> None:
    """Its images would have the same keys as earlier ones. A replica that died loads the model again."""
    identity = service.client.get("/health").json()["identity"]
    (notes / "version").touch()
    assert service.post("/edit", prompt="die now", seed=1).status_code == 500
    answer = service.post("/edit", prompt="after the change", seed=1)
    assert answer.status_code == 503 and "restart the service" in answer.json()["error"]
    assert service.client.get("/health").json()["identity"] == identity
