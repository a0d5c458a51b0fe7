"""Nodes for generators that are opened by name: image services over HTTP, the tiny world, and plug-ins."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.core.remote.api_keys import check_services
from ...backend.models.generators import GENERATORS, open_generator
from ...backend.models.generators.wrappers import OFF, color_matched
from .. import host
from ..inputs.sockets import GeneratorSocket, node_schema
from ..inputs.validation import in_range, require_library
from .generator_inputs import color_match_input, common_inputs, common_options

EDIT_SERVICE, IMAGES_API, GEMINI_API = "edit service", "OpenAI Images API", "Gemini API"
LOCAL_URL = "http://127.0.0.1:8011"


class ServiceGenerator(io.ComfyNode):
    """Generates and edits images with a service on this or another machine."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveServiceGenerator",
            shown=("url", "protocol", "model"),
            inputs=[
                io.String.Input("url", default=LOCAL_URL),
                *common_inputs(),
                io.Float.Input("timeout", default=300.0, min=1.0, max=86400.0, step=1.0, optional=True),
                color_match_input(),
                *_protocol_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR")],
        )

    @classmethod
    def execute(
        cls, url: str, timeout: float = 300.0, color_match: str = OFF, mixed: bool = False, **given: Any
    ) -> io.NodeOutput:
        """Connect to the service."""
        from ...backend.models.generators import open_generator

        in_range("Service Generator", 1, 86400, timeout=timeout)
        named = {name: str(given.pop(name, "")).strip() for name in ("protocol", "model", "extras")}
        spec, extras = _service_spec(url.strip(), **named)
        options = common_options(**given) | {"extras": extras, "mixed": mixed or None}
        with require_library("httpx"), host.host_interrupts():
            generator = open_generator(spec, deadline=timeout, interrupted=host.interrupted, **options)
        return io.NodeOutput(color_matched(generator, color_match))


def _service_spec(urls: str, protocol: str, model: str, extras: str) -> tuple[str, str | None]:
    """Return the specification of the generator, and its extras.

    Raises:
        SettingsError: A model is given for a protocol without one or missing for one that needs it.
    """
    if protocol in ("", EDIT_SERVICE):
        if model or extras:
            raise SettingsError(
                "'model' and 'extras' are only for the OpenAI Images API.",
                f"Set protocol to {IMAGES_API!r}, or clear both.",
            )
        return f"http:{check_services(urls)}", None
    if protocol not in (IMAGES_API, GEMINI_API):
        raise SettingsError(
            f"Unknown protocol {protocol[:100]!r}.",
            f"Choose one of: {EDIT_SERVICE}, {IMAGES_API}, {GEMINI_API}.",
        )
    if not model or "@" in model or any(character.isspace() for character in model):
        raise SettingsError(
            f"{model[:100]!r} is not a valid model name for the {protocol}.",
            "Enter the model's name as the server lists it.",
        )
    if protocol == IMAGES_API:
        return f"images:{model}@{check_services(urls)}", extras or None
    if extras:
        raise SettingsError("'extras' is only for the OpenAI Images API.", "Clear it.")
    if urls == LOCAL_URL:
        raise SettingsError(
            f"The URL {LOCAL_URL} is the default of an edit service, not a server of the Gemini API.",
            "Clear the URL to use the provider's address, or enter the address of a proxy.",
        )
    from ...backend.models.generators.gemini_api import PROVIDER

    # GEMINI_API_KEY is guarded by its own list of hosts (api_keys.key_for).
    allowed = check_services(urls or PROVIDER, gets_key=False)
    return f"gemini:{model}@{allowed}" if urls else f"gemini:{model}", None


def _protocol_inputs() -> list[io.Input]:
    return [
        io.Combo.Input(
            "protocol", options=[EDIT_SERVICE, IMAGES_API, GEMINI_API], default=EDIT_SERVICE, optional=True
        ),
        io.String.Input("model", default="", optional=True),
        io.String.Input("extras", default="", optional=True),
        io.Boolean.Input("mixed", default=False, optional=True),
    ]


class TinyWorldNode(io.ComfyNode):
    """Generates toy images of 96 pixels with the built-in model."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleaveTinyWorldGenerator",
            outputs=[GeneratorSocket.Output("GENERATOR")],
        )

    @classmethod
    def execute(cls) -> io.NodeOutput:
        """Open the built-in model."""
        from ...backend.models.generators import open_generator

        with require_library("diffusers"):
            return io.NodeOutput(open_generator("tinyworld"))


NONE_INSTALLED = "none installed"


class PluginGenerator(io.ComfyNode):
    """Generates and edits the steps with a generator that another Python package brings."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleavePluginGenerator",
            inputs=[
                io.Combo.Input("plugin", options=GENERATORS.plugins or [NONE_INSTALLED]),
                io.String.Input("argument", default=""),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR")],
        )

    @classmethod
    def execute(cls, plugin: str, argument: str) -> io.NodeOutput:
        """Open the plug-in's generator."""
        installed = GENERATORS.plugins
        if plugin not in installed:
            raise SettingsError(
                f"The plug-in generator {plugin[:100]!r} is not installed.",
                f"Install its package and restart ComfyUI. Installed: {', '.join(installed) or 'none'}.",
            )
        return io.NodeOutput(open_generator(f"{plugin}:{argument.strip()}"))
