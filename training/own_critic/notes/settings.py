"""Settings of `feedback notes`, in a module that imports no images."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from ....backend.prompts.critic_notes import MAX_NOTES


class NotesSettings(BaseModel):
    """Settings of the choice of notes."""

    model_config = ConfigDict(extra="forbid")

    max_notes: int = Field(default=20, ge=1, le=MAX_NOTES, description="Maximum number of notes.")
    max_questions: int = Field(
        default=4000,
        ge=10,
        le=1_000_000,
        description="Maximum number of questions to the critic. Corrections that were not tried by then are "
        "left out.",
    )
    images: int = Field(
        default=400,
        ge=10,
        le=20_000,
        description="Maximum number of images with your verdict that are used, half of them for the choice.",
    )
    parallel: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Questions at the same time, for a critic on a server. A local one answers one by one.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the splits and of the order of the corrections.")
