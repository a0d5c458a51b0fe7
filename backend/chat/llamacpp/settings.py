"""How llama.cpp's server is found and started, as options that a person sets.

Decision: only what a person has a reason to choose is an option. Its defaults of sampling, which a file may
change too, are set to those that a request without settings means, so that nothing narrows what is drawn.
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
        default=None, description="Projector of an agent in GGUF; by default the one beside the model."
    )
    context: int = Field(
        default=CONTEXT,
        ge=MIN_CONTEXT,
        le=MAX_CONTEXT,
        description="Tokens of question and answer together that an agent in GGUF can hold; it takes the "
        "memory for all of them.",
    )
    threads: int | None = Field(
        default=None, ge=1, le=1024, description="Threads of an agent in GGUF; by default llama.cpp's choice."
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of an agent in GGUF on the graphics card: 0 keeps all of it on the processor; by "
        "default as many as fit.",
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama.cpp's llama-server; by default LLAMA_SERVER, then the PATH.",
    )
    start_seconds: float = Field(
        default=600.0, gt=0.0, le=86400.0, description="Longest wait until llama.cpp has read the model."
    )

    def arguments(self, model: Path, projector: Path | None) -> list[str]:
        """The server's command line for these files, without its address."""
        said = ["-m", str(model), "-c", str(self.context)]
        said += ["--mmproj", str(projector)] if projector is not None else []
        said += ["--parallel", "1", "--no-webui", "--jinja", *SETTLED_SAMPLING]
        if self.threads is not None:
            said += ["-t", str(self.threads)]
        if self.gpu_layers is not None:
            said += ["-ngl", str(self.gpu_layers)]
        if self.gpu_layers == 0:
            said += OFF_THE_CARD
        return said
