"""Generators by name. Adding one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from ..registry import open_by_spec
from .protocol import Generator

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.generator",
    "diffusers": ".generators.pipelines.opening",
    "http": ".generators.services.published",
    "images": ".generators.services.images",
    "fake": ".generators.fake",
    "painted": ".generators.fake",  # its earlier name
}

__all__ = ["REGISTRY", "Generator", "open_generator"]


def open_generator(spec: str, **options: object) -> Generator:
    """Open `NAME` or `NAME:ARGUMENT` (such as `diffusers:FOLDER`, `http:URL1,URL2`); raises SettingsError."""
    return open_by_spec("generator", REGISTRY, spec, **options)
