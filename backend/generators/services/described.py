"""Reads from a server's own description which fields its Images API accepts.

Hosted models accept no seed and reject unknown fields. Open servers accept a dozen fields and do not report
it in their answers. Testing a field costs an image, so the description that open servers provide (OpenAPI, at
/openapi.json) is read instead. A server without one is assumed to follow the published API: no seed, and
therefore no repeatable images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...errors import GeneratorError, SettingsError
from ...files.bounded_reader import parse_json

PAGE = "/openapi.json"
MAX_BYTES = 8 * 1024 * 1024
MAX_VALUES = 400_000
ROUTES = ("/images/generations", "/images/edits")
FIELDS = {
    "seed": "seed",
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "true_cfg": "true_cfg_scale",
    "negative": "negative_prompt",
    "mask_image": "mask_image",
}
"""Optional fields: their names here, and in a request.

`mask_image` is white where the image may change. The API's own `mask` is transparent there.
"""
NONE = "none"


@dataclass(frozen=True)
class Takes:
    """The optional fields that a server accepts, by their names in FIELDS.

    `array`: several images are sent as `image[]`, not as repeated `image`.
    """

    extras: frozenset[str] = frozenset()
    array: bool = True

    def and_also(self, other: Takes) -> Takes:
        """Return what both servers accept."""
        return Takes(self.extras & other.extras, self.array and other.array)


def named(extras: str) -> Takes:
    """Return the optional fields of a list such as `seed,steps`, or of `none`.

    Raises:
        SettingsError: A name is unknown.
    """
    names = [name.strip() for name in extras.split(",")]
    names = [] if names == [NONE] else names
    for name in names:
        if name not in FIELDS:
            raise SettingsError(f"Unknown optional field {name!r}.", f"Use {', '.join(FIELDS)}, or {NONE}.")
    return Takes(frozenset(names))


def described(page: bytes) -> Takes:
    """Return the optional fields that all image routes of an OpenAPI description have, or none."""
    try:
        whole = parse_json(page, GeneratorError, PAGE, MAX_VALUES)
    except GeneratorError:
        return Takes()
    paths = _part(whole, "paths")
    routes = [
        set(_fields(paths[path], whole))
        for path in paths
        if re.split("[?#]", path, maxsplit=1)[0].endswith(ROUTES)
    ]
    if not routes:
        return Takes()
    # A mask applies only to edits.
    common = set.intersection(*routes) | ({"mask_image"} & set.union(*routes))
    if any("mask" in route for route in routes):
        common -= {"mask_image"}
    extras = frozenset(name for name, field in FIELDS.items() if field in common)
    every = set.union(*routes)
    return Takes(extras, "image[]" in every or "image" not in every)


def _fields(route: Any, whole: Any) -> Iterator[str]:
    """Yield the names of the fields that the body of a route may have."""
    content = _part(route, "post", "requestBody", "content")
    for kind in content.values():
        schema = _part(kind, "schema")
        parts = schema.get("allOf")
        for one in [schema, *(parts if isinstance(parts, list) else ())]:
            one = _part(one)
            reference = one.get("$ref")
            if isinstance(reference, str) and reference.startswith("#/"):
                one = _part(whole, *reference[2:].split("/"))
            yield from _part(one, "properties")


def _part(value: Any, *names: str) -> dict[str, Any]:
    """Return the object at this path, or an empty one."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
