"""Replies of the scripted agent: a planner's plans and a critic's verdicts, as text."""

from __future__ import annotations

import json
from typing import Any


def verdict(success: bool, refined: str = "", probability: float | None = None) -> dict[str, Any]:
    """A critic's reply for the scripted agent."""
    answer = json.dumps({"previous_step_success": success, "refine_prompt": refined})
    text = f"<think>looked</think><answer>{answer}</answer>"
    return {"text": text, "tokens": 9, "probability": probability}


def verdicts(accepted_at: int | None, attempts: int = 9) -> list[dict[str, Any]]:
    """Return replies that reject every attempt with a better prompt, and accept the given one (1-based)."""
    return [
        verdict(number == accepted_at, f"better {number}", 0.9 if number == accepted_at else 0.1 * number)
        for number in range(1, attempts + 1)
    ]


def reply(*prompts: str, thought: str = "easy") -> str:
    """A planner's reply with these prompts."""
    steps = [
        {
            "step_number": number,
            "step_name": f"Step {number}",
            "prompt": prompt,
            "auxiliary_text": f"Text {number}",
        }
        for number, prompt in enumerate(prompts, 1)
    ]
    return f"<think>{thought}</think><answer>{json.dumps({'execution_plan': steps})}</answer>"
