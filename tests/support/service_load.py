"""Open- and closed-loop load for the checks, with the digest of every image.

General load tools count answers. These checks compare images, and end a service after an exact number
of answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import ValidationError

from interleave_thinker.backend.core.types.run_settings import sides_of
from interleave_thinker.service.check import ServiceReply, body_of, photograph_like

PROMPT = "a red boat on a calm sea"
IMAGE = "image"
"""An answer with an image. Other outcomes are named by their HTTP status or connection error."""
NO_IMAGE = "200 without an image"
UNREADABLE = "200 unreadable"


@dataclass(frozen=True)
class RequestOutcome:
    """The outcome of a request.

    Attributes:
        kind: IMAGE, or what happened instead.
        digest: Digest of the encoded image.
        error: Error message of the service.
    """

    kind: str
    digest: str = ""
    error: str = ""


def outcome_of(status: int, body: bytes) -> RequestOutcome:
    """Return the outcome of a complete answer."""
    try:
        drawn = ServiceReply.model_validate_json(body)
    except ValidationError:
        return RequestOutcome(UNREADABLE if status == 200 else str(status))
    if status != 200:
        return RequestOutcome(str(status), error=drawn.error or "")
    if not drawn.success or not drawn.picture:
        return RequestOutcome(NO_IMAGE, error=drawn.error or "")
    content = hashlib.blake2b(drawn.picture.encode("utf-8", "replace"), digest_size=16)
    return RequestOutcome(IMAGE, content.hexdigest())


@dataclass(frozen=True)
class Sample:
    """One request. Times are seconds since the start; `seconds` counts from the time it was due."""

    number: int
    begun: float
    seconds: float
    outcome: RequestOutcome
    says_when: bool = False


@dataclass
class Load:
    """Requests to `url`. Without `rate` each client sends its next request after its answer."""

    url: str
    clients: int = 16
    seconds: float = 60.0
    rate: float | None = None
    timeout: float = 120.0
    source: str | None = None
    seed: int = 0
    on_sample: Callable[[Sample], None] | None = None
    samples: list[Sample] = field(default_factory=list)
    took: float = 0.0

    def run(self) -> Load:
        """Send all requests and return this load."""
        asyncio.run(self._run())
        return self

    def summary(self) -> dict[str, Any]:
        """Count the answers; percentiles are of answers with an image, in ms."""
        images = [1000 * one.seconds for one in self.samples if one.outcome.kind == IMAGE]
        return {
            "requests": len(self.samples),
            "images_a_second": round(len(images) / self.took, 3),
            "answers": dict(Counter(one.outcome.kind for one in self.samples).most_common()),
            "with_retry_after": sum(one.says_when for one in self.samples),
            "milliseconds": {f"p{share}": percentile(images, share) for share in (50, 95, 99)},
        }

    async def _run(self) -> None:
        source = photograph_like(sides_of(self.source)).base64_png() if self.source else None
        limits = httpx.Limits(max_connections=self.clients, max_keepalive_connections=self.clients)
        async with httpx.AsyncClient(timeout=self.timeout, limits=limits, trust_env=False) as client:
            start, due = time.perf_counter(), self._due()
            await asyncio.gather(*(self._ask_on(client, start, due, source) for _ in range(self.clients)))
            self.took = time.perf_counter() - start

    def _due(self) -> Iterator[tuple[int, float | None]]:
        if self.rate is None:
            return ((number, None) for number in itertools.count())
        return ((number, number / self.rate) for number in range(round(self.seconds * self.rate)))

    async def _ask_on(
        self,
        client: httpx.AsyncClient,
        start: float,
        due: Iterator[tuple[int, float | None]],
        source: str | None,
    ) -> None:
        for number, moment in due:
            now = time.perf_counter() - start
            if moment is None and now >= self.seconds:
                return
            await asyncio.sleep(0 if moment is None else max(0.0, moment - now))
            begun, says_when = time.perf_counter() - start, False
            try:
                body = body_of(PROMPT, self.seed + number, source)
                answer = await asyncio.wait_for(client.post(f"{self.url}/edit", json=body), self.timeout)
                outcome, says_when = (
                    outcome_of(answer.status_code, answer.content),
                    "retry-after" in answer.headers,
                )
            except (asyncio.TimeoutError, httpx.TransportError, httpx.StreamError) as error:
                outcome = RequestOutcome(type(error).__name__)
            since = begun if moment is None else moment
            sample = Sample(number, begun, time.perf_counter() - start - since, outcome, says_when)
            self.samples.append(sample)
            if self.on_sample is not None:
                self.on_sample(sample)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest of `values` that at least `share` percent of them do not exceed (nearest rank)."""
    if not values:
        return None
    return round(sorted(values)[max(0, math.ceil(len(values) * share / 100) - 1)], 6)
