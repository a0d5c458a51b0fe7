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

    def arguments(self, model: Path, projector: Path | None) -> list[str]:
        """Return the server's command-line arguments for these files, without its address."""
        arguments = ["-m", str(model), "-c", str(self.context)]
        arguments += ["--mmproj", str(projector)] if projector is not None else []
        arguments += ["--parallel", "1", "--no-webui", "--jinja", *SETTLED_SAMPLING]
        if self.threads is not None:
            arguments += ["-t", str(self.threads)]
        if self.gpu_layers is not None:
            arguments += ["-ngl", str(self.gpu_layers)]
        if self.gpu_layers == 0:
            arguments += OFF_THE_CARD
        return arguments
