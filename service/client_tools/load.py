"""Puts a load on a service and times every answer.

Decision: with a rate, requests are due by the clock and timed from then. A generator of load that waits for
an answer before it asks again asks a slow service less, and then calls it fast (coordinated omission); its
percentiles hide just the seconds in which everybody would have waited. Requests that find all clients busy
are begun late and their wait counts. Without a rate the clients do wait for each other, and the figure to
read is images a second. Nothing is tried again: what a client would have to try again is what is measured.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ...backend.errors import GeneratorError
from ...backend.remote.retrying import retry_after
from ...backend.remote.server import certificates
from .check import MAX_HEALTH_BYTES, Health
from .load_settings import LoadSettings, pixels
from .questions import Outcome, body_of, outcome_of, photograph_like

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 128 * 1024 * 1024
CONNECT_SECONDS = 10.0
TIMED_OUT, TOO_LARGE = "timed out", "answer too large"
ROUTE = "/edit"


@dataclass(frozen=True)
class Sample:
    """One request: when it was due and begun (seconds since the start), how long it took from when it was
    due, and what came. `retry_after` is what a refusal said, in seconds."""

    number: int
    due: float
    begun: float
    seconds: float
    outcome: Outcome
    retry_after: float | None = None


@dataclass
class Measured:
    """All requests of one load, the seconds from the first to the last answer, and how many were due but
    never begun because time had run out."""

    settings: LoadSettings
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0
    unbegun: int = 0


class Load:
    """Requests to the service at `url`, which is shown `key`; `on_sample` sees every answer as it comes."""

    def __init__(
        self,
        url: str,
        settings: LoadSettings,
        key: str | None = None,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        self._url = url.rstrip("/") + ROUTE
        self._settings = settings
        self._headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self._on_sample = on_sample
        self._measured = Measured(settings)
        size = settings.source and pixels(settings.source)
        self._source = photograph_like(size).base64_png() if size else None

    def run(self) -> Measured:
        """Put the load on; what was measured. Ctrl-C ends it. Raises GeneratorError if nothing listens, or
        the service says that it is loading."""
        return asyncio.run(self.put_on())

    async def put_on(self) -> Measured:
        """As `run`, for whoever has an event loop."""
        import httpx

        settings = self._settings
        limits = httpx.Limits(max_connections=settings.clients, max_keepalive_connections=settings.clients)
        times = httpx.Timeout(settings.timeout, connect=min(settings.timeout, CONNECT_SECONDS))
        async with httpx.AsyncClient(
            timeout=times,
            limits=limits,
            headers=self._headers,
            trust_env=False,
            follow_redirects=False,
            verify=certificates(),
        ) as client:
            await self._look(client)
            start = time.perf_counter()
            due = self._due()
            await asyncio.gather(*(self._ask_on(client, start, due) for _ in range(settings.clients)))
        self._measured.seconds = time.perf_counter() - start
        return self._measured

    async def _look(self, client: httpx.AsyncClient) -> None:
        import httpx

        service = self._url[: -len(ROUTE)]
        try:
            said = await asyncio.wait_for(_health(client, service), CONNECT_SECONDS)
        except (asyncio.TimeoutError, httpx.TransportError, httpx.StreamError) as error:
            raise GeneratorError(
                f"{service} does not answer ({type(error).__name__}).",
                "Is the service running and reachable?",
            ) from error
        # A loading service lets requests wait, and the wait would be measured as its drawing.
        with suppress(ValidationError):
            if Health.model_validate_json(said or b"").status == "loading":
                raise GeneratorError(
                    f"{service} is still loading its models.", "Ask again once its /health says healthy."
                )

    def _due(self) -> Iterator[tuple[int, float | None]]:
        """Number and due time of the next request; no time means at once. One source for all clients."""
        rate = self._settings.rate
        if rate is None:
            return ((number, None) for number in itertools.count())
        return ((number, number / rate) for number in range(round(self._settings.seconds * rate)))

    async def _ask_on(
        self, client: httpx.AsyncClient, start: float, due: Iterator[tuple[int, float | None]]
    ) -> None:
        settings = self._settings
        for number, moment in due:
            now = time.perf_counter() - start
            if moment is None and now >= settings.seconds:
                return
            if moment is not None and now > settings.seconds + settings.timeout:
                self._measured.unbegun += 1
                continue
            if moment is not None and moment > now:
                await asyncio.sleep(moment - now)
            begun = time.perf_counter() - start
            outcome, pause = await self._ask(client, number)
            since = begun if moment is None else moment
            took = time.perf_counter() - start - since
            sample = Sample(number, since, begun, took, outcome, pause)
            self._measured.samples.append(sample)
            if self._on_sample is not None:
                self._on_sample(sample)

    def _body(self, number: int) -> dict[str, Any]:
        settings = self._settings
        width, height = pixels(settings.size) if settings.size else (None, None)
        return body_of(
            settings.prompt,
            settings.seed + (0 if settings.same else number),
            self._source,
            width=width,
            height=height,
            num_inference_steps=settings.steps,
            model=settings.model,
        )

    async def _ask(self, client: httpx.AsyncClient, number: int) -> tuple[Outcome, float | None]:
        import httpx

        try:
            return await asyncio.wait_for(self._answer(client, number), self._settings.timeout)
        except (asyncio.TimeoutError, httpx.TimeoutException):
            return Outcome(TIMED_OUT), None
        except (httpx.TransportError, httpx.StreamError) as error:
            return Outcome(type(error).__name__), None

    async def _answer(self, client: httpx.AsyncClient, number: int) -> tuple[Outcome, float | None]:
        async with client.stream("POST", self._url, json=self._body(number)) as response:
            body = await _read(response, MAX_ANSWER_BYTES)
            if body is None:
                return Outcome(TOO_LARGE), None
            return outcome_of(response.status_code, body), retry_after(response.headers.get("retry-after"))


async def _health(client: httpx.AsyncClient, service: str) -> bytes | None:
    async with client.stream("GET", service + "/health") as response:
        return await _read(response, MAX_HEALTH_BYTES)


async def _read(response: httpx.Response, most: int) -> bytes | None:
    """The answer's body, or None once it has more than `most` bytes."""
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > most:
            return None
    return bytes(body)
