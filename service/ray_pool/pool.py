"""The pool of a cluster: requests go to Serve's replicas, and what Serve knows of them is shown.

Decisions. Serve chooses the replica and queues; what is counted here is only what this app has handed over.
How many replicas there are is asked of Serve's controller once a second, beside the requests, because the app
asks without waiting. A replica that is lost in the middle of a draw is Serve's to replace and ours to ask
again: once, since a request that kills two replicas would kill a third.
"""

from __future__ import annotations

import asyncio
import logging
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
LEAVING = ("STOPPING", "PENDING_MIGRATION")


class RayPool:
    """Draws with the replicas behind `handles`: by the model's name, or one of "" that any model is asked of
    (multiplexed). `app_name`: Serve's name of the application. `not_loaded` says of models why they are not
    known yet."""

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
        self.not_loaded: dict[str, str] = {}
        self._drawn: Counter[str] = Counter()
        self._watch: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to look after the replicas, which Serve has started."""
        self._watch = [asyncio.create_task(self._look_after()), asyncio.create_task(self._learn_of_models())]

    async def close(self) -> None:
        """End the looking; the replicas are Serve's to end."""
        for task in self._watch:
            task.cancel()
        await asyncio.gather(*self._watch, return_exceptions=True)

    async def draw(self, request: ImageRequest, deadline: float) -> GeneratedImage:
        """As `Pool.draw`."""
        if request.model not in self._models:
            raise UnknownModel(f"No model {request.model[:100]!r} is served.")
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
            return DrawTimeout("The image was not drawn in time.")
        except BackPressureError:
            return Busy("The queue of the cluster is full.", retry_after=BUSY_SECONDS)
        except DeploymentUnavailableError:
            return Busy("No replica of the model is there.", "`serve status` says why.", BUSY_SECONDS)
        except (RayActorError, RayServeException) as error:
            return WorkerLost(f"The replica was lost ({type(error).__name__}).")
        except RayTaskError as error:
            return WorkerLost(f"The replica failed ({type(error.cause or error).__name__}).")
        self._infos[request.model] = info
        return outcome

    def _handle(self, model: str) -> Any:
        own = self._handles.get(model)
        return own if own is not None else self._handles[""].options(multiplexed_model_id=model)

    def models(self) -> Sequence[ModelInfo]:
        """As `Pool.models`."""
        return list(self._infos.values())

    def workers(self) -> Sequence[WorkerState]:
        """As `Pool.workers`, from Serve's count of replicas; Serve names them only in its own status."""
        found: list[WorkerState] = []
        for name, replicas in self._replicas.items():
            shown = name or ",".join(self._models)
            late = "; ".join(text for model, text in self.not_loaded.items() if name in (model, ""))
            for number, (phase, reason) in enumerate(replicas):
                reason = reason or late
                found.append(WorkerState(f"{name or 'any'}-{number}", shown, "ray", phase, reason=reason))
        return found

    def queued(self, model: str) -> int:
        """As `Pool.queued`, of what this app has handed over."""
        return max(0, self._at_work[model] - self.capacity(model))

    def capacity(self, model: str) -> int:
        """As `Pool.capacity`."""
        replicas = self._replicas.get(model if model in self._handles else "", [])
        batch = self._settings.batch if model in self._handles else 1
        return batch * sum(phase == "alive" for phase, _ in replicas)

    async def _look_after(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with suppress(Exception):  # a boundary: the controller may be away for a moment, and comes again
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
            for phase, count in state.replica_states.items():
                if phase not in LEAVING:
                    replica = (PHASES.get(phase, "dead"), state.message[:300])
                    found.setdefault(name, []).extend(replica for _ in range(count))
        return found

    async def _learn_of_models(self) -> None:
        """Ask every model what it is, once a replica has loaded it: those with replicas of their own at the
        same time, those that share replicas one after another, for each would push out the one before."""
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
            LOG.warning("%s Asking again.", self.not_loaded[name])
        except Exception as error:  # noqa: BLE001 - a boundary: a model that does not load is shown as such
            self.not_loaded[name] = f"The model {name!r} cannot be asked ({type(error).__name__})."


async def _result(response: Any) -> Any:
    return await response


def deployment_name(model: str) -> str:
    """Serve's name of a model's deployment; of the one for any model, if the name is empty."""
    return f"model-{model}" if model else "any-model"
