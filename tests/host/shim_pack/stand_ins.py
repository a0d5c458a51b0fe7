"""Nodes for tests: given plans, scripted agents, and nodes that count, fail for a while or wait."""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from typing import Any

import comfy.model_management
import torch

from .declared import TEXT, declared, note, number, pack, scripted_agent
from .tiny_control import AnyKind, control_net
from .tiny_families import FAMILIES, UNET, make_family

NAME = ("STRING", {"default": ""})
FLAG = ("BOOLEAN", {"default": False})


@declared(
    "InterleaveTestPlan",
    "INTERLEAVE_PLAN",
    needs={"request": TEXT, "prompts": TEXT},
    may={"images": ("IMAGE",)},
)
def given_plan(request: str, prompts: str, images: Any = None) -> tuple[Any]:
    """A request with a plan of these prompts, one a line; a line beginning with "#" is a step of text."""
    types = pack("backend.core.types")
    steps = [
        types.Step(number=at, auxiliary_text=line[1:].strip())
        if line.startswith("#")
        else types.Step(number=at, name=f"Step {at}", prompt=line, auxiliary_text=f"Text {at}")
        for at, line in enumerate(prompts.splitlines(), 1)
    ]
    pictures = () if images is None else pack("nodes.inputs.images").to_pictures(images)
    request, plan = types.Request(text=request, images=pictures), types.Plan(steps=tuple(steps))
    return (pack("nodes.inputs.sockets").PlannedRequest(request=request, plan=plan),)


@declared(
    "InterleaveTestAgent", "INTERLEAVE_AGENT", needs={"replies": TEXT}, may={"seconds_per_word": number(0.0)}
)
def agent(replies: str, seconds_per_word: float = 0.0) -> tuple[Any]:
    """An agent with the replies of a JSON list (texts, or objects with text and probability)."""
    return scripted_agent(replies, seconds_per_word)


@declared(
    "InterleaveTestSlowAgent",
    "INTERLEAVE_AGENT",
    needs={"seconds_a_word": number(0.05), "words": number(400)},
)
def slow_agent(seconds_a_word: float, words: int) -> tuple[Any]:
    """An agent that pauses after every word of one rejecting reply."""
    answer = '<answer>{"previous_step_success": false, "refine_prompt": "better"}</answer>'
    replies = [f"<think>{'word ' * words}</think>{answer}"] * 9
    return scripted_agent(json.dumps(replies), seconds_a_word, lambda: note("ask"))


KINDS = ["sees", "blind", "cannot", "slow", "cut"]


class WritingClip:
    """A text encoder that generates text, like those of newer hosts; its reply repeats the question."""

    def __init__(self, reply: str, kind: str, clip: Any) -> None:
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
        for _ in range(200 if self._kind == "slow" else 0):
            comfy.model_management.throw_exception_if_processing_interrupted()
            time.sleep(0.1)
        return [1] * max_length if self._kind == "cut" else self._reply

    def decode(self, written: Any) -> str:
        return self._reply


@declared("InterleaveTestClip", "CLIP", needs={"reply": TEXT, "kind": (KINDS,)}, may={"clip": ("CLIP",)})
def writing_clip(reply: str, kind: str, clip: Any = None) -> tuple[Any]:
    """A text encoder that sees, is blind, cannot write, is slow, or is cut off."""
    return (WritingClip(reply, kind, clip),)


# Nodes that write down when they run: a checkpoint loader, a sampler and nodes after it


@declared("InterleaveTestLoader", "TEST_MODEL", needs={"name": NAME})
def load(name: str) -> tuple[Any]:
    """Simulates a checkpoint loader."""
    note("load")
    return ({"name": name},)


PAINTED = {"prompt": ("STRING", {"forceInput": True}), "seed": ("INT", {"forceInput": True})}
PAINTING = {"source": ("IMAGE",), "batch": number(1), "seconds": number(0.0), "vary": FLAG}


@declared("InterleaveTestPaint", "IMAGE", needs={"model": ("TEST_MODEL",), **PAINTED}, may=PAINTING)
def paint(model: Any, prompt: str, seed: int, source: Any = None, batch: int = 1, **more: Any) -> tuple[Any]:
    """Simulates a sampler: generates an image from a model, a prompt, a seed and an image."""
    note(f"paint {prompt} {seed}")
    until = time.monotonic() + more.get("seconds", 0.0)
    while time.monotonic() < until:
        comfy.model_management.throw_exception_if_processing_interrupted()
        time.sleep(0.02)
    images = pack("nodes.inputs.images")
    picture = None if source is None else images.to_pictures(source)[0]
    painter = pack("backend.models.generators.fake").FakeGenerator(64)
    seeds = [seed + at if more.get("vary") else seed for at in range(batch)]
    drawn = [painter.draw(f"{model['name']} {prompt}", picture, one) for one in seeds]
    return (torch.cat([images.to_batch(one.image) for one in drawn]),)


