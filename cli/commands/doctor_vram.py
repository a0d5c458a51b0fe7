"""The plan of memory as a person reads it: one table over all cards, then for each card what to choose.

Decision: a cell is a letter for how things fit and the peak in GB, so that the whole choice is seen at once
on a narrow terminal; what the letters mean is said once below.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...backend.vram.footprint import GB
from ...backend.vram.placement import COMBINATIONS, WHAT_MOVES, CardPlan, Fit, MemoryPlan

COMFYUI_DECODE = 2178 * 2
"""Bytes a pixel that ComfyUI wants free before a VAE decodes in 16 bits (comfy/sd.py,
VAE.memory_used_decode)."""
CELL = 11
LETTERS: dict[str, str] = dict(zip(WHAT_MOVES, "ABCD", strict=True))


def lines(plan: MemoryPlan) -> Iterator[str]:
    """The report, line by line."""
    width, height = plan.size
    yield (
        f"Image model {plan.generator}, planner {plan.planner}, critic {plan.critic}, "
        f"images of {width}x{height}"
    )
    yield (
        "Reckoned, not measured, in GB of 10⁹ bytes. "
        f"A peak has {plan.reserve / GB:.1f} GB in reserve and a tenth more than what works, "
        "for gaps between blocks."
    )
    yield ""
    yield f"{'GB in bf16':20}" + "".join(f"{part.name:>{CELL}}" for part in plan.parts["bf16 + bf16"])
    for label, values in (
        ("weights", [part.weights for part in plan.parts["bf16 + bf16"]]),
        ("beside them at work", [part.work for part in plan.parts["bf16 + bf16"]]),
    ):
        yield f"{label:20}" + "".join(f"{value / GB:{CELL}.1f}" for value in values)
    yield ""
    yield f"{'agents + image':20}" + "".join(f"{f'{one.card} GB':>{CELL}}" for one in plan.cards)
    for row, pair in enumerate(COMBINATIONS):
        yield f"{' + '.join(pair):20}" + "".join(f"{_cell(one.fits[row]):>{CELL}}" for one in plan.cards)
    for name, meaning in WHAT_MOVES.items():
        yield f"  {LETTERS[name]} {name}: {meaning}"
    yield ""
    for card in plan.cards:
        yield from _advice(card)
    yield ""
    yield "ComfyUI arranges this by itself; the command line keeps everything on the card (together)."
    yield (
        f"ComfyUI wants {COMFYUI_DECODE * width * height / GB:.1f} GB free "
        "before it decodes an image of this size, and moves models away for that long where there is less."
    )


def _cell(fit: Fit) -> str:
    return f"{LETTERS[fit.arrangement] if fit.arrangement else 'no'} {fit.peak / GB:5.1f}"


def _advice(card: CardPlan) -> Iterator[str]:
    label = f"{card.card:>3} GB ({card.usable / GB:.1f} usable): "
    if card.finest is None:
        short = card.fits[-1]
        yield (
            f"{label}does not fit; "
            f"{short.short / GB:.1f} GB are missing even at {short.agents} and {short.image}."
        )
        yield f"       To lower: {'; '.join(card.lower)}."
        return
    if card.steady is not None:
        yield f"{label}nothing moves in the loop with {_told(card.steady)}"
        label = " " * 7
    if card.finest != card.steady:
        yield f"{label}finest {_told(card.finest)}{_cost(card.finest)}"


def _told(fit: Fit) -> str:
    return f"agents {fit.agents}, image model {fit.image}: {fit.arrangement}, peak {fit.peak / GB:.1f} GB"


def _cost(fit: Fit) -> str:
    if not fit.moved:
        return ""
    again = "" if fit.agents == "bf16" else " (quantised agents are read from the disk again)"
    return f"; {fit.moved / GB:.1f} GB move at every attempt{again}, {fit.waiting / GB:.1f} GB of main memory"
