"""What a service on a cluster is set to beside what every service is.

Decision: apart from the code, so that the command line describes the options without importing Ray.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

HERE = "local"
"""The address that starts Ray in this machine."""


class ClusterSettings(BaseModel):
    """With --ray."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    min_replicas: int = Field(default=1, ge=1, le=1000, description="Replicas of a model without load.")
    max_replicas: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Replicas of a model under load; empty: as many as its devices, always.",
    )
    target_ongoing: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        description="Requests a replica for which replicas are added. Empty: twice the batch.",
    )
    upscale_seconds: float = Field(
        default=5.0, ge=0, le=3600, description="How long the load must be higher before replicas are added."
    )
    downscale_seconds: float = Field(
        default=60.0, ge=0, le=86_400, description="How long it must be lower before replicas are taken away."
    )
    replica_gpus: float | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Cards that a replica takes, or a part of one. "
        "Empty: 1 where the model's devices are cards, else 0.",
    )
    replica_cpus: float = Field(default=1.0, ge=0, le=1000, description="Processors that a replica takes.")
    models_each: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Let every replica draw with any model and keep so many loaded, "
        "the one that was used longest ago out first: for more models than cards. "
        "Empty: a replica holds one model.",
    )
    app_replicas: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that speak HTTP. Each joins and keeps equal requests for itself.",
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas is less than min_replicas")
        return self
