"""Node that puts back the pixels of an image that an edit did not need to change."""

from __future__ import annotations

from typing import Any

import torch
from comfy_api.latest import io

from ...backend.core.errors import SettingsError
from ...backend.models.put_back.pictures import put_back
from .. import host
from ..inputs.images import to_batch, to_pictures
from ..inputs.sockets import node_schema


class PutBackNode(io.ComfyNode):
    """Puts the pixels of one image back into its edit."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Declare the node."""
        return node_schema(
            "InterleavePutBack",
            inputs=[io.Image.Input("before"), io.Image.Input("after")],
            outputs=[io.Image.Output("image"), io.String.Output("report")],
        )

    @classmethod
    def execute(cls, before: Any, after: Any) -> io.NodeOutput:
        """Put back."""
        earlier, later = to_pictures(before), to_pictures(after)
        if len(earlier) not in (1, len(later)):
            raise SettingsError(
                f"Put Back: {len(earlier)} images before and {len(later)} images after.",
                "Connect one image before, or as many as after.",
            )
        pairs = zip(earlier * len(later) if len(earlier) == 1 else earlier, later, strict=True)
        results, lines = [], []
        for first, second in pairs:
            with host.host_interrupts():
                found = put_back(first, second)
            results.append(to_batch(found.image.image))
            lines.append(
                f"Nothing was put back: {found.refused}."
                if found.refused
                else f"The edit changed {100 * found.changed:.1f} % of the image."
            )
        host.NodeProgress().say("\n".join(dict.fromkeys(lines)))
        return io.NodeOutput(torch.cat(results), "\n".join(lines))
