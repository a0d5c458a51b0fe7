"""Settings of the dataset card.

Nothing of the packing is imported here, so that the command line can show these options quickly.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CardData(BaseModel):
    """Texts of the dataset card."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(default="Interleaved stories", max_length=200, description="Title of the card.")
    license: str = Field(default="unknown", max_length=100, description="License of the whole dataset.")
