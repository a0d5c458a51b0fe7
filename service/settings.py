"""What a service is set to: which models, where it listens, how much it takes on.

Decision: one pydantic model is the command line's options, the file's keys and their help. A file of models
comes from somebody else as likely as not, so it is read bounded, and a key that it does not know is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..backend.errors import SettingsError
from ..backend.files.bounded_reader import read_bytes
from ..backend.files.bounded_yaml import bounded_loader, load_yaml
from ..backend.remote.addresses import DEFAULT_PORT

MIB = 1024 * 1024
MAX_CONFIG_BYTES = 64 * 1024
MAX_MODELS = 64
MAX_DEVICES = 64
DEFAULT_KEY_VARIABLE = "INTERLEAVE_SERVICE_KEY"
PUBLISHED_PORTS = {
    "qwen-image": 8000,
    "qwen-image-lightning": 8001,
    "flux-krea": 8002,
    "qwen-edit": 8003,
    "qwen-edit-lightning": 8004,
    "kontext": 8005,
    "fill": 8006,
    "omnigen2": 8007,
    "qwen-edit-plus": 8008,
    "longcat": 8010,
    "klein": 8011,
}
"""Names of models that `--published-ports` knows, with the port at which clients of the published services
look for them."""


class ServiceSettings(BaseModel):
    """The service. Seconds, pixels and bytes are what the words say."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    host: str = Field(
        default="127.0.0.1",
        description="Address to listen at. Any but this machine's own needs a key (--key-env) or --open.",
    )
    port: int = Field(
        default=DEFAULT_PORT, ge=0, le=65535, description="Port to listen at; 0 takes a free one."
    )
    queue: int = Field(
        default=100, ge=1, le=100_000, description="Requests of a model that may wait to be drawn."
    )
    batch: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Requests that are drawn in one call, by models that can. "
        "Above 1 images are rounded otherwise than one alone, "
        "so the service's identity says it.",
    )
    batch_wait: float = Field(
        default=20.0,
        ge=0.0,
        le=10_000.0,
        description="Milliseconds that a request waits for others of its batch.",
    )
    patience: float = Field(
        default=20.0,
        ge=0.0,
        le=3600.0,
        description="Seconds that a request waits for room in a full queue before it is refused with 503.",
    )
    timeout: float = Field(
        default=300.0,
        gt=0.0,
        le=86_400.0,
        description="Seconds until a request that is not drawn yet gets 504.",
    )
    load_timeout: float = Field(
        default=1800.0,
        gt=0.0,
        le=86_400.0,
        description="Seconds until a worker whose model is not loaded yet is ended and started again.",
    )
    keep: int = Field(
        default=512,
        ge=0,
        le=1_000_000,
        description="MiB of finished images to keep, so that none is drawn twice.",
    )
    per_client: int = Field(default=32, ge=1, le=100_000, description="Requests of one client at a time.")
    key_env: str = Field(
        default=DEFAULT_KEY_VARIABLE,
        description="Environment variable with the key that clients send (Authorization: Bearer KEY).",
    )
    open: bool = Field(default=False, description="Listen at an address of the network without a key.")
    echo: bool = Field(default=False, description="Send source images back, as the published services do.")
    log_prompts: bool = Field(default=False, description="Write prompts into the log.")
    grace: float = Field(
        default=60.0, ge=0.0, le=3600.0, description="Seconds to finish what is being drawn once told to end."
    )
    published_ports: bool = Field(
        default=False, description="Listen also at the ports of the published services, one for each model."
    )
    certificate: str | None = Field(default=None, description="TLS certificate, a PEM file.")
    certificate_key: str | None = Field(
        default=None, description="Private key of the certificate, a PEM file."
    )
    max_body: int = Field(default=64, ge=1, le=1024, description="MiB of a request's body at most.")
    body_seconds: float = Field(
        default=30.0, gt=0.0, le=3600.0, description="Seconds in which a request's body must have arrived."
    )
    header_seconds: float = Field(
        default=10.0, gt=0.0, le=3600.0, description="Seconds in which a request's header must have arrived."
    )
    connections: int = Field(
        default=2000,
        ge=1,
        le=100_000,
        description="Maximum number of connections at a time, "
        "at most half of the open files that the system allows. "
        "At the limit the connection that has kept the service waiting longest is closed.",
    )


class ModelSettings(BaseModel):
    """One model of a service: a generator as on the command line, its options, and its devices (torch's
    names; or how many of the cards)."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    generator: str = Field(min_length=1, max_length=4000)
    devices: tuple[str, ...] = Field(default=("auto",), min_length=1, max_length=MAX_DEVICES)
    port: int | None = Field(default=None, ge=1, le=65535)
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=100)


def devices_in(text: str) -> tuple[str, ...]:
    """Devices of a list such as `0,1`, `cuda:0,cpu` or `auto`, a worker for each; raises SettingsError."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or len(names) > MAX_DEVICES:
        raise SettingsError(
            f"--devices {text[:80]!r} is not 1 to {MAX_DEVICES} devices.", "Such as 0,1 or cpu."
        )
    return tuple(f"cuda:{name}" if name.isascii() and name.isdigit() else name for name in names)


def models_in(path: Path) -> tuple[dict[str, Any], list[ModelSettings]]:
    """The service's settings and its models in a YAML file. `devices` of a model is a number of cards, handed
    out in the order of the file, or a list of names. Raises SettingsError."""
    import yaml

    text = read_bytes(path, MAX_CONFIG_BYTES, SettingsError, "Service file")
    content = load_yaml(text, bounded_loader(yaml.SafeLoader), "Service file", path)
    if not isinstance(content, dict) or not isinstance(content.get("models"), dict) or not content["models"]:
        raise SettingsError(
            f"Service file {str(path)!r} names no models.", "Write models: {NAME: {generator: SPEC}}."
        )
    if len(content["models"]) > MAX_MODELS:
        raise SettingsError(f"Service file {str(path)!r} names more than {MAX_MODELS} models.")
    settings = {str(key).replace("-", "_"): value for key, value in content.items() if key != "models"}
    models: list[ModelSettings] = []
    next_card = 0
    for name, entry in content["models"].items():
        given = dict(entry) if isinstance(entry, dict) else {"generator": entry}
        devices = given.pop("devices", "auto")
        if isinstance(devices, int) and not isinstance(devices, bool):
            if not 1 <= devices <= MAX_DEVICES:
                raise SettingsError(
                    f"Service file {str(path)!r}, {name}: devices are 1 to {MAX_DEVICES} cards."
                )
            given["devices"] = [f"cuda:{next_card + number}" for number in range(devices)]
            next_card += devices
        elif isinstance(devices, list):
            given["devices"] = devices_in(",".join(map(str, devices)))
        else:
            given["devices"] = devices_in(str(devices))
        models.append(
            checked(ModelSettings, {"name": str(name), **given}, f"Service file {str(path)!r}, {name}")
        )
    return settings, models


def checked(kind: type[BaseModel], given: dict[Any, Any], where: str) -> Any:
    """The model with these values; raises SettingsError that names the wrong one."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"])) or "values"
        raise SettingsError(f"{where}: {name}: {fault['msg']}.") from error
