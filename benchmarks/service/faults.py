"""What the service does under too much load and when something breaks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from typing import Any

import httpx
from load import Load, Sample
from running import service

Figures = dict[str, Any]
QUEUE = 20


def overload(seconds: float = 60.0) -> Figures:
    """Ten times what one worker of 0.25 s draws, without patience; then whether all is as before."""
    with service("card:96:0.25", queue=QUEUE, patience=0) as running:
        normal = running.load(clients=1, seconds=5, seed=10**6)["milliseconds"]["p95"]
        before = running.memory()
        loaded = running.load(clients=1500, seconds=seconds, rate=40)
        most = running.memory()
        time.sleep(5)
        after = running.load(clients=1, seconds=5, seed=2 * 10**6)["milliseconds"]["p95"]
    refused = loaded["answers"].get("503", 0)
    return {
        "answers": loaded["answers"],
        "all_503_say_when": loaded["with_retry_after"] == refused,
        "accepted_p99_s": loaded["milliseconds"]["p99"] / 1000,
        "bound_p99_s": QUEUE / 4 + 1,
        "mb_more": most - before,
        "p95_before_ms": normal,
        "p95_after_ms": after,
    }


def kills(seconds: float = 60.0) -> Figures:
    """SIGKILL of one of two workers every 5 s; every image compared with the undisturbed ones."""
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
    disturbed = _digests(measured)
    return {
        "kills": len(back),
        "answers": measured.summary()["answers"],
        "other_images": sum(disturbed.get(key) != value for key, value in undisturbed.items()),
        "worker_back_s": max(back),
    }


def _digests(measured: Load) -> dict[int, str]:
    return {one.number: one.outcome.digest for one in measured.samples if one.outcome.digest}


def broken_models() -> Figures:
    """A model that does not load beside one that does, and draws that find no memory left."""
    models = [
        {"name": "good", "generator": "card:96:0", "devices": ["cpu", "cpu"]},
        {"name": "bad", "generator": "card:no", "devices": ["cpu"]},
    ]
    with service("", 2, models=models) as running, httpx.Client(base_url=running.url, timeout=60) as client:

        def draw(**asked: Any) -> httpx.Response:
            return client.post("/edit", json={"seed": 1} | asked)

        answers = {
            "memory": draw(prompt="memory"),
            "after_memory": draw(prompt="a boat"),
            "bad_model": draw(prompt="a boat", model="bad"),
            "no_model": draw(prompt="a boat", model="none"),
        }
        found: Figures = {name: (one.status_code, one.json()["success"]) for name, one in answers.items()}
        found["said"] = answers["bad_model"].json()["error"][:200]
        return found


def sigterm() -> Figures:
    """SIGTERM after the twentieth image of 16 clients: what was taken on is finished, what comes is
    refused."""
    with service("card:96:0.25", 2) as running:
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
    return {"asked_before": dict(before), "asked_after": dict(after), "exit_code": code}


def hang_up() -> Figures:
    """Clients that leave: their places are free again, and nothing of theirs is drawn."""
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
        return {
            "gone": gone,
            "still_under_way": status["pending_tasks"],
            "drawn": sum(worker["drawn"] for worker in status["workers"]),
        }
