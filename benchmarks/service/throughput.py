"""Cost of a request, images per second, and distribution over workers."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from support.service_load import percentile
from support.strained_service import Running, service

from interleave_thinker.backend.generators import open_generator

Figures = dict[str, Any]


def overhead() -> Figures:
    """Measure one client with one request at a time. `model_ms` is the part of generating and encoding."""
    found: Figures = {}
    for name, generator, source, number in (
        ("96", "fake:96", "96x96", 300),
        ("1024", "card:1024:0", "1024x1024", 40),
    ):
        with service(generator) as running:
            times, model = one_by_one(running, source, number)
        found |= {
            f"p50_{name}_ms": percentile(times, 50),
            f"p95_{name}_ms": percentile(times, 95),
            f"model_{name}_p50_ms": percentile(model, 50),
        }
    return found


def one_by_one(running: Running, source: str, number: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each edit, and of these the model's part."""
    from interleave_thinker.service.client_tools.requests import photograph_like, pixels

    image = photograph_like(pixels(source)).base64_png()
    times, model = [], []
    with httpx.Client(base_url=running.url, trust_env=False, timeout=60) as client:
        for seed in range(number + 5):
            content = httpx.Request("POST", running.url, json={"image": image, "prompt": "a", "seed": seed})
            data = content.read()
            began = time.perf_counter()
            answer = client.post("/edit", content=data, headers={"Content-Type": "application/json"})
            took = 1000 * (time.perf_counter() - began)
            if seed >= 5:
                times.append(took)
                model.append(1000 * answer.json()["processing_time"])
    return times, model


def tinyworld() -> Figures:
    """Measure 16 clients with two workers, then with one worker and batches of 1 and 16."""
    found: Figures = {}
    for name, workers, batch in (("two_workers", 2, 1), ("batch_1", 1, 1), ("batch_16", 1, 16)):
        with service("tinyworld", workers, batch=batch) as running:
            running.load(clients=16, seconds=2)
            loaded = running.load(clients=16, seconds=8, seed=10_000)
            found[f"{name}_images_s"] = loaded["images_a_second"]
            found[f"{name}_answers"] = loaded["answers"]
    found["batch_gain"] = round(found["batch_16_images_s"] / found["batch_1_images_s"], 3)
    return found


def balance() -> Figures:
    """Measure 16 clients with 1, 2 and 4 workers of 0.25 s, and two services against one with two workers."""
    found: Figures = {}
    for workers in (1, 2, 4):
        with service("card:96:0.25", workers) as running:
            found[f"workers_{workers}_images_s"] = running.load(clients=16, seconds=8)["images_a_second"]
    with service("card:96:0.25") as first, service("card:96:0.25") as second:
        two = _client_rate(f"{first.url},{second.url}")
    with service("card:96:0.25", 2) as both:
        one = _client_rate(both.url)
    return found | {"two_services_images_s": two, "one_of_two_images_s": one, "share": round(two / one, 3)}


def _client_rate(urls: str) -> float:
    """Return the images per second of a client of several services."""
    generator: Any = open_generator(f"http:{urls}")
    number = 48
    began = time.perf_counter()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda seed: generator.draw("a boat", None, seed), range(number)))
    return round(number / (time.perf_counter() - began), 3)


def memory() -> Figures:
    """Measure the memory of the HTTP process over many requests without a cache: it should stay flat."""
    with service("fake:96", keep=0) as running:
        running.load(clients=16, seconds=5)
        before = running.memory()
        loaded = running.load(clients=16, seconds=60, seed=100_000, source="96x96")
        return {"requests": loaded["requests"], "mb_before": before, "mb_after": running.memory()}
