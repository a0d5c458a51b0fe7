"""Metrics of a running service, in the format of Prometheus.

Each app has its own registry, so that several apps in one process (tests, replicas) do not add up.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .pool import GeneratedImage, Pool

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters and histograms of one app."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter(
            "interleave_requests",
            "Requests by route, model and status.",
            ["route", "model", "status"],
            registry=own,
        )
        self.shared = Counter(
            "interleave_shared",
            "Images by source: drawn (generated), joined (shared with an equal request), kept (cached).",
            ["model", "how"],
            registry=own,
        )
        self.waited = Histogram(
            "interleave_waiting_seconds",
            "Seconds from admission to a worker.",
            ["model"],
            buckets=SECONDS,
            registry=own,
        )
        self.drawing = Histogram(
            "interleave_drawing_seconds",
            "Seconds to generate images, per call.",
            ["model"],
            buckets=SECONDS,
            registry=own,
        )
        self.encoding = Histogram(
            "interleave_encoding_seconds",
            "Seconds to encode images as files.",
            ["model"],
            buckets=SECONDS,
            registry=own,
        )
        self.batches = Histogram(
            "interleave_batch_size", "Images generated in one call.", ["model"], buckets=BATCHES, registry=own
        )
        self.read = Counter("interleave_read_bytes", "Bytes of request bodies.", registry=own)
        self.sent = Counter("interleave_image_bytes", "Bytes of images in answers.", registry=own)
        self._queue = Gauge("interleave_queue", "Requests waiting for a worker.", ["model"], registry=own)
        self._workers = Gauge("interleave_workers", "Workers by phase.", ["model", "phase"], registry=own)
        self._restarts = Gauge(
            "interleave_worker_restarts", "Restarts of a worker.", ["worker"], registry=own
        )
        self._kept = Gauge("interleave_kept_bytes", "Bytes of cached images.", registry=own)

    def note(self, model: str, drawn: GeneratedImage) -> None:
        """Record an image that was generated for this request."""
        self.waited.labels(model).observe(drawn.waited_seconds)
        self.drawing.labels(model).observe(drawn.draw_seconds)
        self.encoding.labels(model).observe(drawn.encode_seconds)
        self.batches.labels(model).observe(drawn.batch)

    def text(self, kept_bytes: int) -> bytes:
        """Return the page `/metrics`."""
        self._kept.set(kept_bytes)
        for info in self._pool.models():
            self._queue.labels(info.name).set(self._pool.queued(info.name))
            for phase in ("loading", "alive", "dead"):
                number = sum(one.model == info.name and one.phase == phase for one in self._pool.workers())
                self._workers.labels(info.name, phase).set(number)
        for worker in self._pool.workers():
            self._restarts.labels(worker.name).set(worker.restarts)
        return generate_latest(self.registry)
