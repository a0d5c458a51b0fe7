"""Ways of doing the work, each in one of three tables: exact (same answers), engine (other numerics), policy
(other work).

Decision: the tables are lists of their own and no way stands in two, so that a ratio of one is never read as
one of another.
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
    """One way of doing the work. `beside`: the way whose greedy tokens its own are compared with."""

    name: str
    engine: EngineSettings
    judge_last: bool = True
    hold: ConstrainedDecoding = "never"
    quantization: str | None = None
    adapter: Literal["laid over", "merged"] | None = None
    form: Form = "reasoned"
    beside: str = ""


_LINEAR = PLAIN.model_copy(update={"linear_patches": True})
_ENGINE = _LINEAR.model_copy(update={"enabled": True})
_INLINE = _ENGINE.model_copy(update={"inline_layers": True})
_SEEN = _INLINE.model_copy(update={"vision_bytes": EngineSettings().vision_bytes})
WAYS = (
    Way("pictures in memory", PLAIN),
    Way("+ patches by matrix product", _LINEAR),
    Way("+ keys and values in place", _ENGINE),
    Way("+ inline layers", _INLINE),
    Way("+ every image seen once", _SEEN),
    Way("+ prompt lookup", EngineSettings(prefix_tokens=0)),
    Way("+ common beginnings read once (the default)", EngineSettings()),
    Way("+ last try not judged", EngineSettings(), judge_last=False),
)
"""Cumulative, in this order."""
WITHOUT = (
    Way("default without patches by matrix product", EngineSettings(linear_patches=False)),
    Way("default without inline layers", EngineSettings(inline_layers=False)),
    Way("default without every image seen once", EngineSettings(vision_bytes=0)),
    Way("default without prompt lookup", EngineSettings(prompt_lookup_tokens=0)),
    Way("default without common beginnings", EngineSettings(prefix_tokens=0)),
)
"""What each earns on top of the rest."""
DEFAULT, ALL = WAYS[-2], WAYS[-1]

AS_IT_COMES = Way("as it comes", EngineSettings())
LAID_OVER = Way("adapter laid over the base", EngineSettings(), adapter="laid over")


def engine_ways() -> list[Way]:
    """Each beside the default, for as far as this machine has the libraries; cards and servers have
    benchmarks of their own."""
    ways = [AS_IT_COMES]
    if find_spec("llguidance"):
        # No agreement here: without the grammar a random model says nothing in its form.
        # A reply that is held to it may stop at True.
        ways.append(Way("held to the grammar", EngineSettings(), hold="always"))
    if find_spec("bitsandbytes") and find_spec("accelerate"):
        ways += [
            Way(f"{bits}-bit weights", EngineSettings(), quantization=f"{bits}bit", beside=AS_IT_COMES.name)
            for bits in (8, 4)
        ]
    if find_spec("peft"):
        ways += [LAID_OVER, Way("adapter merged", EngineSettings(), adapter="merged", beside=LAID_OVER.name)]
    return ways


POLICY_WAYS = (
    AS_IT_COMES,
    Way("short reasoning", EngineSettings(), form="short"),
    Way("verdict first", EngineSettings(), form="verdict first"),
    Way("verdict first, last try not judged", EngineSettings(), form="verdict first", judge_last=False),
)
"""For critics trained to answer so: the decisions are the same here because they are scripted, not because
critics are."""
