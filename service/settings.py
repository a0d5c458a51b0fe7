"""Settings of a service: its models, its addresses and its limits.

One pydantic model defines the options of the command line, the keys of the file and their help. A file may
come from someone else, so it is read with limits, and an unknown key is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from ..backend.core.errors import SettingsError, first_fault
from ..backend.core.files.bounded_reader import bounded_loader, load_yaml, read_bytes
from ..backend.core.remote.addresses import DEFAULT_PORT
from ..backend.core.types.values import option, setting

HERE = "local"
"""Address that starts Ray on this machine."""


class ClusterSettings(BaseModel):
    """Settings of the replicas on Ray."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    min_replicas: int = setting("Minimum number of replicas of a model.", 1, ge=1, le=1000)
    max_replicas: int | None = setting(
        "Maximum number of replicas of a model under load. Empty: always one per device.", ge=1, le=1000
    )
    replica_gpus: float | None = setting(
        "GPUs per replica, possibly a fraction. Empty: 1 if the model's devices are GPUs, otherwise 0.",
        ge=0,
        le=64,
    )
    replica_cpus: float = setting("CPUs per replica.", 1.0, ge=0, le=1000)
    app_replicas: int = setting(
        "Processes that handle HTTP. Each has its own cache of images.", 1, ge=1, le=64
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas is less than min_replicas")
        return self


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
"""Model names for `--published-ports`, with the port where clients of the published services expect them."""


class ServiceSettings(BaseModel):
    """Settings of the service."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    host: str = option(
        "Address to listen on. Addresses other than this machine's own need a key (--key-env) or --open.",
        "127.0.0.1",
    )
    port: int = option("Port to listen on; 0 chooses a free one.", DEFAULT_PORT, ge=0, le=65535)
    queue: int = option("Maximum number of waiting requests per model.", 100, ge=1, le=100_000)
    batch: int = option(
        "Maximum number of requests in one call, for models that support it. Values above 1 "
        "change the rounding of images, so they are part of the service's identity.",
        1,
        ge=1,
        le=64,
    )
    batch_wait: float = setting(
        "Milliseconds that a request waits for others to share its call.", 20.0, ge=0.0, le=10_000.0
    )
    patience: float = setting(
        "Seconds that a request waits for space in a full queue before it is rejected with 503.",
        20.0,
        ge=0.0,
        le=3600.0,
    )
    timeout: float = option(
        "Seconds until an unfinished request is answered with 504.", 300.0, gt=0.0, le=86_400.0
    )
    load_timeout: float = setting(
        "Seconds until a worker whose model is not loaded is restarted.", 1800.0, gt=0.0, le=86_400.0
    )
    keep: int = setting(
        "Size of the image cache in MiB. Equal requests are answered from it.", 512, ge=0, le=1_000_000
    )
    per_client: int = setting("Maximum number of concurrent requests per client.", 32, ge=1, le=100_000)
    key_env: str = option(
        "Environment variable with the API key that clients must send (Authorization: Bearer KEY).",
        DEFAULT_KEY_VARIABLE,
    )
    open: bool = option("Allow listening on a network address without an API key.", False)
    log_prompts: bool = setting("Log prompts.", False)
    grace: float = setting("Seconds to finish current requests on shutdown.", 60.0, ge=0.0, le=3600.0)
    published_ports: bool = option(
        "Also listen on the ports of the published services, one per model.", False
    )
    certificate: str | None = setting("TLS certificate (PEM file).")
    certificate_key: str | None = setting("Private key of the certificate (PEM file).")
    max_body: int = setting("Maximum size of a request body in MiB.", 64, ge=1, le=1024)
    body_seconds: float = setting("Maximum seconds to receive a request body.", 30.0, gt=0.0, le=3600.0)
    header_seconds: float = setting("Maximum seconds to receive a request header.", 10.0, gt=0.0, le=3600.0)
    connections: int = setting(
        "Maximum number of concurrent connections, "
        "limited to half of the open files that the system allows. Above it, requests get 503.",
        2000,
        ge=1,
        le=100_000,
    )


class ModelSettings(BaseModel):
    """One model of a service.

    Attributes:
        name: Name in requests.
        generator: Generator as on the command line.
        devices: Torch's names of its devices, with a worker for each.
        port: Port on which it is the default model.
        options: Options of the generator.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    generator: str = Field(min_length=1, max_length=4000)
    devices: tuple[str, ...] = Field(default=("auto",), min_length=1, max_length=MAX_DEVICES)
    port: int | None = Field(default=None, ge=1, le=65535)
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, max_length=100)


def devices_in(text: str) -> tuple[str, ...]:
    """Return the devices in a list such as `0,1`, `cuda:0,cpu` or `auto`, with a worker for each.

    Raises:
        SettingsError: The list is empty or too long.
    """
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names or len(names) > MAX_DEVICES:
        raise SettingsError(
            f"--devices {text[:80]!r} must list 1 to {MAX_DEVICES} devices.", "For example: 0,1 or cpu."
        )
    return tuple(f"cuda:{name}" if name.isascii() and name.isdigit() else name for name in names)


def models_in(path: Path) -> tuple[dict[str, Any], list[ModelSettings]]:
    """Return the settings and the models in a YAML file.

    `devices` of a model is a number of GPUs, assigned in the order of the file, or a list of names.

    Raises:
        SettingsError: The file cannot be read or is invalid.
    """
    import yaml

    text = read_bytes(path, MAX_CONFIG_BYTES, SettingsError, "Service file")
    content = load_yaml(text, bounded_loader(yaml.SafeLoader), "Service file", path)
    if not isinstance(content, dict) or not isinstance(content.get("models"), dict) or not content["models"]:
        raise SettingsError(
            f"Service file {str(path)!r} lists no models.", "Add models: {NAME: {generator: SPEC}}."
        )
    if len(content["models"]) > MAX_MODELS:
        raise SettingsError(f"Service file {str(path)!r} lists more than {MAX_MODELS} models.")
    settings = {str(key).replace("-", "_"): value for key, value in content.items() if key != "models"}
    models: list[ModelSettings] = []
    next_card = 0
    for name, entry in content["models"].items():
        given = dict(entry) if isinstance(entry, dict) else {"generator": entry}
        devices = given.pop("devices", "auto")
        if isinstance(devices, int) and not isinstance(devices, bool):
            if not 1 <= devices <= MAX_DEVICES:
                raise SettingsError(
                    f"Service file {str(path)!r}, {name}: devices must be 1 to {MAX_DEVICES} GPUs."
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
    """Return the model with these values.

    Raises:
        SettingsError: A value is invalid; the message names it.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        fault = first_fault(error)
        raise SettingsError(f"{where}: {fault.place or 'values'}: {fault.reason}.") from error
