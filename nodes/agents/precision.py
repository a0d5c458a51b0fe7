"""The number formats in which an agent's weights can be held, as an artist chooses them.

Decision: what cannot work here is not offered, and a workflow that asks for it all the same gets an error
that names what it takes. The built-in agents weigh a few megabytes: they take any plain format, and have
nothing to gain from being quantised.
"""

from __future__ import annotations

from importlib.util import find_spec

from ...backend.errors import SettingsError
from ..inputs.requirements import check_library
from .folders import NO_ADAPTER

AUTO = "auto"
PLAIN = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
QUANTIZED = {"8-bit": "8bit", "4-bit": "4bit"}
SHARE_LEFT = {"8bit": 0.65, "4bit": 0.45}
"""Share of 16-bit weights that is left, with the parts that are not quantised and a layer in the making."""


def precisions() -> list[str]:
    """The formats that this installation can offer."""
    quantized = QUANTIZED if all(find_spec(name) for name in ("bitsandbytes", "accelerate")) else ()
    return [AUTO, *PLAIN, *quantized]


def check_precision(name: str, built_in: bool) -> None:
    """Raise SettingsError, with what to do, for a format that is unknown, not offered here, or not for this
    agent."""
    if name not in (AUTO, *PLAIN, *QUANTIZED):
        raise SettingsError(
            f"There is no precision {name[:40]!r}.", f"Choose one of {', '.join(precisions())}."
        )
    if name in QUANTIZED:
        if built_in:
            raise SettingsError(f"The built-in agents are too small for {name}.", "Set precision to auto.")
        check_library("bitsandbytes")
        check_library("accelerate")


def check_gguf(precision: str, adapter: str) -> None:
    """Raise SettingsError for what an agent in GGUF cannot be given: its numbers are what its file holds."""
    if precision != AUTO:
        raise SettingsError(
            f"A .gguf file has its own number format, not {precision[:40]}.", "Set precision to auto."
        )
    if adapter != NO_ADAPTER:
        raise SettingsError(
            "An adapter cannot be laid over a .gguf file.",
            "Set adapter to none, or merge it into its base (interleave-thinker train merge --to gguf).",
        )


def options_of(name: str) -> dict[str, str | None]:
    """The format as options of `open_chat`: dtype and quantization, None for what is left to the
    checkpoint."""
    return {"dtype": PLAIN.get(name), "quantization": QUANTIZED.get(name)}