TINTED = {"image": ("IMAGE",), "strength": number(0.5)}
CHANGED = {"AlwaysNew": lambda: float("nan"), "Watching": lambda: "as it was"}
"""Answers to the question whether a node has changed. One NaN would equal itself, so each is a new one."""


@declared("InterleaveTestTint", "IMAGE", needs=TINTED)
def tint(image: Any, strength: float) -> tuple[Any]:
    """Simulates a node after the sampler."""
    note("tint")
    return (image * strength,)


for _name, _answer in CHANGED.items():
    _asked = classmethod(lambda cls, answer=_answer, **inputs: answer())
    declared(f"InterleaveTest{_name}", "IMAGE", needs=TINTED, IS_CHANGED=_asked)(tint)


@declared("InterleaveTestList", "STRING", needs={"words": TEXT}, OUTPUT_IS_LIST=(True,))
def text_list(words: str) -> tuple[Any]:
    """Returns a list of texts, one per line, like any node with a list output."""
    return (words.splitlines(),)


@declared("InterleaveTestSplit", "IMAGE", needs={"image": ("IMAGE",)}, OUTPUT_IS_LIST=(True,))
def split(image: Any) -> tuple[Any]:
    """Gives the same image twice, as a list."""
    return ([image, image],)


# Nodes that fail for a while. Failures are counted by name in the process, so they pass however often the
# host creates the node's object.

_failed = Counter[str]()
FAILING = {"name": NAME, "failures": number(0)}


def _fails(name: str, failures: int) -> bool:
    """Whether the thing of this name has failures left; takes one of them."""
    if _failed[name] >= failures:
        return False
    _failed[name] += 1
    return True


@declared(
    "InterleaveTestPassingGenerator",
    "INTERLEAVE_GENERATOR",
    needs={**FAILING, "word": NAME, "seconds": number(0.0)},
)
def passing_generator(name: str, word: str, failures: int, seconds: float) -> tuple[Any]:
    """A generator that fails the first `failures` times for prompts with the word `word`."""
    fake, errors = pack("backend.models.generators.fake"), pack("backend.core.errors")

    class Passing(fake.FakeGenerator):
        def draw(self, prompt: str, source: Any, seed: int) -> Any:
            time.sleep(seconds)
            if word in prompt and _fails(name, failures):
                raise errors.GeneratorError("Out of memory.", "Close other programs.")
            note(f"draw {prompt}")
            return super().draw(prompt, source, seed)

    return (Passing(64),)


@declared("InterleaveTestPassingAgent", "INTERLEAVE_AGENT", needs={**FAILING, "replies": TEXT})
def passing_agent(name: str, replies: str, failures: int) -> tuple[Any]:
    """An agent that gives the replies of a JSON list in turn, once its server has failed `failures` times."""

    def before() -> None:
        if _fails(name, failures):
            raise pack("backend.core.errors").ChatError("The server does not answer.", "Start it.")
        note("ask")

    return scripted_agent(replies, before=before)


@declared("InterleaveTestPassingOverflow", "IMAGE", needs={**TINTED, **FAILING})
def passing_overflow(image: Any, strength: float, name: str, failures: int) -> tuple[Any]:
    """A node after the sampler whose images are not finite for the first `failures` times."""
    return tint(image, float("inf") if _fails(name, failures) else strength)


# Models


@declared("InterleaveTestFamily", "MODEL", "CLIP", "VAE", needs={"family": (list(FAMILIES),)})
def family(family: str) -> tuple[Any, Any, Any]:
    """MODEL, CLIP and VAE of a family."""
    return make_family(family)


@declared("InterleaveTestFailingModel", "MODEL", needs={"model": ("MODEL",), "words": NAME})
def failing_model(model: Any, words: str) -> tuple[Any]:
    """A MODEL that runs out of memory, or fails with these words, when it samples."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(words) if words else torch.OutOfMemoryError("CUDA out of memory.")

    patched = model.clone()
    patched.set_model_unet_function_wrapper(fail)
    return (patched,)


@declared("InterleaveTestRenamedModel", "MODEL", needs={"model": ("MODEL",), "kind": NAME})
def renamed_model(model: Any, kind: str) -> tuple[Any]:
    """A MODEL whose class has this name, as one would have that this host does not know yet."""
    patched = model.clone()
    patched.model = copy.copy(model.model)
    patched.model.__class__ = type(kind, (type(model.model),), {})
    return (patched,)


@declared("InterleaveTestControlNet", "CONTROL_NET", needs={"seed": number(8)})
def tiny_control_net(seed: int) -> tuple[Any]:
    """A ControlNet for Stable Diffusion 1; created for every run, like by a loader."""
    return (control_net(UNET, seed),)


@declared("InterleaveTestAnything", AnyKind("*"), needs={"kind": (["text", "nan"],)})
def anything(kind: str) -> tuple[Any]:
    """An output that fits every socket, as some packs have: a text, or sigmas of NaN."""
    return ("a text" if kind == "text" else torch.full((3,), float("nan")),)
