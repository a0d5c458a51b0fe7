"""The pool on a cluster: hands requests to Serve's replicas, and shows the state that Serve reports.

Serve queues requests and chooses the replica. Only requests that this app has handed over are counted here.
The number of replicas is requested from Serve's controller once a second in the background, because the app
does not wait for it. Serve replaces a replica that is lost during a request, and this pool retries the
request: only once, since a request that kills two replicas would kill a third. A replica that loaded other
files than the first one is not used: two different images for one key would be worse than no image.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...backend.errors import InterleaveError
from ..pool import (
    Busy,
    DrawTimeout,
    GeneratedImage,
    ImageRequest,
    ModelInfo,
    UnknownModel,
    WorkerLost,
    WorkerPhase,
    WorkerState,
)
from ..settings import ModelSettings, ServiceSettings

LOG = logging.getLogger("interleave_thinker.service")
LOOKED_EVERY = 1.0
MAX_ATTEMPTS = 2
BUSY_SECONDS = 2.0
PHASES: Mapping[str, WorkerPhase] = {"RUNNING": "alive", "STARTING": "loading", "UPDATING": "loading"}
GIVEN_UP = "DEPLOY_FAILED"
"""Status of a deployment whose replicas failed to start too often."""
LEAVING = ("STOPPING", "PENDING_MIGRATION")


class RayPool:
    """Generates with the replicas behind `handles`.

    Args:
        models: The models.
        handles: Handles by model name, or a single one named "" for all models (multiplexed).
        settings: Settings of the service.
        app_name: Serve's name of the application.

    Attributes:
        not_loaded: Why models are not loaded yet, by name.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        handles: Mapping[str, Any],
        settings: ServiceSettings,
        app_name: str,
    ) -> None:
        self._models = {model.name: model for model in models}
        self._handles, self._settings, self._app_name = handles, settings, app_name
        self._infos = {
            model.name: ModelInfo(model.name, model.generator.partition(":")[0], port=model.port)
            for model in models
        }
        self._at_work: Counter[str] = Counter()
        self._replicas: dict[str, list[tuple[WorkerPhase, str]]] = {}
        self._failed: dict[str, str] = {}
        self.not_loaded: dict[str, str] = {}
        self._drawn: Counter[str] = Counter()
        self._watch: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start to watch the replicas, which Serve has started."""
        self._watch = [asyncio.create_task(self._look_after()), asyncio.create_task(self._learn_of_models())]

    async def close(self) -> None:
        """Stop to watch the replicas. Serve ends them."""
        for task in self._watch:
            task.cancel()
        await asyncio.gather(*self._watch, return_exceptions=True)

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """Implements `Pool.draw`."""
        if request.model not in self._models:
            raise UnknownModel(f"The model {request.model[:100]!r} is not served.")
        if failed := self._failed.get(request.model, self._failed.get("", "")):
            raise Busy(f"No worker of {request.model!r} is alive: {failed}")
        began = time.monotonic()
        self._at_work[request.model] += 1
        try:
            for attempt in range(MAX_ATTEMPTS):
                outcome = await self._asked(request, deadline)
                if isinstance(outcome, GeneratedImage):
                    waited = time.monotonic() - began - outcome.draw_seconds - outcome.encode_seconds
                    self._drawn[request.model] += 1
                    return replace(outcome, waited_seconds=max(0.0, waited))
                if not isinstance(outcome, WorkerLost) or attempt + 1 == MAX_ATTEMPTS:
                    raise outcome
            raise AssertionError("unreachable")
        finally:
            self._at_work[request.model] -= 1

    async def _asked(self, request: ImageRequest, deadline: float) -> GeneratedImage | InterleaveError:
        from ray.exceptions import RayActorError, RayTaskError  # pyright: ignore[reportMissingImports]
        from ray.serve.exceptions import (  # pyright: ignore[reportMissingImports]
            BackPressureError,
            DeploymentUnavailableError,
            RayServeException,
        )

        response = self._handle(request.model).draw.remote(request)
        try:
            outcome, info = await asyncio.wait_for(_result(response), max(0.0, deadline - time.monotonic()))
        except (asyncio.TimeoutError, asyncio.CancelledError) as ended:
            response.cancel()
            if isinstance(ended, asyncio.CancelledError):
                raise
            loaded = bool(self._infos[request.model].identity)
            return DrawTimeout.of(request.model, loaded, self._settings.timeout)
        except BackPressureError:
            return Busy("The queue of the cluster is full.", retry_after=BUSY_SECONDS)
        except DeploymentUnavailableError:
            return Busy("No replica of the model is available.", "See `serve status`.", BUSY_SECONDS)
        except (RayActorError, RayServeException) as error:
            return WorkerLost(f"The replica was lost ({type(error).__name__}).")
        except RayTaskError as error:
            return WorkerLost(f"The replica failed ({type(error.cause or error).__name__}).")
        known = self._infos[request.model].identity
        if known and known != info.identity:
            return Busy("The model's files have changed: restart the service to use them.")
        self._infos[request.model] = info
        return outcome

    def _handle(self, model: str) -> Any:
        own = self._handles.get(model)
        return own if own is not None else self._handles[""].options(multiplexed_model_id=model)

    def models(self) -> Sequence[ModelInfo]:
        """Implements `Pool.models`."""
        return list(self._infos.values())

    def workers(self) -> Sequence[WorkerState]:
        """Implements `Pool.workers` with Serve's count of replicas.

        Serve shows their names only in its own status.
        """
        found: list[WorkerState] = []
        for name, replicas in self._replicas.items():
            shown = name or ",".join(self._models)
            late = "; ".join(text for model, text in self.not_loaded.items() if name in (model, ""))
            for number, (phase, reason) in enumerate(replicas):
                reason = reason or late
                found.append(WorkerState(f"{name or 'any'}-{number}", shown, "ray", phase, reason=reason))
        return found

    def hopeless(self) -> str:
        """Return why no model can ever be loaded, or an empty text."""
        if self._failed.keys() != self._handles.keys():
            return ""
        return "; ".join(dict.fromkeys(self._failed.values()))

    def queued(self, model: str) -> int:
        """Implements `Pool.queued` for requests that this app has handed over."""
        return max(0, self._at_work[model] - self.capacity(model))

    def capacity(self, model: str) -> int:
        """Implements `Pool.capacity`."""
        replicas = self._replicas.get(model if model in self._handles else "", [])
        batch = self._settings.batch if model in self._handles else 1
        return batch * sum(phase == "alive" for phase, _ in replicas)

    async def _look_after(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(Exception):  # a boundary: the controller may be unavailable for a moment
                self._replicas = await loop.run_in_executor(None, self._replicas_now)
            await asyncio.sleep(LOOKED_EVERY)

    def _replicas_now(self) -> dict[str, list[tuple[WorkerPhase, str]]]:
        from ray import serve  # pyright: ignore[reportMissingImports]

        application = serve.status().applications.get(self._app_name)
        deployments = application.deployments if application else {}
        found: dict[str, list[tuple[WorkerPhase, str]]] = {}
        for name in self._handles:
            state = deployments.get(deployment_name(name))
            if state is None:
                continue
            reason = reason_of(state.message)
            for phase, count in state.replica_states.items():
                if phase not in LEAVING:
                    replica = (PHASES.get(phase, "dead"), reason)
                    found.setdefault(name, []).extend(replica for _ in range(count))
            if state.status == GIVEN_UP and not found.get(name):
                found[name] = [("dead", reason)]
                self._failed[name] = reason
        return found

    async def _learn_of_models(self) -> None:
        """Get the ModelInfo of every model, once a replica has loaded it.

        Models with their own replicas are queried concurrently. Models that share replicas are queried one
        after another, since each would evict the one before.
        """
        own = [[name] for name in self._models if name in self._handles]
        shared = [name for name in self._models if name not in self._handles]
        await asyncio.gather(*(self._learn_of(names) for names in (*own, shared)))

    async def _learn_of(self, names: list[str]) -> None:
        while waiting := [name for name in names if not self._infos[name].identity]:
            for name in waiting:
                await self._learn_of_one(name)
            await asyncio.sleep(LOOKED_EVERY)

    async def _learn_of_one(self, name: str) -> None:
        longest = self._settings.load_timeout
        try:
            response = self._handle(name).info.remote()
            try:
                self._infos[name] = await asyncio.wait_for(_result(response), longest)
            except (asyncio.TimeoutError, asyncio.CancelledError):
                response.cancel()
                raise
            self.not_loaded.pop(name, None)
        except asyncio.TimeoutError:
            self.not_loaded[name] = f"The model {name!r} was not loaded within {longest:g} s."
            LOG.warning("%s Retrying.", self.not_loaded[name])
        except Exception as error:  # noqa: BLE001 - a boundary: a model that does not load is shown as such
            self.not_loaded[name] = f"The model {name!r} cannot be queried ({type(error).__name__})."


def reason_of(message: str) -> str:
    """Return the error in what Serve reports about a deployment, which may contain a traceback."""
    errors = re.findall(r"^[\w.]*(?:Error|Exception): (.+)", message, re.MULTILINE)
    return " ".join((errors[-1] if errors else message).split())[-600:]


async def _result(response: Any) -> Any:
    return await response


def deployment_name(model: str) -> str:
    """Return Serve's name of a model's deployment, or of the shared one for an empty name."""
    return f"model-{model}" if model else "any-model"
