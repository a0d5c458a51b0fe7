"""`interleave-thinker serve`: image models of this machine as a service.

Decision: what can be wrong with how it is called (a key, a port, a model's name, a missing library) ends it
at once with one line; what is wrong with one of several models stands in `/status`, and the others go on. If
none of them can be loaded, the command ends with the reason.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel, Field

from ...backend.errors import SettingsError
from ...backend.remote.api_keys import check_variable, read_key
from ...backend.remote.server import THIS_MACHINE
from ...service.ray_pool.settings import ClusterSettings
from ...service.settings import (
    PUBLISHED_PORTS,
    ModelSettings,
    ServiceSettings,
    checked,
    devices_in,
    models_in,
)
from ..open_models import DrawingOptions
from ..options.models import with_model_options
from . import check, nginx
from .quiet_log import FewRepeats

LIBRARIES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")

app = typer.Typer(add_completion=False, help="Serve image models over HTTP, and look after such services.")


class ServedModel(DrawingOptions):
    """The model. All of it can also stand in a file (--config), for several models."""

    generator: str | None = Field(
        default=None, description="Image model to serve, such as diffusers:FOLDER, tinyworld or fake."
    )
    devices: str = Field(
        default="auto",
        description="Devices, a worker process for each: 0,1 are cards, else torch's names (cpu, mps).",
    )
    dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Number type of the model; by default what suits the device."
    )
    download: bool = Field(default=False, description="Allow downloading a model that is not here yet.")


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
            help="Serve with Ray Serve instead: on the cluster at this address, "
            "`auto` for the one that this machine belongs to, `local` to start one here.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML file with `models:` and settings of the service; options given here win."),
    ] = None,
) -> None:
    """Serve image models: the routes of the published services, and the Images API.

    One process for each device draws; one that dies is started again, and its request drawn by another. /docs
    of the running service shows every route.
    """
    if context.invoked_subcommand is not None:
        return
    models, settings = _models(context, model, service, config)
    _check_key(settings)
    ports = _ports(models, settings)
    _check_libraries()
    if ray is not None:
        if len(ports) > 1:
            raise SettingsError("With --ray there is one port.", "Leave out --published-ports.")
        from .on_ray import serve_on_ray

        serve_on_ray(ray, models, settings, cluster)
        return
    _refuse_without_ray(context)
    from ...service.process_pool.pool import ProcessPool
    from ...service.web.app import create_app
    from ...service.web.server import run_service

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.addFilter(FewRepeats())
    at_ports = {port: name for port, name in ports.items() if name}
    pool = ProcessPool(models, settings)
    app_ = create_app(pool, settings, at_ports)

    def ready(addresses: list[str]) -> None:
        for address in addresses:
            typer.echo(f"Listening at {address}", err=True)

    run_service(app_, settings, list(ports), ready, pool.hopeless)


def _models(
    context: typer.Context, model: ServedModel, service: ServiceSettings, config: Path | None
) -> tuple[list[ModelSettings], ServiceSettings]:
    """What is served, and how: from the options, or from the file with the options over it."""
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
            "No model is named.", "Say --generator SPEC, such as diffusers:FOLDER, or --config FILE."
        )
    accepted = GENERATORS.option_names(model.generator)
    given = model.model_dump(exclude={"generator", "devices"})
    options = {name: value for name, value in given.items() if value not in (None, False)}
    for name in options:
        if name not in accepted:
            raise SettingsError(
                f"--{name.replace('_', '-')} is no option of {model.generator!r}.", "Leave it out."
            )
    return ModelSettings(
        name=name_of(model.generator),
        generator=model.generator,
        devices=devices_in(model.devices),
        options=options,
    )


def name_of(generator: str) -> str:
    """A model's name from its spec: the end of what stands behind the colon, else what stands before it."""
    kind, _, argument = generator.partition(":")
    last = re.split(r"[/\\]", argument.partition("@")[0].rstrip("/\\"))[-1]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", last).strip(".-_")[:100]
    return name if re.search(r"[A-Za-z]", name) else kind


def _refuse_beside_file(context: typer.Context, model: BaseModel) -> None:
    for name in type(model).model_fields:
        if _typed(context, name):
            raise SettingsError(
                f"--{name.replace('_', '-')} is of one model, and --config names several.",
                "Write it into the file.",
            )


def _typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_without_ray(context: typer.Context) -> None:
    for name in ClusterSettings.model_fields:
        if _typed(context, name):
            raise SettingsError(f"--{name.replace('_', '-')} is for a cluster.", "Say --ray ADDRESS too.")


def _check_key(settings: ServiceSettings) -> None:
    check_variable(settings.key_env)
    if settings.host not in THIS_MACHINE and not settings.open and not read_key(settings.key_env):
        raise SettingsError(
            f"At {settings.host} anybody on the network could draw.",
            f"Set the environment variable {settings.key_env} to a key, or say --open.",
        )


def _ports(models: list[ModelSettings], settings: ServiceSettings) -> dict[int, str]:
    """The ports to listen at, and the model that is asked at each; "" is what the request names."""
    ports = {settings.port: ""}
    if not settings.published_ports:
        return ports
    for model in models:
        port = model.port or PUBLISHED_PORTS.get(model.name)
        if port is None:
            continue
        if ports.get(port):
            raise SettingsError(f"Port {port} is of two models, {ports[port]!r} and {model.name!r}.")
        ports[port] = model.name
    if len(ports) == 1 and not ports[settings.port]:
        raise SettingsError(
            "--published-ports: no model has a port.",
            f"Give them a `port`, or the published services' names: {', '.join(PUBLISHED_PORTS)}.",
        )
    return ports


def _check_libraries() -> None:
    from importlib.util import find_spec

    absent = [name for name in LIBRARIES if find_spec(name) is None]
    if absent:
        raise SettingsError(
            f"A service needs {', '.join(absent)}, which is not installed.",
            'Install it: pip install "interleave-thinker[serve]"',
        )


app.command("check")(check.command)
app.command("nginx")(nginx.command)
