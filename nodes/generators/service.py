"""Node for image services over HTTP."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.generators.color_match import OFF, color_matched
from ...backend.remote.api_keys import GENERATOR_URL, check_services
from .. import host
from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, GeneratorSocket
from ..inputs.validation import in_range
from .color_match_input import color_match_input
from .common_inputs import TO_LOOP, common_inputs, common_options

EDIT_SERVICE, IMAGES_API = "edit service", "OpenAI Images API"


class ServiceGenerator(io.ComfyNode):
    """An image service on this or another machine draws and edits the steps."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveServiceGenerator",
            display_name="Service Generator",
            category=CATEGORY,
            description=(
                "Has each step drawn by an image service over HTTP. Prompts and images are sent to it."
            ),
            search_aliases=["http", "api", "remote", "server", "image service", "openai", "generator"],
            inputs=[
                io.String.Input(
                    "url",
                    default="http://127.0.0.1:8011",
                    tooltip="Address of the service, or several with commas between them: services of one "
                    "model share the draws. A key comes from the environment variable "
                    f"INTERLEAVE_GENERATOR_KEY; name services on other machines in {GENERATOR_URL} too.",
                ),
                *common_inputs("the service's own"),
                io.Float.Input(
                    "timeout",
                    default=300.0,
                    min=1.0,
                    max=86400.0,
                    step=1.0,
                    optional=True,
                    advanced=True,
                    tooltip="Seconds to wait for an image.",
                ),
                color_match_input(),
                *_protocol_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
        )

    @classmethod
    def execute(
        cls, url: str, timeout: float = 300.0, color_match: str = OFF, mixed: bool = False, **given: Any
    ) -> io.NodeOutput:
        from ...backend.generators import open_generator

        in_range("Service Generator", 1, 86400, timeout=timeout)
        named = {name: str(given.pop(name, "")).strip() for name in ("protocol", "model", "extras")}
        spec, extras = _service_spec(check_services(url), **named)
        options = common_options(**given) | {"extras": extras, "mixed": mixed or None}
        with require_library("httpx"), host.host_interrupts():
            generator = open_generator(spec, deadline=timeout, interrupted=host.interrupted, **options)
        return io.NodeOutput(color_matched(generator, color_match))


def _service_spec(urls: str, protocol: str, model: str, extras: str) -> tuple[str, str | None]:
    """The generator behind these services, and the extras that it is told; raises SettingsError for a model
    where the protocol has none, and for none where it has one."""
    if protocol in ("", EDIT_SERVICE):
        if model or extras:
            raise SettingsError(
                "A model's name and extras are for the Images API.",
                f"Set protocol to {IMAGES_API}, or leave model and extras empty.",
            )
        return f"http:{urls}", None
    if protocol != IMAGES_API:
        raise SettingsError(
            f"There is no protocol {protocol[:100]!r}.", f"Known: {EDIT_SERVICE}, {IMAGES_API}."
        )
    if not model or "@" in model or any(character.isspace() for character in model):
        raise SettingsError(
            f"{model[:100]!r} is not the name of a model at a server of the Images API.",
            "Write it into model, as GET /v1/models of the server names it.",
        )
    return f"images:{model}@{urls}", extras or None


def _protocol_inputs() -> list[io.Input]:
    return [
        io.Combo.Input(
            "protocol",
            options=[EDIT_SERVICE, IMAGES_API],
            default=EDIT_SERVICE,
            optional=True,
            tooltip="What the services speak: POST /edit, as interleave-thinker serve and the published "
            "generator services, or the OpenAI Images API, as open servers and hosted models.",
        ),
        io.String.Input(
            "model",
            default="",
            optional=True,
            tooltip="Images API only: the model's name at the server.",
        ),
        io.String.Input(
            "extras",
            default="",
            optional=True,
            advanced=True,
            tooltip="Images API only: what the server takes beside prompt, size and images, such as "
            "seed,steps, or none; empty: what it says itself. Without seed nothing can be repeated.",
        ),
        io.Boolean.Input(
            "mixed",
            default=False,
            optional=True,
            advanced=True,
            tooltip="Let services of different models share the draws.",
        ),
    ]
