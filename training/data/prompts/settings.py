"""Which requests are made, as settings.

Decision: nothing of the pipeline is imported here, so that the command line can describe these options
without reading a bank.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

PROMPTS, REPORT = "prompts.jsonl", "prompts.report.json"
MAX_COUNT = 5_000_000


class PromptsData(BaseModel):
    """Which requests; field descriptions are the command line's help."""

    count: int = Field(
        default=40_000,
        ge=1,
        le=MAX_COUNT,
        description="Requests; more keep the first ones.",
        json_schema_extra={"option": "rows"},
    )
    seed: int = Field(default=0, ge=0, le=2**53, description="Another number, other requests.")
    variants: int = Field(default=2, ge=1, le=20, description="Most requests about the very same things.")
    taxonomy: Path | None = Field(default=None, description="Your own categories and templates, a YAML file.")
    words: Path | None = Field(default=None, description="Folder of banks of your own (NAME.yaml).")
    images: Path | None = Field(
        default=None, description="Folder of images: some requests then begin from one of them."
    )
    language: str = Field(default="en", description="Language of the shipped taxonomy: en.")
