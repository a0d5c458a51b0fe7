"""What a person says on the card of packed data, as settings.

Decision: nothing of the pipeline is imported here, so that the command line can describe these options
without reading a row.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class CardData(BaseModel):
    """What a person says of the data."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(default="Interleaved stories", max_length=200, description="Title of the card.")
    license: str = Field(default="unknown", max_length=100, description="Licence of the whole.")
