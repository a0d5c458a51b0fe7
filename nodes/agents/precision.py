"""Precisions of an agent's weights, and the options of .gguf agents.

Precisions that cannot work on this machine are not offered; a workflow that uses one gets an error with the
required libraries. The built-in agents have a few megabytes and gain nothing from quantization.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...backend.errors import SettingsError
from ..inputs.requirements import check_library
from .folders import BUILT_IN, NO_ADAPTER, adapter_folder, is_gguf

AUTO = "auto"
AS_MANY_AS_FIT = -1
"""Value of `gpu_layers`."""
PLAIN = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
QUANTIZED = {"8-bit": "8bit", "4-bit": "4bit"}
SHARE_LEFT = {"8bit": 0.65, "4bit": 0.45}
"""Peak memory while loading quantized weights, as a share of the 16-bit weights."""


def precisions() -> list[str]:
    """Return the precisions that this installation supports."""
    quantized = QUANTIZED if all(find_spec(name) for name in ("bitsandbytes", "accelerate")) else ()
    return [AUTO, *PLAIN, *quantized]


def check_precision(name: str, built_in: bool) -> None:
    """Check that an agent supports a precision here.

    Raises:
        SettingsError: The precision is unknown, needs missing libraries, or is not for this agent.
    """
    if name not in (AUTO, *PLAIN, *QUANTIZED):
        raise SettingsError(f"Unknown precision {name[:40]!r}.", f"Choose one of: {', '.join(precisions())}.")
    if name in QUANTIZED:
        if built_in:
            raise SettingsError(f"The built-in agents do not support {name}.", "Set precision to auto.")
        check_library("bitsandbytes")
        check_library("accelerate")


def check_gguf(precision: str, adapter: str) -> None:
    """Check the options of a GGUF agent.

    Raises:
        SettingsError: A precision or an adapter is set.
    """
    if precision != AUTO:
        raise SettingsError(
            f"A .gguf file has its own precision; {precision[:40]!r} cannot be used.",
            "Set precision to auto.",
        )
    if adapter != NO_ADAPTER:
        raise SettingsError(
            "A .gguf agent cannot use an adapter.",
            "Set adapter to none, or merge it into its base model (interleave-thinker train merge --to "
            "gguf).",
        )


def options_of(name: str) -> dict[str, str | None]:
    """Return the precision as options of `open_chat`; `None` leaves an option to the checkpoint."""
    return {"dtype": PLAIN.get(name), "quantization": QUANTIZED.get(name)}


def check_agent(name: str, precision: str, adapter: str, roots: list[Path]) -> None:
    """Check that this agent supports a precision and an adapter.

    Raises:
        SettingsError: It does not.
    """
    if is_gguf(name):
        check_gguf(precision, adapter)
        return
    check_precision(precision, name in BUILT_IN)
    adapter_folder(adapter, roots)


def gguf_options(context: Any, gpu_layers: Any) -> dict[str, int | None]:
    """Return the two inputs of .gguf agents as options of `open_chat`.

    Raises:
        SettingsError: A value is not an integer.
    """
    for name, value in (("context", context), ("gpu_layers", gpu_layers)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingsError(
                f"Load Agent, input {name!r}: {value!r:.60} is not an integer.",
                "Check what is connected to it.",
            )
    return {"context": context, "gpu_layers": None if gpu_layers < 0 else gpu_layers}
