"""What a server of the Images API says that it takes, read from its own description.

Decision: hosted models take no seed and refuse fields that they do not know; open servers take a dozen and do
not say so in any answer. Trying a field costs an image, so the description that open servers serve anyway
(OpenAPI, at /openapi.json) is asked instead: one page, nothing drawn. A server without one is taken at the
published API's word: no seed, and therefore nothing that can be repeated.
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
"""Extras by their names here, and as fields of a request. A `mask_image` is white where the image may change,
the API's own `mask` transparent there."""
NONE = "none"


@dataclass(frozen=True)
class Takes:
    """The extras that a server takes, names of FIELDS; `array`: several images are `image[]`, not `image`
    again and again."""

    extras: frozenset[str] = frozenset()
    array: bool = True

    def and_also(self, other: Takes) -> Takes:
        """What both take."""
        return Takes(self.extras & other.extras, self.array and other.array)


def named(extras: str) -> Takes:
    """The extras of a list such as `seed,steps`, or of `none`; raises SettingsError."""
    names = [name.strip() for name in extras.split(",")]
    names = [] if names == [NONE] else names
    for name in names:
        if name not in FIELDS:
            raise SettingsError(f"There is no extra {name!r}.", f"Known: {', '.join(FIELDS)}, or {NONE}.")
    return Takes(frozenset(names))


def described(page: bytes) -> Takes:
    """The extras that every image route of an OpenAPI description names, none if it describes none."""
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
    # A mask is for edits alone.
    common = set.intersection(*routes) | ({"mask_image"} & set.union(*routes))
    if any("mask" in route for route in routes):
        common -= {"mask_image"}
    extras = frozenset(name for name, field in FIELDS.items() if field in common)
    every = set.union(*routes)
    return Takes(extras, "image[]" in every or "image" not in every)


def _fields(route: Any, whole: Any) -> Iterator[str]:
    """Names of the fields that a route's body may have."""
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
    """The object at this place, an empty one if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
