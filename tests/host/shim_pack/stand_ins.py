"""Nodes for tests alone: a plan without a planner, and an agent that gives scripted replies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

CATEGORY = "InterleaveThinker tests"


def pack(module: str) -> ModuleType:
    """A module of the pack under test, which the host has imported under a name of its own."""
    root = next(name for name in sys.modules if name.endswith("interleave-thinker"))
    return import_module(f"{root}.{module}")


def scripted_agent(
    replies: str, seconds_per_word: float = 0.0, before: Callable[[], object] = lambda: None
) -> tuple[Any]:
    """Return the output of a node: an agent with the replies of a JSON list, which calls `before` first."""
    scripted = pack("backend.models.chat.scripted")

    class Chat(scripted.ScriptedChat):
        def reply(self, messages: Any, settings: Any, on_token: Any = None) -> Any:
            def slowly(text: str) -> None:
                time.sleep(seconds_per_word)
                if on_token is not None:
                    on_token(text)

            before()
            return super().reply(messages, settings, slowly)

    chat = Chat(scripted.REPLIES.validate_json(replies))
    return (pack("nodes.agents.managed_chat").ManagedChat(chat),)


class GivenPlan:
    """A request with a plan of these prompts, one a line; a line beginning with "#" is a step of text."""

    CATEGORY = CATEGORY
    FUNCTION = "plan"
    RETURN_TYPES = ("INTERLEAVE_PLAN",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        text = ("STRING", {"multiline": True, "default": ""})
        return {"required": {"request": text, "prompts": text}, "optional": {"images": ("IMAGE",)}}

    def plan(self, request: str, prompts: str, images: Any = None) -> tuple[Any]:
        types = pack("backend.core.types")
        steps = [
            types.Step(number=number, auxiliary_text=line[1:].strip())
            if line.startswith("#")
            else types.Step(
                number=number, name=f"Step {number}", prompt=line, auxiliary_text=f"Text {number}"
            )
            for number, line in enumerate(prompts.splitlines(), 1)
        ]
        pictures = () if images is None else pack("nodes.inputs.images").to_pictures(images)
        return (
            pack("nodes.inputs.sockets").PlannedRequest(
                request=types.Request(text=request, images=pictures), plan=types.Plan(steps=tuple(steps))
            ),
        )


class ScriptedAgent:
    """An agent with the replies of a JSON list (texts, or objects with text and probability).

    It can pause at each word.
    """

    CATEGORY = CATEGORY
    FUNCTION = "agent"
    RETURN_TYPES = ("INTERLEAVE_AGENT",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {"replies": ("STRING", {"multiline": True, "default": "[]"})},
            "optional": {"seconds_per_word": ("FLOAT", {"default": 0.0})},
        }

    def agent(self, replies: str, seconds_per_word: float = 0.0) -> tuple[Any]:
        return scripted_agent(replies, seconds_per_word)


class WritingClip:
    """A text encoder that generates text, like those of newer hosts; its reply repeats the question."""

    CATEGORY = CATEGORY
    FUNCTION = "clip"
    RETURN_TYPES = ("CLIP",)

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        return {
            "required": {
                "reply": ("STRING", {"multiline": True}),
                "kind": (["sees", "blind", "cannot", "slow", "cut"],),
            },
            "optional": {"clip": ("CLIP",)},
        }

    def clip(self, reply: str, kind: str, clip: Any = None) -> tuple[Any]:
        return (_Clip(clip, reply, kind),)


class _Clip:
    def __init__(self, clip: Any, reply: str, kind: str) -> None:
        self.patcher, self._reply, self._kind = clip.patcher, reply, kind
        self.tokenizer = type("Tokenizer", (), {})()
        self.tokenizer.llama_template = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
        self.tokenizer.llama_template_images = "<|im_start|>user\n<|image_pad|>{}"
        if kind == "cannot":
            self.generate = None

    def tokenize(self, text: str, images: Any = (), skip_template: bool = False, **options: Any) -> Any:
        marks = text.count("<|vision_start|><|image_pad|><|vision_end|>")
        assert skip_template and marks == len(images) and text.endswith("<|im_start|>assistant\n")
        assert all(image.ndim == 4 and image.shape[-1] == 3 for image in images)
        shown = [({"type": "image", "data": image}, 1.0) for image in images]
        return {"qwen3vl": [[(1, 1.0), *([] if self._kind == "blind" else shown)]]}

    def generate(self, tokens: Any, do_sample: bool, max_length: int, **options: Any) -> Any:
        import comfy.model_management

        for _ in range(200 if self._kind == "slow" else 0):
            comfy.model_management.throw_exception_if_processing_interrupted()
            time.sleep(0.1)
        return [1] * max_length if self._kind == "cut" else self._reply

    def decode(self, written: Any) -> str:
        return self._reply


NODE_CLASS_MAPPINGS: dict[str, type] = {
    "InterleaveTestPlan": GivenPlan,
    "InterleaveTestAgent": ScriptedAgent,
    "InterleaveTestClip": WritingClip,
}
