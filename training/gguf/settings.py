"""Settings of `train merge --to gguf`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from .programs import CONVERTER, QUANTIZER


class GgufSettings(BaseModel):
    """Programs, quantization and comparison of a conversion to GGUF."""

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
    compare_rows: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="Questions that the safetensors and each GGUF model answer, to compare them; 0 skips the "
        "comparison, which needs llama-server.",
    )
    compare_data: str | None = Field(
        default=None,
        description="critic_sft.json or planner_sft.json with these questions. Default: generated images of "
        "shapes and texts, for a critic.",
    )
    compare_tokens: int = Field(
        default=1024, ge=16, le=16_384, description="Maximum length of an answer, in tokens."
    )
    llama_server: str | None = Field(
        default=None,
        description="Path of llama-server for the comparison. Default: the variable LLAMA_SERVER, then the "
        "PATH.",
    )
    gpu_layers: int | None = Field(
        default=None,
        ge=0,
        le=9999,
        description="Layers of the GGUF model on the GPU during the comparison; 0 runs it on the CPU. "
        "Default: as many as fit into VRAM.",
    )
