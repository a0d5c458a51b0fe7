"""Measures what `backend/chat/engine/self_check.py` can tell apart: rounding and wrong positions.

    python -m benchmarks.rounding            # the last line is JSON

Models with random weights, several seeds and sizes are used, because logits of a trained model usually differ
more for a wrong position (its attention is focused) and not more for rounding. The measured values are those
that the check itself reads, in its own measure (`distance`); its tolerances must lie between the two.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from interleave_thinker.backend.chat.engine import self_check
from interleave_thinker.backend.chat.engine.engine import Engine
from interleave_thinker.backend.chat.engine.qwen3_vl import cache_argument
from interleave_thinker.backend.chat.engine.settings import EngineSettings
from interleave_thinker.backend.chat.local.loading import BaseSettings
from interleave_thinker.backend.chat.local.shared_base import SharedBase
from interleave_thinker.backend.prompts import default_prompt_set

from .agents.model import SMALL, build

SEEDS = 4
SHAPES = ((64, 2), (256, 8), (256, 16))
"""Width and layers."""
SHIFTS = (1, 2, 5)
"""Positions by which the tokens of an answer are shifted."""


def distances(base: Any, shift: int) -> float:
    """Return the distance of the engine's logits to the library's, with the answer shifted by `shift`.

    It is the maximum over what the check reads. Shifted tokens are processed by the library's layers one by
    one.
    """
    pages = [self_check.toy_page(size, shade) for shade, size in enumerate(self_check.SIDES)]
    prompt, ids = self_check.toy_prompt(base.processor, pages)
    theirs = self_check.library_logits(base.model, base.processor, prompt, pages, ids)
    language = base.model.model.language_model
    forward, name = language.forward, cache_argument(type(language))

    def moved(*arguments: Any, **options: Any) -> Any:
        if options[name].get_seq_length():
            options["position_ids"] = options["position_ids"] + shift
        return forward(*arguments, **options)

    def distance(inline: bool, draft: list[int]) -> float:
        engine = Engine(base.processor, EngineSettings(inline_layers=inline, prompt_lookup_tokens=0))
        ours = self_check.engine_logits(engine, base.model, prompt, pages, ids, draft)
        return self_check.distance(ours, theirs)

    if not shift:
        drafts = ([], [ids[-1], ids[0]], [ids[0], ids[0]])
        return max(distance(inline, draft) for inline in (False, True) for draft in drafts)
    language.forward = moved
    try:
        return distance(inline=False, draft=[])
    finally:
        language.forward = forward


def main() -> None:
    """Run the experiment and print its figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[float]]] = {}
    for hidden, layers in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            shape = SMALL._replace(hidden=hidden, layers=layers)
            checkpoint = build(Path(folder) / "model", default_prompt_set(), shape, [])
            for dtype in ("float32", "bfloat16", "float16"):
                base = SharedBase(checkpoint, "random", BaseSettings(dtype=dtype, device="cpu"))
                rows = found.setdefault(dtype, {})
                for seed in range(SEEDS):
                    torch.manual_seed(seed)
                    for weight in base.model.parameters():
                        if weight.ndim > 1:
                            weight.data.normal_(std=0.02)
                    with torch.inference_mode():
                        for shift in (0, *SHIFTS):
                            name = f"moved by {shift}" if shift else "rounding"
                            rows.setdefault(name, []).append(distances(base, shift))
                print(hidden, layers, dtype, {name: f"{values[-1]:.2g}" for name, values in rows.items()})
    table = {
        dtype: {
            name: {"least": float(f"{min(values):.2g}"), "most": float(f"{max(values):.2g}")}
            for name, values in rows.items()
        }
        for dtype, rows in found.items()
    }
    print(
        json.dumps(
            {"benchmark": "rounding", "torch": torch.__version__, "models": len(SHAPES) * SEEDS} | table
        )
    )


if __name__ == "__main__":
    main()
