"""The option `--engine`: settings of decoding and caches, as NAME=VALUE,NAME=VALUE."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from ...backend.errors import SettingsError


def read_engine(text: str) -> dict[str, str]:
    """Parse `NAME=VALUE,NAME=VALUE`.

    Raises:
        SettingsError: A setting is unknown, or a part is not NAME=VALUE.
    """
    from ...backend.chat.local.base_model import EngineSettings
    from ...backend.generators.encoding_cache import EncodingCacheSettings

    known = (*EngineSettings.model_fields, *EncodingCacheSettings.model_fields)
    settings = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in known or not equals:
            raise SettingsError(
                f"Unknown engine setting {name!r} in --engine.",
                f"Use NAME=VALUE with one of: {', '.join(known)}.",
            )
        settings[name] = value
    return settings


def engine_options(given: dict[str, str]) -> dict[str, object]:
    """Return the settings of `--engine` as options of the models that they belong to.

    Raises:
        SettingsError: A value is not valid.
    """
    from ...backend.chat.local.base_model import EngineSettings
    from ...backend.generators.encoding_cache import EncodingCacheSettings

    kinds: dict[str, type[BaseModel]] = {"engine": EngineSettings, "encoding_cache": EncodingCacheSettings}
    options: dict[str, object] = {}
    for option, kind in kinds.items():
        values = {name: value for name, value in given.items() if name in kind.model_fields}
        try:
            if values:
                options[option] = kind(**values)
        except ValidationError as error:
            fault = error.errors()[0]
            raise SettingsError(f"--engine: {fault['loc'][0]}: {fault['msg']}.") from error
    return options
