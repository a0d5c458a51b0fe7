"""Generators by name. To add one, write a module with an `open(argument)` function and add it to REGISTRY."""

from __future__ import annotations

from ...core.machine import registry
from ...core.machine.registry import Registry
from ...core.seams.adoption import adopt
from ...core.seams.generator import Generator

REGISTRY = {
    "tinyworld": "...tinyworld.generator",
    "diffusers": ".generators.pipelines.opening",
    "http": ".generators.http_service",
    "images": ".generators.images_api",
    "gemini": ".generators.gemini_api",
    "fake": ".generators.fake",
}
GENERATORS = Registry(
    "generator",
    REGISTRY,
    __name__.removesuffix(".generators"),
    registry.GENERATORS,
    files={"": "diffusers"},
)

__all__ = ["GENERATORS", "REGISTRY", "Generator", "open_generator"]


def open_generator(spec: str, **options: object) -> Generator:
    """Open a generator by name, built in or from an installed plug-in.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`, such as `diffusers:FOLDER` or `http:URL1,URL2`.
        **options: Options of the backend, such as `device`. None leaves an option at its default.

    Raises:
        SettingsError: The name is unknown, its module cannot be imported, or an option is not supported.
    """
    return adopt(GENERATORS.open(spec, **options), Generator)
