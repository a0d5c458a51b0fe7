"""`interleave-thinker serve`: serves image models over HTTP.

A wrong option (key, port, model name, missing library) ends the command at once with one line. If one of
several models fails, `/status` reports it and the others are served. If no model can be loaded, the command
ends with the reason.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ...backend.core.errors import SettingsError
from ...backend.core.machine import libraries
from ...backend.core.remote.api_keys import check_variable, read_key
from ...backend.core.remote.own_servers import is_this_machine
from ...backend.core.types.values import option
from ...service.settings import (
    HERE,
    PUBLISHED_PORTS,
    ClusterSettings,
    ModelSettings,
    ServiceSettings,
    checked,
    devices_in,
    models_in,
)
from ..models import DrawingOptions
from ..settings import with_settings

if TYPE_CHECKING:
    from ...service.local_pool import LocalPool
    from ...service.ray_pool import RayPool

MAX_REPEATS, SECONDS = 10, 60.0
MAX_KINDS = 1000
LIBRARIES = ("fastapi", "uvicorn", "python_multipart")

app = typer.Typer(add_completion=False)


class ServedModel(DrawingOptions):
    """Served model. A file (--config) can describe several."""

    generator: str | None = option("Image model to serve: any name that `run --generator` accepts.")
    devices: str = option(
        "Devices: GPU numbers such as 0,1, or cpu or mps. Several start a replica of the model "
        "for each, on Ray.",
        "auto",
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = option(
        "Dtype of the model. Default: bfloat16 on a GPU (float16 if it has no bfloat16), float32 on the CPU."
    )
    download: bool = option("Download the model if it is not in the local cache.", False)


@app.callback(invoke_without_command=True)
@with_settings
def serve(
    context: typer.Context,
    model: ServedModel,
    service: ServiceSettings,
    cluster: ClusterSettings,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Serve with Ray Serve: on the cluster at this address, on this machine's cluster (auto) or "
            "on a new local one (local). Several devices need no --ray.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="YAML file with `models:` and service settings. Options on the command line override it."
        ),
    ] = None,
) -> None:
    """Serve image models over HTTP: the routes of the published services and the Images API.

    With one device the model runs in this process. With several devices Ray Serve runs a replica for each,
    restarts a replica that dies, and repeats its request on another one. /docs of the running service lists
    all routes.
    """
    if context.invoked_subcommand is not None:
        return
    models, settings = _models(model, service, config)
    if not settings.open:
        key_for(settings.host, settings.key_env, "service", ", or add --open")
    ports = _ports(models, settings)
    libraries.require(*LIBRARIES)
    if ray is None and any(len(one.devices) > 1 for one in models):
        ray = HERE
    if ray not in (None, HERE):
        if len(ports) > 1:
            raise SettingsError("--published-ports cannot be combined with --ray.", "Remove one of them.")
        from ...service.ray_deploy import Service, serve_on_ray

        serve_on_ray(ray, Service(settings, models, cluster), _say)
        return
    unused = cluster.model_fields_set if ray is None else {"app_replicas"} if cluster.app_replicas > 1 else ()
    for name in unused:
        raise SettingsError(f"{name} needs a Ray cluster.", "Add --ray ADDRESS.")
    from ...service.web.app import create_app
    from ...service.web.server import Work, run_service

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    at_ports = {port: name for port, name in ports.items() if name}
    # Each handler sees every record, so each one counts by itself.
    for handler in logging.getLogger().handlers:
        handler.addFilter(FewRepeats())
    with _pool(ray, models, settings, cluster) as pool:
        app_ = create_app(pool, settings, at_ports)
        front = app_.state.front
        work = Work(front.close, front.under_way, pool.close, hopeless=pool.hopeless)
        run_service(app_, settings, list(ports), _say_listening, work)


@contextmanager
def _pool(
    ray: str | None, models: list[ModelSettings], settings: ServiceSettings, cluster: ClusterSettings
) -> Iterator[LocalPool | RayPool]:
    """Yield the pool: in this process for one device per model, otherwise on Ray."""
    if ray is None:
        from ...service.local_pool import LocalPool

        yield LocalPool(models, settings)
        return
    from ...service.ray_deploy import Service, models_here

    with models_here(Service(settings, models, cluster), _say) as pool:
        yield pool


def _models(
    model: ServedModel, service: ServiceSettings, config: Path | None
) -> tuple[list[ModelSettings], ServiceSettings]:
    """Return the models and the settings, from the options or from the file; options override the file."""
    if config is None:
        return [_single(model)], service
    for name in model.given:
        raise SettingsError(
            f"{name} cannot be combined with --config, which lists the models.", "Set it in the file."
        )
    written, models = models_in(config)
    typed = {name: getattr(service, name) for name in service.model_fields_set}
    return models, checked(ServiceSettings, {**written, **typed}, f"Service file {str(config)!r}")


def _single(model: ServedModel) -> ModelSettings:
    from ...backend.models.generators import GENERATORS

    if model.generator is None:
        raise SettingsError(
            "`serve` needs a model.",
            "Give --generator SPEC, such as diffusers:FOLDER, or --config FILE.",
        )
    accepted = GENERATORS.option_names(model.generator)
    options = {name: value for name, value in model.given.items() if name not in ("generator", "devices")}
    for name in options.keys() - accepted:
        raise SettingsError(
            f"The generator {model.generator!r} does not support the setting {name!r}.", "Remove it."
        )
    return ModelSettings(
        name=name_of(model.generator),
        generator=model.generator,
        devices=devices_in(model.devices),
        options=options,
    )


def name_of(generator: str) -> str:
    """Return a model's name from its spec: the last part after the colon, otherwise the part before it."""
    kind, _, argument = generator.partition(":")
    last = re.split(r"[/\\]", argument.partition("@")[0].rstrip("/\\"))[-1]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", last).strip(".-_")[:100]
    return name if re.search(r"[A-Za-z]", name) else kind


