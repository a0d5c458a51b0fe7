"""Deploys the service on Ray: its deployments, their numbers, and their end.

On one machine only the models are deployed, and the app runs in the process of the command as it does
without Ray. On a cluster the app is a deployment like the models, so Serve's proxies on every node handle its
HTTP. The app's own admission comes first and Serve's limits are just above it, so that rejections have the
protocol's format. The API key stays in the environment of the processes that need it, and the app does not
start without it. A cluster that already existed is left unchanged except for this service.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from ..backend.core.errors import SettingsError
from ..backend.core.remote.addresses import ADDRESS_HINT, THIS_MACHINE, check_ray_address
from .pool import Drawer, OpenDrawer
from .ray_pool import RayPool, deployment_name, model_replica, reason_of
from .settings import HERE, ClusterSettings, ModelSettings, ServiceSettings

APP_NAME = "interleave-thinker"
HOW_TO_GET = (
    'Install it, in the folder of this package: pip install ".[ray]". Or start one service per device and '
    "put them behind nginx (docs/examples/nginx.conf)"
)
STORE_BYTES = 256 * 1024 * 1024
"""Object store of a cluster started here. It holds mostly images."""
ROOM_ABOVE = 64
"""Requests that Serve accepts beyond the app's own queue, so that the app rejects first."""
BUSY_SECONDS = 5.0
UPSCALE_SECONDS, DOWNSCALE_SECONDS = 5.0, 60.0
"""Seconds of higher and of lower load before the number of replicas follows."""
PORT_SECONDS = 20.0
"""Seconds until the proxies of a deployed service listen."""


@dataclass(frozen=True)
class Service:
    """A service to deploy. `models` is as in a service file. `open_drawer` loads them in their replicas."""

    settings: ServiceSettings
    models: Sequence[ModelSettings]
    cluster: ClusterSettings
    open_drawer: OpenDrawer = Drawer.open

    def deploy_models(self) -> RayPool:
        """Deploy the models alone, for an app in this process. Returns before they are loaded."""
        from ray import serve  # pyright: ignore[reportMissingImports]
        from ray.serve import RunTarget  # pyright: ignore[reportMissingImports]

        serve.start(proxy_location="Disabled")
        nodes = self._model_nodes()
        together: Any = serve.deployment(_models_class(), name="models", ray_actor_options={"num_cpus": 0})
        target = RunTarget(together.bind(nodes), name=APP_NAME, route_prefix=None)
        serve.run_many([target], wait_for_applications_running=False)
        handles = {name: serve.get_deployment_handle(deployment_name(name), APP_NAME) for name in nodes}
        return RayPool(self.models, handles, self.settings, APP_NAME)

    def deploy(self) -> None:
        """Deploy the service. Returns when every model has a replica that has loaded it. Ray must be running.

        Raises:
            SettingsError: A model does not load, Ray Serve does not start in time, or the cluster does not
                listen at the port.
        """
        from ray import serve  # pyright: ignore[reportMissingImports]
        from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

        settings = self.settings
        try:
            serve.start(
                proxy_location="HeadOnly" if settings.host in THIS_MACHINE else "EveryNode",
                http_options={
                    "host": settings.host,
                    "port": settings.port,
                    "ssl_certfile": settings.certificate,
                    "ssl_keyfile": settings.certificate_key,
                    "request_timeout_s": settings.patience + settings.timeout + settings.body_seconds,
                },
            )
            serve.run(self._application(), name=APP_NAME, route_prefix="/", blocking=False)
            _check_port(settings)
        except (RuntimeError, TimeoutError, RayError) as error:
            raise SettingsError(
                f"The service cannot be deployed on the cluster: {_reason(serve, error)}.",
                "See `serve status` and Ray's logs.",
            ) from error

    def end(self) -> None:
        """Remove the service from the cluster. Current requests may finish within `grace`."""
        from ray import serve  # pyright: ignore[reportMissingImports]

        serve.delete(APP_NAME)

    def _application(self) -> Any:
        from ray import serve  # pyright: ignore[reportMissingImports]
        from ray.serve.config import BackpressureConfig  # pyright: ignore[reportMissingImports]

        most = ROOM_ABOVE + self.settings.queue * max(1, len(self.models))
        ingress: Any = serve.deployment(
            serve.ingress()(_app_class()),
            name="app",
            num_replicas=self.cluster.app_replicas,
            ray_actor_options={"num_cpus": 0},
            max_ongoing_requests=4 * most,
            max_queued_requests=4 * most,
            backpressure_config=BackpressureConfig(status_code=503, retry_after_s=BUSY_SECONDS),
            graceful_shutdown_timeout_s=self.settings.grace,
        )
        keyed = bool(os.environ.get(self.settings.key_env))
        return ingress.bind(self._model_nodes(), list(self.models), self.settings, keyed)

    def _model_nodes(self) -> dict[str, Any]:
        from ray import serve  # pyright: ignore[reportMissingImports]

        kind = model_replica(self.settings.batch, self.settings.batch_wait / 1000)
        nodes: dict[str, Any] = {}
        for model in self.models:
            one: Any = serve.deployment(kind, name=deployment_name(model.name), **self._options(model))
            # A replica sees no other GPU than its own.
            device = "cuda" if self._gpus(model) else model.devices[0]
            nodes[model.name] = one.bind(self.open_drawer, model, device)
        return nodes

    def _options(self, model: ModelSettings) -> dict[str, Any]:
        from ray.serve.config import AutoscalingConfig  # pyright: ignore[reportMissingImports]

        cluster, batch = self.cluster, self.settings.batch
        options: dict[str, Any] = {
            "ray_actor_options": {"num_cpus": cluster.replica_cpus, "num_gpus": self._gpus(model)},
            # One batch is processed while the next one is on its way.
            "max_ongoing_requests": 2 * batch,
            "max_queued_requests": self.settings.queue + ROOM_ABOVE,
            "graceful_shutdown_timeout_s": self.settings.grace,
        }
        if cluster.max_replicas is None:
            return options | {"num_replicas": max(len(model.devices), cluster.min_replicas)}
        scaling = AutoscalingConfig(
            min_replicas=cluster.min_replicas,
            max_replicas=cluster.max_replicas,
            target_ongoing_requests=2.0 * batch,
            upscale_delay_s=UPSCALE_SECONDS,
            downscale_delay_s=DOWNSCALE_SECONDS,
            metrics_interval_s=1.0,
            look_back_period_s=5.0,
        )
        return options | {"autoscaling_config": scaling}

    def _gpus(self, model: ModelSettings) -> float:
        if self.cluster.replica_gpus is not None:
            return self.cluster.replica_gpus
        return float(any(one.startswith("cuda") for one in model.devices))


