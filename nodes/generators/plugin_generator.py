"""The node for generators of installed plug-ins (docs/how-to/runs/plugins.md)."""

from __future__ import annotations

from comfy_api.latest import io

from ...backend.errors import SettingsError
from ...backend.generators import GENERATORS
from ..inputs.sockets import CATEGORY, GeneratorSocket

NONE_INSTALLED = "none installed"


class PluginGenerator(io.ComfyNode):
    """Generates and edits the steps with a generator that another Python package brings."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return io.Schema(
            node_id="InterleavePluginGenerator",
            display_name="Plug-in Generator",
            category=CATEGORY,
            description="Generates each step with a generator of an installed plug-in package.",
            search_aliases=["plugin", "extension", "third party", "custom generator"],
            inputs=[
                io.Combo.Input(
                    "plugin",
                    options=GENERATORS.plugins or [NONE_INSTALLED],
                    tooltip="Generator of a plug-in package that is installed in ComfyUI's Python.",
                ),
                io.String.Input(
                    "argument",
                    default="",
                    tooltip="Model, folder or address, as the plug-in's documentation says. Empty uses the "
                    "plug-in's default.",
                ),
            ],
            outputs=[GeneratorSocket.Output("GENERATOR", tooltip="Connect it to a Critic Loop.")],
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
        return io.NodeOutput(GENERATORS.open(f"{plugin}:{argument.strip()}"))