def key_for(host: str, variable: str, name: str, otherwise: str = "") -> str | None:
    """Return the API key in an environment variable, or None if there is none.

    Raises:
        SettingsError: The key is not valid, or it is missing although other machines can reach the host.
    """
    check_variable(variable)
    key = read_key(variable)
    if not key and not is_this_machine(host):
        raise SettingsError(
            f"The {name} at {host} would be open to everyone on the network.",
            f"Set the environment variable {variable} to a key{otherwise}.",
        )
    return key


def _ports(models: list[ModelSettings], settings: ServiceSettings) -> dict[int, str]:
    """Return the ports and the model of each; "" means the model that a request names."""
    ports = {settings.port: ""}
    if not settings.published_ports:
        return ports
    for model in models:
        port = model.port or PUBLISHED_PORTS.get(model.name)
        if port is None:
            continue
        if ports.get(port):
            raise SettingsError(
                f"The models {ports[port]!r} and {model.name!r} have the same port {port}.", "Change one."
            )
        ports[port] = model.name
    if len(ports) == 1 and not ports[settings.port]:
        raise SettingsError(
            "--published-ports: none of the models has a port.",
            f"Set `port`, or use names of the published services: {', '.join(PUBLISHED_PORTS)}.",
        )
    return ports


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _say_listening(addresses: list[str]) -> None:
    for address in addresses:
        _say(f"Listening at {address}")


class FewRepeats(logging.Filter):
    """Passes at most MAX_REPEATS equal warnings or errors a minute, so that clients cannot fill the disk.

    Messages are equal if they come from the same logger and were written with the same text, before their
    values are put in.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: Counter[tuple[str, str]] = Counter()
        self._since = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        if record.created >= self._since + SECONDS or len(self._seen) >= MAX_KINDS:
            self._seen, self._since = Counter(), record.created
        kind = record.name, str(record.msg)
        self._seen[kind] += record.levelno >= logging.WARNING
        return self._seen[kind] <= MAX_REPEATS
