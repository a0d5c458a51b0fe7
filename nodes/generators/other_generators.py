"""Nodes for generators that need no MODEL of the host: diffusers pipelines, image services, the tiny
world."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ...backend.generators.color_match import OFF, color_matched
from ...backend.remote.api_keys import GENERATOR_URL, check_services
from .. import host
from ..inputs.requirements import require_library
from ..inputs.sockets import CATEGORY, GeneratorSocket
from ..inputs.validation import in_range
from .color_match_input import color_match_input
from .managed_pipeline import ManagedPipeline
from .pipeline_changes import LORA_DEFAULTS, changes_inputs, changes_options
from .pipeline_names import pipeline_spec

OWN = -1.0
OWN_DEFAULTS: dict[str, Any] = {"strength": 0.6, "edit": "auto", "dtype": "auto"}
DTYPES = ["auto", "bfloat16", "float16", "float32"]
EDIT_SERVICE, IMAGES_API = "edit service", "OpenAI Images API"
TO_LOOP = "Connect it to a Critic Loop."


class TinyWorldGenerator(io.ComfyNode):
    """The built-in image model: pages of a miniature picture book, on any machine in a moment."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveTinyWorldGenerator",
            display_name="Tiny World Generator",
            category=CATEGORY,
            description="The built-in image model of the tiny world. Needs no download and no graphics card.",
            search_aliases=["tiny world", "demo", "built-in generator"],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
        )

    @classmethod
    def execute(cls) -> io.NodeOutput:
        from ...backend.generators import open_generator

        with require_library("diffusers"):
            return io.NodeOutput(open_generator("tinyworld"))


class DiffusersGenerator(io.ComfyNode):
    """A diffusers pipeline draws and edits the steps, moved on and off the card by ComfyUI."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="InterleaveDiffusersGenerator",
            display_name="Diffusers Generator",
            category=CATEGORY,
            description=(
                "Draws each step with a diffusers pipeline, for models that ComfyUI itself cannot load."
            ),
            search_aliases=["diffusers", "pipeline", "hugging face", "generator"],
            inputs=[
                io.String.Input(
                    "pipeline",
                    default="",
                    tooltip="A folder in models/diffusers (with its model_index.json), or a Hugging Face id.",
                ),
                io.Boolean.Input(
                    "download",
                    default=False,
                    tooltip=(
                        "Fetch a Hugging Face id that is not on this machine yet. Off: nothing is ever "
                        "downloaded."
                    ),
                ),
                *_common_inputs("the pipeline's own"),
                io.Float.Input(
                    "strength",
                    default=0.6,
                    min=0.01,
                    max=1.0,
                    step=0.01,
                    optional=True,
                    advanced=True,
                    tooltip="Image to image only: share of the source that is redrawn.",
                ),
                io.Combo.Input(
                    "edit",
                    options=["auto", "reference", "img2img"],
                    default="auto",
                    optional=True,
                    advanced=True,
                    tooltip="How the pipeline edits; auto knows it from the pipeline's class.",
                ),
                io.Combo.Input(
                    "dtype",
                    options=DTYPES,
                    default="auto",
                    optional=True,
                    advanced=True,
                    tooltip="Number format of the weights; auto takes 16 bits on a card and 32 without one.",
                ),
                color_match_input(),
                *changes_inputs(),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip=TO_LOOP)],
        )

    @classmethod
    def execute(
        cls, pipeline: str, download: bool, color_match: str = OFF, mask: Any = None, **given: Any
    ) -> io.NodeOutput:
        changes = {name: given.pop(name) for name in LORA_DEFAULTS if name in given}
        own = {name: given.pop(name) for name in OWN_DEFAULTS if name in given}
        options = {**OWN_DEFAULTS, **own, "download": download, **changes_options(mask, **changes)}
        in_range("Diffusers Generator", 0.01, 1, strength=options["strength"])
        generator = open_pipeline(pipeline, _options(**given) | options)
        return io.NodeOutput(color_matched(ManagedPipeline(generator), color_match))


def open_pipeline(name: str, options: dict[str, Any]) -> Any:
    """The diffusers generator of a pipeline in the host's folders, in host memory: the host brings it onto
    the card when it draws."""
    from ...backend.generators import open_generator

    spec = pipeline_spec(name, host.pipeline_roots())
    if options["dtype"] == "auto":
        options = options | {"dtype": host.pipeline_dtype()}
    with require_library("diffusers"):
        return open_generator(spec, device="cpu", **options)


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
                *_common_inputs("the service's own"),
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
        options = _options(**given) | {"extras": extras, "mixed": mixed or None}
        with require_library("httpx"), host.host_interrupts():
            generator = open_generator(spec, deadline=timeout, interrupted=host.interrupted, **options)
        return io.NodeOutput(color_matched(generator, color_match))


def _service_spec(urls: str, protocol: str, model: str, extras: str) -> tuple[str, str | None]:
    """The generator behind these services, and the extras that it is told; raises SettingsError for a model
    where the protocol has none, and for none where it has one."""
    from ...backend.errors import SettingsError

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


def _common_inputs(whose: str) -> list[io.Input]:
    return [
        io.Int.Input(
            "width",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip=f"Width in pixels; 0 is {whose}, or the source's.",
        ),
        io.Int.Input(
            "height",
            default=0,
            min=0,
            max=8192,
            step=16,
            tooltip=f"Height in pixels; 0 is {whose}, or the source's.",
        ),
        io.Int.Input("steps", default=0, min=0, max=1000, tooltip=f"Sampling steps; 0 is {whose}."),
        io.Float.Input(
            "guidance",
            default=OWN,
            min=OWN,
            max=100.0,
            step=0.1,
            round=0.01,
            tooltip=f"Guidance scale; -1 is {whose}.",
        ),
        io.String.Input(
            "negative",
            default="",
            optional=True,
            advanced=True,
            tooltip="What must not appear; empty: nothing.",
        ),
    ]


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


def _options(width: int, height: int, steps: int, guidance: float, negative: str = "") -> dict[str, Any]:
    """The common inputs as options of the generators; None leaves an option to them."""
    from ...backend.errors import SettingsError

    in_range("The generator", 0, 8192, width=width, height=height)
    in_range("The generator", 0, 1000, steps=steps)
    in_range("The generator", OWN, 100, guidance=guidance)
    if bool(width) != bool(height):
        raise SettingsError("Only one of width and height is set.", "Set both, or leave both at 0.")
    return {
        "size": f"{width}x{height}" if width else None,
        "steps": steps or None,
        "guidance": None if guidance < 0 else guidance,
        "negative": negative or None,
    }
