"""Generators by name. Adding one: a new file with an `open(argument)` function, and a line in REGISTRY."""

from __future__ import annotations

from ..machine import plugins
from ..registry import Registry
from .protocol import Generator

REGISTRY = {
    "tinyworld": "..tinyworld.runtime.generator",
    "diffusers": ".generators.pipelines.opening",
    "http": ".generators.services.published",
    "images": ".generators.services.images",
    "fake": ".generators.fake",
}
GENERATORS = Registry(
    "generator",
    REGISTRY,
    __name__.removesuffix(".generators"),
    plugins.GENERATORS,
    renamed={"painted": "fake"},
)

__all__ = ["GENERATORS", "REGISTRY", "Generator", "open_generator"]


def open_generator(spec: str, **options: object) -> Generator:
    """Open a generator, built in or of an installed plug-in.

    Args:
        spec: `NAME` or `NAME:ARGUMENT`, such as `diffusers:FOLDER` or `http:URL1,URL2`.
        **options: Options of the backend, such as `device`. None leaves an option at its default.

    Raises:
        SettingsError: There is no such name, it cannot be imported, or an option cannot be used.
    """
    return GENERATORS.open(spec, **options)
