"""Options of whoever draws and scores, in one place: image services, and the generator and judge of a
reinforcement, for its command and for recipes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ServiceOptions(BaseModel):
    """Image services, for generators that are some: http:URL1,URL2,@FILE and images:MODEL@URL."""

    service_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of services that a file (http:@FILE) names without one; 8011 if not said.",
    )
    mixed: bool = Field(
        default=False, description="Draw with services of different models, whichever is free."
    )
    extras: str | None = Field(
        default=None,
        description="What an Images API takes beside prompt, size and images, as "
        "seed,steps,guidance,negative, or none; by default what its /openapi.json says. Without seed "
        "nothing can be repeated.",
    )

    @property
    def given(self) -> dict[str, object]:
        """Those that were said."""
        return {name: value for name, value in self.model_dump().items() if value not in (None, False)}


class RewarderOptions(BaseModel):
    """Generator and judge of the rewards. What is not given is the generator's and the judge's own."""

    generator_steps: int | None = Field(
        default=None, ge=1, le=1000, description="Sampling steps of a redraw."
    )
    generator_size: str | None = Field(
        default=None, description="Size of a redraw, WIDTHxHEIGHT; empty: as the image before it."
    )
    generator_dtype: Literal["float32", "bfloat16", "float16"] | None = Field(
        default=None, description="Precision of the generator; empty: what its device does best."
    )
    generator_device: str | None = Field(
        default=None,
        max_length=40,
        description="Where it draws, such as cuda:1 or cpu; empty: the first card.",
    )
    judge_dtype: Literal["bfloat16", "float16", "float32"] | None = Field(
        default=None, description="Precision of a judge in this process; empty: its checkpoint's."
    )
    judge_device: str | None = Field(
        default=None,
        max_length=40,
        description="Where such a judge is, such as cuda:1; empty: the first card.",
    )
    judge_quantization: Literal["8bit", "4bit", "fp8"] | None = Field(
        default=None, description="Fewer bits for such a judge's language model."
    )

    @property
    def generator(self) -> dict[str, object]:
        """Options of the generator that were said."""
        return self._said("generator_")

    @property
    def judge(self) -> dict[str, object]:
        """Options of the judge that were said."""
        return self._said("judge_")

    def _said(self, prefix: str) -> dict[str, object]:
        values = self.model_dump(exclude_none=True).items()
        return {name.removeprefix(prefix): value for name, value in values if name.startswith(prefix)}
