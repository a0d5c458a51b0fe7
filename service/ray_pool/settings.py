"""Settings of a service on a cluster, in addition to those of every service.

They are in a module of their own, so that the command line shows the options without importing Ray.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

HERE = "local"
"""Address that starts Ray on this machine."""


class ClusterSettings(BaseModel):
    """Settings with --ray."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    min_replicas: int = Field(default=1, ge=1, le=1000, description="Minimum number of replicas of a model.")
    max_replicas: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Maximum number of replicas of a model under load. Empty: always one per device.",
    )
    target_ongoing: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="Concurrent requests per replica above which replicas are added. Empty: twice the batch "
        "size.",
    )
    upscale_seconds: float = Field(
        default=5.0, ge=0, le=3600, description="Seconds of higher load before replicas are added."
    )
    downscale_seconds: float = Field(
        default=60.0, ge=0, le=86_400, description="Seconds of lower load before replicas are removed."
    )
    replica_gpus: float | None = Field(
        default=None,
        ge=0,
        le=64,
        description="GPUs per replica, possibly a fraction. "
        "Empty: 1 if the model's devices are GPUs, otherwise 0.",
    )
    replica_cpus: float = Field(default=1.0, ge=0, le=1000, description="CPUs per replica.")
    models_each: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Let every replica serve all models and keep this many loaded, evicting "
        "the least recently used; for more models than GPUs. "
        "Empty: one model per replica.",
    )
    app_replicas: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that handle HTTP. Each has its own cache of images and shares only its own "
        "requests.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas is less than min_replicas")
        return self
