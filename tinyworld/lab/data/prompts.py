"""The wording that the tiny world's agents are trained with: a few words, since every token is a step of a
small model."""

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