def serve_on_ray(address: str, service: Service, log: Callable[[str], None]) -> None:
    """Serve on the cluster at an address until SIGTERM or Ctrl-C. `log` is called with lines about it.

    Raises:
        SettingsError: Ray or the service cannot be started with these settings.
    """
    started_here = start_ray(address, log)
    # Set after Ray starts, whose own handlers end the process at once.
    with _end_signal() as ending:
        try:
            service.deploy()
            settings = service.settings
            scheme = "https" if settings.certificate else "http"
            log(f"Listening at {scheme}://{settings.host}:{settings.port}")
            while not ending.wait(1.0):
                pass
            log("Stopping")
            service.end()
        finally:
            stop_ray(started_here)


@contextmanager
def _end_signal() -> Iterator[threading.Event]:
    """Yield an event that is set by SIGTERM and Ctrl-C."""
    ending = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ending.set()

    before = {one: signal.signal(one, end) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield ending
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def models_here(service: Service, log: Callable[[str], None]) -> Iterator[RayPool]:
    """Run the models on a Ray that is started on this machine, with their devices and no others.

    Raises:
        SettingsError: Ray is not installed, or a device does not exist.
    """
    used = Counter(one for model in service.models for one in model.devices if one.startswith("cuda:"))
    cluster = service.cluster
    if used:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        numbers = [int(device.partition(":")[2]) for device in used]
        if visible is not None:
            listed = dict(enumerate(visible.split(",")))
            numbers = [listed.get(number, "none") for number in numbers]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, numbers))
        if cluster.replica_gpus is None:
            # Models on the same GPU share it.
            cluster = cluster.model_copy(update={"replica_gpus": 1 / max(used.values())})
    replicas = sum(max(len(model.devices), cluster.max_replicas or 0) for model in service.models)
    cpus = max(os.cpu_count() or 1, math.ceil(replicas * cluster.replica_cpus))
    started_here = start_ray(HERE, log, cpus)
    try:
        import ray  # pyright: ignore[reportMissingImports]

        if (found := ray.cluster_resources().get("GPU", 0)) < len(used):
            raise SettingsError(
                f"Ray finds {found:g} of the {len(used)} GPUs {', '.join(used)}.", "Correct the devices."
            )
        yield replace(service, cluster=cluster).deploy_models()
    finally:
        stop_ray(started_here)


