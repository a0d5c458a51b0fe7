"""Options of every command that draws with image services, in one place."""

from __future__ import annotations

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
