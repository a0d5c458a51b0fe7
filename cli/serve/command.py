"""`interleave-thinker serve`: serves image models over HTTP.

A wrong option (key, port, model name, missing library) ends the command at once with one line. If one of
several models fails, `/status` reports it and the others are served. If no model can be loaded, the command
ends with the reason.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import BaseModel, Field

from ...backend.errors import SettingsError
from ...backend.remote.addresses import THIS_MACHINE
from ...backend.remote.api_keys import check_variable, read_key
from ...service.ray_pool.settings import HERE, ClusterSettings
from ...service.settings import (
    PUBLISHED_PORTS,
    ModelSettings,
    ServiceSettings,
    checked,
    devices_in,
    models_in,
)
from ..options.model_options import DrawingOptions
from ..options.models import with_model_options
from ..progress import warn
from . import check, nginx
from .quiet_log import few_repeats
from .register import advertised_url, is_local

if TYPE_CHECKING:
    from ...service.local_pool import LocalPool
    from ...service.ray_poolpool RayPool

LIBRARIES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")

app = typer.Typer(add_completion=False)


class ServedModel(DrawingOptions):
    """Options of the served model. A file (--config) can set them for several models."""

    generator: str | None = Field(
        default=None, description="Image model to serve: diffusers:FOLDER, tinyworld or fake."
    )
    devices: str = Field(
        default="auto",
        description="Devices: GPU numbers such as 0,1, or cpu or mps. "
        "Several start a replica of the model for each, on Ray.",
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None,
        description="Dtype of the model. Default: bfloat16 on a GPU (float16 if it has no "
        "bfloat16), float32 on the CPU.",
    )
    download: bool = Field(default=False, description="Download the model if it is not in the local cache.")


@app.callback(invoke_without_command=True)
@with_model_options
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
    register: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Add the service's address to this list of services (as for http:@FILE) while it runs.",
        ),
    ] = None,
    advertise: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="HOST, HOST:PORT or URL for --register. Default: --host, or this machine's name if the "
            "service listens on all addresses.",
        ),
    ] = "",
) -> None:
    """Serve image models over HTTP: the routes of the published services and the Images API.

    With one device the model runs in this process. With several devices Ray Serve runs a replica for each,
    restarts a replica that dies, and repeats its request on another one. /docs of the running service lists
    all routes.
    """
    if context.invoked_subcommand is not None:
        return
    models, settings = _models(context, model, service, config)
    _check_key(settings)
    ports = _ports(models, settings)
    _check_libraries()
    if advertise and register is None:
        raise SettingsError("--advertise has no effect without --register.", "Add --register FILE.")
    if ray is None and any(len(one.devices) > 1 for one in models):
        ray = HERE
    if ray not in (None, HERE):
        _refuse_with_cluster(register, ports)
        from .on_ray import serve_on_ray

        serve_on_ray(ray, models, settings, cluster)
        return
    if ray is None:
        _refuse_without_ray(context)
    elif cluster.app_replicas > 1:
        raise SettingsError("--app-replicas needs a Ray cluster.", "Add --ray ADDRESS.")
    from ...service.web.app import create_app
    from ...service.web.server import Work, run_service

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    at_ports = {port: name for port, name in ports.items() if name}
    with few_repeats(), _pool(ray, models, settings, cluster) as pool, ExitStack() as listing:
        app_ = create_app(pool, settings, at_ports)

        def ready(addresses: list[str]) -> None:
            for address in addresses:
                typer.echo(f"Listening at {address}", err=True)
            if register is not None:
                listing.enter_context(_registered(register, advertised_url(addresses[0], advertise)))

        front = app_.state.front
        work = Work(front.close, front.under_way, pool.close, listing.close, pool.hopeless)
        run_service(app_, settings, list(ports), ready, work)


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

    with models_here(Service(settings, models, cluster), lambda line: typer.echo(line, err=True)) as pool:
        yield pool


def _refuse_with_cluster(register: Path | None, ports: dict[int, str]) -> None:
    if register is not None:
        raise SettingsError(
            "--register cannot be combined with --ray, which has one address for all machines.",
            "List the address yourself.",
        )
    if len(ports) > 1:
        raise SettingsError("--published-ports cannot be combined with --ray.", "Remove one of them.")


def _registered(file: Path, url: str) -> AbstractContextManager[None]:
    from ...backend.remote.addresses import registered

    typer.echo(f"Registering {url} in {file}", err=True)
    if is_local(url):
        warn("Only this machine can use that address. For others set --host or --advertise.")
    return registered(file, url)


def _models(
    context: typer.Context, model: ServedModel, service: ServiceSettings, config: Path | None
) -> tuple[list[ModelSettings], ServiceSettings]:
    """Return the models and the settings, from the options or from the file; options override the file."""
    if config is None:
        return [_single(model)], service
    _refuse_beside_file(context, model)
    written, models = models_in(config)
    typed = {name: getattr(service, name) for name in type(service).model_fields if _typed(context, name)}
    return models, checked(ServiceSettings, {**written, **typed}, f"Service file {str(config)!r}")


def _single(model: ServedModel) -> ModelSettings:
    from ...backend.generators import GENERATORS

    if model.generator is None:
        raise SettingsError(
            "`serve` needs a model.",
            "Give --generator SPEC, such as diffusers:FOLDER, or --config FILE.",
        )
    accepted = GENERATORS.option_names(model.generator)
    given = model.model_dump(exclude={"generator", "devices"})
    options = {name: value for name, value in given.items() if value not in (None, False)}
    for name in options:
        if name not in accepted:
            raise SettingsError(
                f"The generator {model.generator!r} does not support --{name.replace('_', '-')}.",
                "Remove the option.",
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


def _refuse_beside_file(context: typer.Context, model: BaseModel) -> None:
    for name in type(model).model_fields:
        if _typed(context, name):
            raise SettingsError(
                f"--{name.replace('_', '-')} cannot be combined with --config, which lists the models.",
                "Set it in the file.",
            )


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_without_ray(context: typer.Context) -> None:
    for name in ClusterSettings.model_fields:
        if _typed(context, name):
            raise SettingsError(f"--{name.replace('_', '-')} needs a Ray cluster.", "Add --ray ADDRESS.")


def _check_key(settings: ServiceSettings) -> None:
    check_variable(settings.key_env)
    if settings.host not in THIS_MACHINE and not settings.open and not read_key(settings.key_env):
        raise SettingsError(
            f"The service at {settings.host} would be open to everyone on the network.",
            f"Set the environment variable {settings.key_env} to a key, or add --open.",
        )


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


def _check_libraries() -> None:
    from importlib.util import find_spec

    absent = [name for name in LIBRARIES if find_spec(name) is None]
    if absent:
        raise SettingsError(
            f"`serve` needs {', '.join(absent)}, which is not installed.",
            'Install it: pip install "interleave-thinker[serve]"',
        )


app.command("check")(check.command)
app.command("nginx")(nginx.command)