def start_ray(address: str, log: Callable[[str], None], cpus: int | None = None) -> bool:
    """Start Ray here, or join the cluster at `address`.

    Args:
        address: Address of the cluster, or `HERE`.
        log: Called with a line about the cluster.
        cpus: Number of replicas that may share the CPUs of a Ray that is started here, times their CPUs.

    Returns:
        Whether Ray was started here.

    Raises:
        SettingsError: Ray is not installed, or the address cannot be used.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Serve kills a proxy that is not ready in 5 s, which is too short on a busy machine.
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "30")
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.serve  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SettingsError("Several devices need Ray Serve, which is not installed.", HOW_TO_GET) from error
    if ray.is_initialized():
        return False
    if address != HERE:
        check_ray_address(address)
    try:
        if address == HERE:
            ray.init(
                address="local",
                num_cpus=cpus,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # a boundary: Ray raises bare exceptions if a node does not start
        raise SettingsError(
            f"Ray cannot be used at {address!r} ({type(error).__name__}: {error}).",
            ADDRESS_HINT,
        ) from error
    log(f"Ray {ray.__version__} {'started here' if address == HERE else f'at {address}'}")
    return address == HERE


def stop_ray(started_here: bool) -> None:
    """Leave the cluster. A cluster that was started here ends."""
    import ray  # pyright: ignore[reportMissingImports]
    from ray import serve  # pyright: ignore[reportMissingImports]

    if started_here:
        serve.shutdown()
    ray.shutdown()


def _models_class() -> type:
    class Models:
        """The root of Serve's application, which holds the models together and gets no requests."""

        def __init__(self, handles: dict[str, Any]) -> None:
            self._handles = handles

    return Models


def _app_class() -> type:
    class App:
        """Builds the app where it runs. Its parts, and the API key, are not sent through the cluster."""

        def __init__(
            self,
            handles: dict[str, Any],
            models: list[ModelSettings],
            settings: ServiceSettings,
            keyed: bool,
        ) -> None:
            if keyed and not os.environ.get(settings.key_env):
                raise SettingsError(
                    f"The service has an API key, but {settings.key_env} is not set on the node that runs "
                    "its app.",
                    "Set the variable in the environment of all Ray nodes.",
                )
            self._pool, self._settings = RayPool(models, handles, settings, APP_NAME), settings

        def __serve_build_asgi_app__(self) -> Any:
            from .web.app import create_app

            return create_app(self._pool, self._settings)

    return App


def _check_port(settings: ServiceSettings) -> None:
    """Check that the service can be reached; a Serve that ran before keeps its own port."""
    import ray  # pyright: ignore[reportMissingImports]

    # Nodes without a replica have no proxy, but the head has one.
    head = ray.get_runtime_context().gcs_address.rpartition(":")[0].strip("[]")
    own = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    until = time.monotonic() + PORT_SECONDS
    while True:
        for place in dict.fromkeys((own, head)):
            with suppress(OSError):
                socket.create_connection((place, settings.port), 2.0).close()
                return
        if time.monotonic() > until:
            raise SettingsError(
                f"The cluster does not listen at port {settings.port}. A Ray Serve that was started before "
                "keeps its own address and port.",
                "Use that port, or end Ray Serve: serve shutdown.",
            )
        time.sleep(0.5)


def _reason(serve: Any, error: Exception) -> str:
    """Return what Serve reports about the failed deployment, or else the error."""
    # If Serve itself does not start in time, an application is that of an earlier command.
    late = isinstance(error, TimeoutError)
    application = None if late else serve.status().applications.get(APP_NAME)
    reported = [one.message for one in application.deployments.values() if one.message] if application else []
    return reason_of(reported[0] if reported else str(error))
