"""Settings of `train merge --to gguf`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .programs import CONVERTER, QUANTIZER


class GgufSettings(BaseModel):
    """Programs, quantization and check of a conversion to GGUF."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    converter: str | None = Field(
        default=None,
        description=f"Path of llama.cpp's {CONVERTER}. Default: the one on the PATH, otherwise that of an "
        "installed Python package.",
    )
    converter_python: str | None = Field(
        default=None,
        description="Python that runs the converter and has the packages that it imports. Default: the "
        "Python of this program.",
    )
    quantize: Literal["q8_0", "q6_k", "q5_k_m", "q4_k_m"] | None = Field(
        default=None, description="Also write a quantized model. Default: only f16."
    )
    quantizer: str | None = Field(
        default=None,
        description=f"Path of {QUANTIZER}, for --quantize. Default: the one on the PATH, otherwise that of "
        "an installed Python package.",
    )
    check: bool = Field(
        default=True,
        description="Ask the safetensors and each GGUF model the same questions, and warn if an answer "
        "differs. Needs llama-server.",
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama-server for the check. Default: the variable LLAMA_SERVER, then the PATH.",
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of the GGUF model on the GPU during the check; 0 runs it on the CPU. "
        "Default: as many as fit into VRAM.",
    )
