"""A real text encoder of the host: encodes with random weights, and writes replies of a good agent."""

from __future__ import annotations

import json
from typing import Any

STEPS = [
    {"step_number": 1, "step_name": "Boat", "prompt": "a paper boat", "auxiliary_text": "It is folded."},
    {"step_number": 2, "step_name": "River", "prompt": "it reaches the river", "auxiliary_text": "It sails."},
]
PLAN = f"<think>two steps</think><answer>{json.dumps({'execution_plan': STEPS})}</answer>"
VERDICT = '<think>looked</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'


def writing(clip: Any) -> Any:
    """The CLIP; it answers with a verdict where it is shown images, else with a plan."""

    def generate(tokens: Any, **options: Any) -> str:
        return VERDICT if sees(tokens) else PLAN

    clip.generate, clip.decode = generate, str
    return clip


def sees(tokens: Any) -> bool:
    """Return whether the tokens of a text contain an image."""
    if isinstance(tokens, dict):
        return tokens.get("type") == "image" or any(map(sees, tokens.values()))
    return isinstance(tokens, list | tuple) and any(map(sees, tokens))
