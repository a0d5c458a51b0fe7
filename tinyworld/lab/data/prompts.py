"""Prompt templates of the tiny world's agents.

They are short, since every token costs a small model a step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....backend.prompts import PromptSet

if TYPE_CHECKING:
    pass

PROMPT_SET = PromptSet(
    planner_text="Plan: {text_input}",
    planner_images="Page: <image> Plan: {text_input}",
    critic="Before: <image> After: <image> Wanted: {original_instruction}. Drawn with: {rewritten_prompt}.",
)
