"""Ways to do the work: exact and ablation (same answers), engine (other numerics), policy (other work).

No way is in two tables, so that a ratio of one table is not mistaken for one of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from interleave_thinker.backend.agents.asking import ConstrainedDecoding
from interleave_thinker.backend.chat.engine.settings import PLAIN, EngineSettings

from .work import Form

Table = Literal["exact", "engine", "policy"]


@dataclass(frozen=True)
class Way:
    """One way to do the work. `reference`: the way with whose greedy tokens its own are compared."""

    name: str
    engine: EngineSettings
    judge_last: bool = True
    hold: ConstrainedDecoding = "never"
    quantization: str | None = None
    adapter: Literal["laid over", "merged"] | None = None
    form: Form = "reasoned"
    reference: str = ""


_LINEAR = PLAIN.model_copy(update={"linear_patches": True})
_ENGINE = _LINEAR.model_copy(update={"enabled": True})
_INLINE = _ENGINE.model_copy(update={"inline_layers": True})
_SEEN = _INLINE.model_copy(update={"vision_bytes": EngineSettings().vision_bytes})
WAYS = (
    Way("images in memory", PLAIN),
    Way("+ patches by matrix product", _LINEAR),
    Way("+ keys and values in place", _ENGINE),
    Way("+ inline layers", _INLINE),
    Way("+ every image seen once", _SEEN),
    Way("+ prompt lookup", EngineSettings(prefix_tokens=0)),
    Way("+ common beginnings read once (the default)", EngineSettings()),
    Way("+ last attempt not judged", EngineSettings(), judge_last=False),
)
"""Cumulative, in this order."""
WITHOUT = (
    Way("default without patches by matrix product", EngineSettings(linear_patches=False)),
    Way("default without inline layers", EngineSettings(inline_layers=False)),
    Way("default without every image seen once", EngineSettings(vision_bytes=0)),
    Way("default without prompt lookup", EngineSettings(prompt_lookup_tokens=0)),
    Way("default without common beginnings", EngineSettings(prefix_tokens=0)),
)
"""The default without each saving, for the ablation."""
DEFAULT, ALL = WAYS[-2], WAYS[-1]

AS_SHIPPED = Way("default settings", EngineSettings())
LAID_OVER = Way("adapter laid over the base", EngineSettings(), adapter="laid over")


def engine_ways() -> list[Way]:
    """Return the ways that this machine has libraries for. GPUs and servers have separate benchmarks."""
    ways = [AS_SHIPPED]
    if find_spec("llguidance"):
        # No agreement is computed: without the grammar, a random model writes nothing in its format. A
        # constrained reply can stop at true.
        ways.append(Way("held to the grammar", EngineSettings(), hold="always"))
    if find_spec("bitsandbytes") and find_spec("accelerate"):
        ways += [
            Way(f"{bits}-bit weights", EngineSettings(), quantization=f"{bits}bit", reference=AS_SHIPPED.name)
            for bits in (8, 4)
        ]
    if find_spec("peft"):
        ways += [
            LAID_OVER,
            Way("adapter merged", EngineSettings(), adapter="merged", reference=LAID_OVER.name),
        ]
    return ways


POLICY_WAYS = (
    AS_SHIPPED,
    Way("short reasoning", EngineSettings(), form="short"),
    Way("verdict first", EngineSettings(), form="verdict first"),
    Way("verdict first, last attempt not judged", EngineSettings(), form="verdict first", judge_last=False),
)
"""For critics trained to answer this way. Decisions are equal here because they are scripted."""
