"""Options of llama.cpp's server.

Only what a user has a reason to change is an option. The server's sampling defaults, which a model file may
change, are set to neutral values, so that requests without sampling settings are not restricted.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from ...types import Value

CONTEXT = 16384
MIN_CONTEXT = 2048
MAX_CONTEXT = 1_048_576
SETTLED_SAMPLING = ("--temp", "0", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--repeat-penalty", "1")
SLOTS = ("planner", "critic", "")
"""Role of each slot. A slot keeps the last prompt of its role, so that only a new end is read."""
SHARED_SLOTS = ("--parallel", str(len(SLOTS)), "--kv-unified", "--no-cache-idle-slots")
"""Slots that share one context: each reply may use all of it, and it is allocated once.

A slot that is not answering is cleared when its room is needed. Versions without the last option divide the
context among the slots, or copy the other slots to RAM at every reply.
"""
OFF_THE_CARD = ("--device", "none", "--no-mmproj-offload")


class LlamaCppSettings(Value):
    """How llama.cpp's server is found and started."""

    mmproj: str | None = Field(
        default=None, description="Projector (mmproj) of a GGUF agent. Default: the one next to the model."
    )
    context: int = Field(
        default=CONTEXT,
        ge=MIN_CONTEXT,
        le=MAX_CONTEXT,
        description="Context length of a GGUF agent in tokens, for prompt and answer together. Its memory is "
        "reserved at the start.",
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="CPU threads of a GGUF agent. Default: chosen by llama.cpp."
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of a GGUF agent on the GPU; 0 runs it on the CPU. Default: as many as fit into "
        "VRAM.",
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama.cpp's llama-server. Default: the variable LLAMA_SERVER, then the PATH.",
    )
    start_seconds: float = Field(
        default=600.0, gt=0.0, le=86400.0, description="Time limit for loading the model, in seconds."
    )

    def arguments(self, model: Path, projector: Path | None, slots: bool = False) -> list[str]:
        """Return the server's command-line arguments for these files, without its address.

        Args:
            model: Model file.
            projector: Projector file, if there is one.
            slots: Whether the server supports `SHARED_SLOTS`.
        """
        arguments = ["-m", str(model), "-c", str(self.context)]
        arguments += ["--mmproj", str(projector)] if projector is not None else []
        arguments += SHARED_SLOTS if slots else ("--parallel", "1")
        arguments += ["--no-webui", "--jinja", *SETTLED_SAMPLING]
        if self.threads is not None:
            arguments += ["-t", str(self.threads)]
        if self.gpu_layers is not None:
            arguments += ["-ngl", str(self.gpu_layers)]
        if self.gpu_layers == 0:
            arguments += OFF_THE_CARD
        return arguments
