"""Settings of the generated requests.

Nothing of the generation is imported here, so that the command line can show these options quickly.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

PROMPTS, REPORT = "prompts.jsonl", "prompts.report.json"
MAX_COUNT = 5_000_000


class PromptsData(BaseModel):
    """Settings of the generated requests; field descriptions are the help of the command line."""

    count: int = Field(
        default=40_000,
        ge=1,
        le=MAX_COUNT,
        description="Number of requests. A larger number continues the same sequence.",
        json_schema_extra={"option": "rows"},
    )
    seed: int = Field(default=0, ge=0, le=2**53, description="Seed of the requests.")
    variants: int = Field(
        default=2, ge=1, le=20, description="Maximum number of requests about the same content."
    )
    taxonomy: Path | None = Field(
        default=None, description="Your own categories and templates, as a YAML file."
    )
    words: Path | None = Field(default=None, description="Folder of your own word banks (NAME.yaml).")
    images: Path | None = Field(
        default=None, description="Folder of images; some requests then start from one of them."
    )
    language: str = Field(default="en", description="Language of the built-in taxonomy: en.")
