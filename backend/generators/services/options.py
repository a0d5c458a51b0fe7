"""Options of image services other than prompt, image and seed, for any protocol."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import SettingsError
from ...remote.addresses import DEFAULT_PORT

SIZE = re.compile(r"([0-9]{1,4})x([0-9]{1,4})", re.I)
MAX_SIDE = 8192


class ListOptions(BaseModel):
    """Options of every list of services. `size` is WIDTHxHEIGHT in pixels."""

    model_config = ConfigDict(extra="forbid")

    size: str | None = None
    service_port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    mixed: bool = False

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height of `size` in pixels.

        Raises:
            SettingsError: `size` is invalid.
        """
        if self.size is None:
            return None
        match = SIZE.fullmatch(self.size)
        if match is None or not all(1 <= int(side) <= MAX_SIDE for side in match.groups()):
            raise SettingsError(
                f"Invalid size {self.size!r}: expected WIDTHxHEIGHT with sides of 1 to {MAX_SIDE} pixels.",
                "For example: 1024x768.",
            )
        return int(match[1]), int(match[2])


class DrawOptions(ListOptions):
    """Options of a list of services with diffusion models."""

    steps: int | None = None
    guidance: float | None = None
    negative: str | None = None


Options = TypeVar("Options", bound=ListOptions)


def read_options(generator: str, kind: type[Options], given: dict[str, Any]) -> Options:
    """Return the options with these values.

    Raises:
        SettingsError: A value is invalid; the message names the option.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise SettingsError(f"Generator {generator!r}, option {fault['loc'][0]}: {fault['msg']}.") from error
