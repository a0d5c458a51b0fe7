"""Settings of a run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ..values import DIRECT, Value, written_without
from .step_settings import MAX_STEP_IMAGES

MAX_ATTEMPTS = 10_000
MAX_BATCH = 16
"""Maximum number of images generated together."""

UnusedSetting = Literal["accept_at", "seed", "constrained_decoding", "cast_images", "checklist"]
"""A setting without effect in a run.

`accept_at`: the critic reports no probabilities. `seed`: the image service does not accept a seed.
`constrained_decoding`: an agent's backend cannot constrain its replies. `cast_images`: the image model
accepts no reference images. `checklist`: the critic cannot answer single items.
"""


class RunSettings(Value):
    """Settings of a run.

    A field is defined here once: default, range, description, and whether it is one of those that people set
    often (`DIRECT`). The command line, the web app and the reference read it.
    """

    max_attempts: int = Field(
        default=5,
        ge=1,
        le=100,
        description="Maximum attempts per step, including the first. With 1, no critic is used.",
        json_schema_extra=DIRECT,
    )
    accept_at: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Accept at this success probability (0 to 1). Empty: the critic's own yes/no verdict.",
        json_schema_extra=DIRECT,
    )
    keep: Literal["best", "last"] = Field(
        default="best",
        description=(
            "Attempt to keep if none is accepted: the one with the highest success probability, or the last."
        ),
    )
    source: Literal["previous", "first", "anchor", "all"] = Field(
        default="previous",
        description=(
            "Source image of a step: the previous step's, the first generated one, or the request's first. "
            "With all, models that accept several images are also shown the other earlier ones."
        ),
        json_schema_extra=DIRECT,
    )
    most_images: int | None = Field(
        default=None,
        ge=1,
        le=MAX_STEP_IMAGES,
        description="With source all or a cast: maximum number of images shown to the model, including the "
        "source image. Empty: as many as the model accepts.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=2**48,
        description="Base seed; every step and attempt derives its own seed from it.",
        json_schema_extra=DIRECT,
    )
    seed_rule: Literal["every try", "every step", "1000 per step"] = Field(
        default="every try",
        description="A new seed for every attempt, or one seed per step, so that only the prompt changes. "
        "1000 per step: seed + 0, seed + 1000, seed + 2000 and so on, as in the released code.",
    )
    on_failure: Literal["keep", "stop"] = Field(
        default="keep",
        description="If no attempt is accepted: keep the best image and continue, or stop the run.",
    )
    judge_last: bool = Field(
        default=True,
        description=(
            "Also judge the last allowed attempt. Needed to keep the best attempt and to show its verdict."
        ),
    )
    candidates: int = Field(
        default=1,
        ge=1,
        le=MAX_BATCH,
        description="Images generated together, each with its own seed. The one with the highest success "
        "probability is used. Each counts as one attempt.",
    )
    draw_ahead: bool = Field(
        default=False,
        description="Generate the first image of the next step while the critic judges this one, and discard "
        "it if this one is rejected. "
        "For a generator and a critic on two devices, or on one with free VRAM.",
    )
    derive_checklist: bool = Field(
        default=False,
        description="Check steps without a checklist for what their prompt and cast say: numbers, quoted "
        "texts, traits and facts. Each item is one short question to the critic.",
    )
    time_budget: float | None = Field(
        default=None,
        gt=0.0,
        description="Maximum duration of the run in seconds. No attempt starts after it.",
    )
    max_draws: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ATTEMPTS,
        description="Maximum number of images generated in the whole run. The run ends there.",
    )
    pause: Literal["never", "after the plan", "at rejected steps", "every step"] = Field(
        default="never",
        description="When to wait for approval: the run ends there, and run again it continues after the "
        "decision. every step: after the planner's plan and after each image.",
        json_schema_extra=DIRECT,
    )

    @model_serializer(mode="wrap")
    def _without_empty(self, fields: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit unset limits and pauses, as earlier versions wrote settings, so that they can read them."""
        written = written_without(fields(self), self, ("max_draws", "most_images", "derive_checklist"))
        if self.pause == "never":
            written.pop("pause", None)
        return written
