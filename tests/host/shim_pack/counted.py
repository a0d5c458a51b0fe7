"""Test nodes that record when they run: a checkpoint loader, a sampler and a node after it.

They count in a file in the output folder, so the count is what the host really ran, in any process.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import folder_paths

from .stand_ins import CATEGORY, pack, scripted_agent

FILE = "test-nodes-that-ran.txt"


def note(line: str) -> None:
    """Write down that a node ran."""
    folder = Path(folder_paths.get_output_directory())
    folder.mkdir(exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


class CountedLoader:
    """Simulates a checkpoint loader."""

    CATEGORY = CATEGORY
    FUNCTION = "load"
    RETURN_TYPES = ("TEST_MODEL",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"name": ("STRING", {"default": "model"})}}

    def load(self, name: str) -> tuple[Any]:
        note("load")
        return ({"name": name},)


class CountedPaint:
    """Simulates a sampler: generates an image from a model, a prompt, a seed and an image."""

    CATEGORY = CATEGORY
    FUNCTION = "paint"
    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "model": ("TEST_MODEL",),
                "prompt": ("STRING", {"forceInput": True}),
                "seed": ("INT", {"forceInput": True}),
            },
            "optional": {
                "source": ("IMAGE",),
                "batch": ("INT", {"default": 1}),
                "seconds": ("FLOAT", {"default": 0.0}),
                "vary": ("BOOLEAN", {"default": False}),
            },
        }

    def paint(
        self, model: Any, prompt: str, seed: int, source: Any = None, batch: int = 1, **more: Any
    ) -> tuple[Any]:
        import comfy.model_management as memory
        import torch

        note(f"paint {prompt} {seed}")
        until = time.monotonic() + more.get("seconds", 0.0)
        while time.monotonic() < until:
            memory.throw_exception_if_processing_interrupted()
            time.sleep(0.02)
        images = pack("nodes.inputs.images")
        picture = None if source is None else images.to_pictures(source)[0]
        painter = pack("backend.models.generators.fake").FakeGenerator(64)
        seeds = [seed + number if more.get("vary") else seed for number in range(batch)]
        drawn = [painter.draw(f"{model['name']} {prompt}", picture, one) for one in seeds]
        return (torch.cat([images.to_batch(one.image) for one in drawn]),)


class CountedTint:
    """Simulates a node after the sampler."""

    CATEGORY = CATEGORY
    FUNCTION = "tint"
    RETURN_TYPES = ("IMAGE",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"image": ("IMAGE",), "strength": ("FLOAT", {"default": 0.5})}}

    def tint(self, image: Any, strength: float) -> tuple[Any]:
        note("tint")
        return (image * strength,)


class TextList:
    """Returns a list of texts, one per line, like any node with a list output."""

    CATEGORY = CATEGORY
    FUNCTION = "split"
    RETURN_TYPES = ("STRING",)
    OUTPUT_IS_LIST = (True,)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"words": ("STRING", {"multiline": True})}}

    def split(self, words: str) -> tuple[Any]:
        return (words.splitlines(),)


class SplitInTwo:
    """Gives the same image twice, as a list."""

    CATEGORY = CATEGORY
    FUNCTION = "split"
    RETURN_TYPES = ("IMAGE",)
    OUTPUT_IS_LIST = (True,)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {"required": {"image": ("IMAGE",)}}

    def split(self, image: Any) -> tuple[Any]:
        return ([image, image],)


class AlwaysNew(CountedTint):
    """The same, but the host must take it for changed every time."""

    @classmethod
    def IS_CHANGED(cls, **inputs: Any) -> float:
        return float("nan")


class Watching(CountedTint):
    """The same node, which also reports that nothing has changed."""

    @classmethod
    def IS_CHANGED(cls, **inputs: Any) -> str:
        return "as it was"


class SlowAgent:
    """An agent that pauses after every word of one rejecting reply."""

    CATEGORY = CATEGORY
    FUNCTION = "agent"
    RETURN_TYPES = ("INTERLEAVE_AGENT",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {"seconds_a_word": ("FLOAT", {"default": 0.05}), "words": ("INT", {"default": 400})}
        }

    def agent(self, seconds_a_word: float, words: int) -> tuple[Any]:
        answer = '<answer>{"previous_step_success": false, "refine_prompt": "better"}</answer>'
        replies = [f"<think>{'word ' * words}</think>{answer}"] * 9
        return scripted_agent(json.dumps(replies), seconds_a_word, lambda: note("ask"))


COUNTED: dict[str, type] = {
    "InterleaveTestLoader": CountedLoader,
    "InterleaveTestPaint": CountedPaint,
    "InterleaveTestTint": CountedTint,
    "InterleaveTestList": TextList,
    "InterleaveTestSplit": SplitInTwo,
    "InterleaveTestAlwaysNew": AlwaysNew,
    "InterleaveTestWatching": Watching,
    "InterleaveTestSlowAgent": SlowAgent,
}
