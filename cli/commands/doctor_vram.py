"""`doctor --plan`: prints the memory estimate as one table over all VRAM sizes, then a choice for each size.

A cell is a letter for how the models fit and the peak in GB, so that the table fits on a narrow terminal.
The letters are explained below it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...backend.vram.placement import COMBINATIONS, GB, WHAT_MOVES, CardPlan, Fit, MemoryPlan

COMFYUI_DECODE = 2178 * 2
"""Bytes per pixel that ComfyUI keeps free before a VAE decodes in 16 bits (comfy/sd.py,
VAE.memory_used_decode)."""
CELL = 11
LETTERS: dict[str, str] = dict(zip(WHAT_MOVES, "ABCD", strict=True))


def lines(plan: MemoryPlan) -> Iterator[str]:
    """Yield the lines of the report."""
    width, height = plan.size
    yield (
        f"Image model {plan.generator}, planner {plan.planner}, critic {plan.critic}, "
        f"images of {width}x{height} pixels"
    )
    yield (
        "Estimated, not measured, in GB of 10⁹ bytes. "
        f"A peak includes a reserve of {plan.reserve / GB:.1f} GB and 10 % of the working memory for "
        f"fragmentation."
    )
    yield ""
    yield f"{'GB in bf16':20}" + "".join(f"{part.name:>{CELL}}" for part in plan.parts["bf16 + bf16"])
    for label, values in (
        ("weights", [part.weights for part in plan.parts["bf16 + bf16"]]),
        ("working memory", [part.work for part in plan.parts["bf16 + bf16"]]),
    ):
        yield f"{label:20}" + "".join(f"{value / GB:{CELL}.1f}" for value in values)
    yield ""
    yield f"{'agents + image':20}" + "".join(f"{f'{one.card} GB':>{CELL}}" for one in plan.cards)
    for row, pair in enumerate(COMBINATIONS):
        yield f"{' + '.join(pair):20}" + "".join(f"{_cell(one.fits[row]):>{CELL}}" for one in plan.cards)
    for name, meaning in WHAT_MOVES.items():
        yield f"  {LETTERS[name]} {name}: {meaning}"
    yield ""
    for one in plan.cards:
        yield from _advice(one)
    yield ""
    yield "ComfyUI moves models automatically; the command line keeps all of them in VRAM (together)."
    yield (
        f"ComfyUI needs {COMFYUI_DECODE * width * height / GB:.1f} GB free to decode an image of this size. "
        "If less is free, it moves models to RAM during decoding."
    )


def _cell(fit: Fit) -> str:
    return f"{LETTERS[fit.arrangement] if fit.arrangement else 'no'} {fit.peak / GB:5.1f}"


def _advice(gpu: CardPlan) -> Iterator[str]:
    label = f"{gpu.card:>3} GB ({gpu.usable / GB:.1f} usable): "
    if gpu.finest is None:
        short = gpu.fits[-1]
        yield (
            f"{label}does not fit: "
            f"{short.short / GB:.1f} GB missing even with agents in {short.agents} and the image model in "
            f"{short.image}."
        )
        yield f"       To need less: {'; '.join(gpu.lower)}."
        return
    if gpu.steady is not None:
        yield f"{label}no model moves during the loop: {_described(gpu.steady)}"
        label = " " * 7
    if gpu.finest != gpu.steady:
        yield f"{label}highest precision: {_described(gpu.finest)}{_cost(gpu.finest)}"


def _described(fit: Fit) -> str:
    return f"agents {fit.agents}, image model {fit.image}: {fit.arrangement}, peak {fit.peak / GB:.1f} GB"


def _cost(fit: Fit) -> str:
    if not fit.moved:
        return ""
    reread = "" if fit.agents == "bf16" else " (quantized agents are read from disk again)"
    return f"; {fit.moved / GB:.1f} GB move at every attempt{reread}, needs {fit.waiting / GB:.1f} GB of RAM"
