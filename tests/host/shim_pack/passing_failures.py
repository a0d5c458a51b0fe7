"""Test nodes that fail for a while: out of memory, a server that is away, a sampler that overflows.

Failures are counted by `name` in the process, so they pass however often the host creates the node's object.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from .counted import CountedTint, note
from .stand_ins import CATEGORY, pack, scripted_agent

_failed = Counter[str]()


def _fails(name: str, failures: int) -> bool:
    """Whether the thing of this name has failures left; takes one of them."""
    if _failed[name] >= failures:
        return False
    _failed[name] += 1
    return True


class PassingGenerator:
    """A generator that fails the first `failures` times for prompts with the word `word`."""

    CATEGORY = CATEGORY
    FUNCTION = "generator"
    RETURN_TYPES = ("INTERLEAVE_GENERATOR",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "name": ("STRING", {"default": ""}),
                "word": ("STRING", {"default": ""}),
                "failures": ("INT", {"default": 0}),
                "seconds": ("FLOAT", {"default": 0.0}),
            }
        }

    def generator(self, name: str, word: str, failures: int, seconds: float) -> tuple[Any]:
        fake, errors = pack("backend.models.generators.fake"), pack("backend.core.errors")

        class Passing(fake.FakeGenerator):
            def draw(self, prompt: str, source: Any, seed: int) -> Any:
                time.sleep(seconds)
                if word in prompt and _fails(name, failures):
                    raise errors.GeneratorError("Out of memory.", "Close other programs.")
                note(f"draw {prompt}")
                return super().draw(prompt, source, seed)

        return (Passing(64),)


class PassingAgent:
    """An agent that gives the replies of a JSON list in turn, once its server has failed `failures` times."""

    CATEGORY = CATEGORY
    FUNCTION = "agent"
    RETURN_TYPES = ("INTERLEAVE_AGENT",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "name": ("STRING", {"default": ""}),
                "replies": ("STRING", {"multiline": True, "default": "[]"}),
                "failures": ("INT", {"default": 0}),
            }
        }

    def agent(self, name: str, replies: str, failures: int) -> tuple[Any]:
        def before() -> None:
            if _fails(name, failures):
                raise pack("backend.core.errors").ChatError("The server does not answer.", "Start it.")
            note("ask")

        return scripted_agent(replies, before=before)


class PassingOverflow(CountedTint):
    """A node after the sampler whose images are not finite for the first `failures` times."""

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        more = {"name": ("STRING", {"default": ""}), "failures": ("INT", {"default": 0})}
        return {"required": super().INPUT_TYPES()["required"] | more}

    def tint(self, image: Any, strength: float, name: str, failures: int) -> tuple[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().tint(image, float("inf") if _fails(name, failures) else strength)


PASSING: dict[str, type] = {
    "InterleaveTestPassingGenerator": PassingGenerator,
    "InterleaveTestPassingAgent": PassingAgent,
    "InterleaveTestPassingOverflow": PassingOverflow,
}
