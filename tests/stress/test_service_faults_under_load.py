"""The service under too much load and with failing parts."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason='a service needs: pip install "interleave-thinker[serve]"')
pytest.importorskip("prometheus_client", reason='a service needs: pip install "interleave-thinker[serve]"')

from support.ray_here import ON_RAY
from support.service_load import Load, Sample
from support.strained_service import service

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="workers and memory are read from /proc"),
]

Figures = dict[str, Any]
QUEUE = 20


def test_requests_beyond_capacity_are_rejected() -> None:
    """Send ten times the load of one worker with 0.25 s per image for a minute, without patience."""
    seconds = 60.0
    with service("card:96:0.25", queue=QUEUE, patience=0) as running:
        normal = running.load(clients=1, seconds=5, seed=10**6)["milliseconds"]["p95"]
        before = running.memory()
        loaded = running.load(clients=1500, seconds=seconds, rate=40)
        most = running.memory()
        time.sleep(5)
        after = running.load(clients=1, seconds=5, seed=2 * 10**6)["milliseconds"]["p95"]
    refused = loaded["answers"].get("503", 0)
    show(
        {
            "answers": loaded["answers"],
            "all_503_say_when": loaded["with_retry_after"] == refused,
            "accepted_p99_s": loaded["milliseconds"]["p99"] / 1000,
            "bound_p99_s": QUEUE / 4 + 1,
            "mb_more": most - before,
            "p95_before_ms": normal,
            "p95_after_ms": after,
        }
    )
    assert loaded["answers"].keys() == {"image", "503"}
    assert refused > loaded["answers"]["image"] > 0
    assert loaded["with_retry_after"] == refused
    assert most - before < 100


@ON_RAY
def test_killed_workers_lose_no_image() -> None:
    """Kill one of two workers every 5 s, and compare every image with undisturbed ones."""
    seconds = 60.0
    settings: Figures = {"clients": 8, "seconds": seconds, "rate": 5, "timeout": 60}
    with service("card:96:0.25", 2, keep=0) as running:
        undisturbed = _digests(Load(running.url, **settings).run())
        stop, back = threading.Event(), list[float]()

        def killer() -> None:
            while not stop.wait(5.0):
                os.kill(running.workers()[0], signal.SIGKILL)
                time.sleep(0.2)
                back.append(running.wait(2) + 0.2)

        thread = threading.Thread(target=killer)
        thread.start()
        measured = Load(running.url, **settings).run()
        stop.set()
        thread.join()
    show({"kills": len(back), "answers": measured.summary()["answers"], "worker_back_s": max(back)})
    assert len(back) > 2
    assert len(undisturbed) == 300
    assert _digests(measured) == undisturbed


def _digests(measured: Load) -> dict[int, str]:
    return {one.number: one.outcome.digest for one in measured.samples if one.outcome.digest}


def test_a_broken_model_does_not_affect_the_other() -> None:
    """Combine a model that does not load with one that does, and requests that run out of memory."""
    models = [
        {"name": "good", "generator": "card:96:0", "devices": ["cpu"]},
        {"name": "bad", "generator": "card:no", "devices": ["cpu"]},
    ]
    with service("", models=models) as running, httpx.Client(base_url=running.url, timeout=60) as client:

        def draw(**asked: Any) -> httpx.Response:
            return client.post("/edit", json={"seed": 1} | asked)

        answers = {
            "memory": draw(prompt="memory"),
            "after_memory": draw(prompt="a boat"),
            "bad_model": draw(prompt="a boat", model="bad"),
            "no_model": draw(prompt="a boat", model="none"),
        }
        found: Figures = {name: (one.status_code, one.json()["success"]) for name, one in answers.items()}
        show(found)
        assert found["after_memory"] == (200, True)
        for name in ("memory", "bad_model", "no_model"):
            assert not found[name][1]
        assert "The folder does not exist." in answers["bad_model"].json()["error"]


def test_sigterm_finishes_accepted_requests() -> None:
    """Send SIGTERM after the twentieth image: accepted requests are finished, the rest is rejected."""
    with service("card:96:0.25") as running:
        told: list[float] = []
        images: list[Sample] = []

        def end_after_twenty(sample: Sample) -> None:
            images.append(sample)
            if len(images) == 20:
                told.append(sample.begun + sample.seconds)
                running.end()

        measured = Load(running.url, seconds=8, timeout=30, on_sample=end_after_twenty).run()
        code = running.process.wait(30)
    before = Counter(one.outcome.kind for one in measured.samples if one.begun < told[0])
    after = Counter(one.outcome.kind for one in measured.samples if one.begun >= told[0])
    show({"asked_before": dict(before), "asked_after": dict(after), "exit_code": code})
    assert code == 0
    assert before.keys() == {"image"} and before["image"] > 20
    assert "image" not in after


def test_disconnected_clients_leave_no_running_request() -> None:
    """Check that the places of clients that hang up are free again, and nothing is generated for them."""
    with service("card:96:0.5", queue=100) as running:
        gone = 0
        with httpx.Client(base_url=running.url, timeout=0.2, trust_env=False) as client:
            for seed in range(40):
                try:
                    client.post("/edit", json={"prompt": "a", "seed": seed})
                except httpx.TimeoutException:
                    gone += 1
        time.sleep(1.0)
        status = running.status()
        drawn = sum(worker["drawn"] for worker in status["workers"])
        show({"gone": gone, "still_under_way": status["pending_tasks"], "drawn": drawn})
        assert gone == 40
        assert status["pending_tasks"] == 0
        assert drawn < 40


def show(figures: Figures) -> None:
    """Print the figures that research/experiments/notes/serve.md cites, for `pytest -s`."""
    print(json.dumps(figures))
