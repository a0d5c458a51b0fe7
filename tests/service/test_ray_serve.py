"""The service on Ray Serve with the real app: the same behavior and pixels as without Ray."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'serve' is not installed")

from support.free_port import free_port
from support.ray_here import ASKED, importable

from interleave_thinker import Picture, SettingsError, open_generator
from interleave_thinker.service import ray_deploy
from interleave_thinker.service.ray_deploy import Service, start_ray, stop_ray
from interleave_thinker.service.settings import ClusterSettings, ModelSettings, ServiceSettings

SMALL = ClusterSettings(replica_cpus=0.1)


def test_swapped_bounds_are_rejected() -> None:
    with pytest.raises(ValueError, match="less than"):
        ClusterSettings(min_replicas=3, max_replicas=2)


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    pytest.importorskip("ray.serve", reason="the extra 'ray' is not installed")
    if not os.environ.get(ASKED):
        pytest.skip(f"starts a Ray cluster, half a minute of two busy cores: set {ASKED}=1")
    with importable(tmp_path_factory.mktemp("package")):
        started = start_ray("local", print)
        try:
            yield
        finally:
            stop_ray(started)


@contextmanager
def deployed(models: Sequence[ModelSettings], cluster: ClusterSettings = SMALL, **more: Any) -> Iterator[Any]:
    """Return a client of the service."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = Service(ServiceSettings(port=port, **more), models, cluster)
    try:
        service.deploy()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            yield client
        service.end()
    finally:
        from ray import serve  # pyright: ignore[reportMissingImports]

        serve.shutdown()  # the next one listens at another port


def edited(client: httpx.Client, **asked: Any) -> Picture:
    answer = client.post("/edit", json={"prompt": "a boat", "seed": 5, "image": None} | asked)
    assert answer.status_code == 200, answer.text
    return Picture.from_base64(answer.json()["edited_image"])


def until_learned(client: httpx.Client, replicas: int) -> dict[str, Any]:
    """Return /health once all models reported their identity, and Serve its replicas."""
    until = time.monotonic() + 60
    while True:
        health = client.get("/health").json()
        if all(health["models"].values()) and health["workers"]["alive"] == replicas:
            return health
        assert time.monotonic() < until, health
        time.sleep(0.2)


def test_two_replicas_and_batches_generate_the_librarys_pixels(ray_cluster: None) -> None:
    models = [
        ModelSettings(name="painter", generator="fake:32", devices=("cpu", "cpu")),
        ModelSettings(name="other", generator="fake:48"),
    ]
    with deployed(models, batch=2) as client:
        health = until_learned(client, replicas=3)
        assert health["models"]["painter"] == open_generator("fake:32").identity
        for seed in range(4):
            assert edited(client, seed=seed) == open_generator("fake:32").draw("a boat", None, seed)
        assert edited(client, model="other").size == (48, 48)
        assert client.post("/edit", json={"prompt": "a", "model": "none"}).status_code == 404
        assert client.post("/edit", json={"prompt": 3}).status_code == 422
        assert client.get("/docs").status_code == 200


def test_a_model_that_does_not_load_gives_one_error(ray_cluster: None, tmp_path: Path) -> None:
    models = [ModelSettings(name="bad", generator=f"diffusers:{tmp_path / 'nothing'}")]
    with pytest.raises(SettingsError, match="cannot be deployed on the cluster"), deployed(models):
        pass


def test_a_late_serve_is_one_error(ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(**_: Any) -> None:
        raise TimeoutError("HTTP proxies not available after 60s.")

    monkeypatch.setattr("ray.serve.start", slow)
    models = [ModelSettings(name="painter", generator="fake:32")]
    with pytest.raises(SettingsError, match="not available after 60s"), deployed(models):
        pass


def test_the_port_of_a_running_serve_is_kept(ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_deploy, "PORT_SECONDS", 2.0)
    models = [ModelSettings(name="painter", generator="fake:32")]
    with deployed(models) as client:
        other = Service(ServiceSettings(port=free_port()), models, SMALL)
        with pytest.raises(SettingsError, match="does not listen at port"):
            other.deploy()
        assert client.get("/health").status_code == 200


def test_the_key_must_exist_where_the_app_runs(ray_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLEAVE_SERVICE_KEY", "sesame")  # of this process; Ray's have none
    models = [ModelSettings(name="painter", generator="fake:32")]
    with pytest.raises(SettingsError, match="INTERLEAVE_SERVICE_KEY is not set"), deployed(models):
        pass
