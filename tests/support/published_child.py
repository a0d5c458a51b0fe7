"""Child process that runs a class of the published code with scripted models.

It imports nothing from this package. The class, its message building, its parsing and its loop are the
checkout's; the libraries that load models (torch, transformers, diffusers, datasets) are replaced. What the
class asks its models is written to a JSON file.

    published_child.py CLASS ASKED OBSERVED

`paint` and `digest` are also used by the other side, so that equal calls give equal images.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import types
from typing import Any

from PIL import Image

SIDE = 1024
"""Width and height of all images, as in the published code, white image included."""
CELL = 64


def digest(image: Image.Image) -> str:
    """Return 32 hex digits over size and pixels."""
    pixels = image.convert("RGB")
    return hashlib.sha256(f"{pixels.size}:".encode() + pixels.tobytes()).hexdigest()[:32]


def paint(prompt: str, source: Image.Image | None) -> Image.Image:
    """Return an image that depends only on the prompt and the source image, and not on the seed."""
    drawn_from = f"{prompt}\0{digest(source) if source else ''}".encode("utf-8", "replace")
    cells = SIDE // CELL
    grid = Image.frombytes("RGB", (cells, cells), hashlib.shake_256(drawn_from).digest(cells * cells * 3))
    return grid.resize((SIDE, SIDE), Image.Resampling.NEAREST)


class ScriptEnded(BaseException):
    """The class asked a model for more than the case contains. `except Exception` does not catch it."""


class Inputs(dict[str, Any]):
    """Encoded inputs of a model: the messages themselves."""

    input_ids = ((),)

    def to(self, device: object) -> Inputs:
        """Return the inputs, which have no device."""
        return self


class Case:
    """Replies with the texts of a scripted case, and records what it is asked."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.plan, self.verdicts = asked["plan"], asked["verdicts"]
        self.seen: dict[str, Any] = {"planner": [], "critic": [], "draws": []}

    def reply(self, role: str, messages: Any) -> str:
        """Record a message and return its reply: the plan, or the verdict on the prompt drawn last."""
        self.seen[role].append(parts_of(messages))
        if role == "planner":
            return str(self.plan)
        prompt = self.seen["draws"][-1]["prompt"]
        if prompt not in self.verdicts:
            raise ScriptEnded(f"the critic was asked about a prompt without a verdict: {prompt!r}")
        return str(self.verdicts[prompt])

    def draw(self, prompt: str, image: Image.Image | None, seed: int) -> Image.Image:
        """Record a call of the generator and return its image."""
        source = image and digest(image)
        self.seen["draws"].append({"prompt": prompt, "source": source, "seed": seed})
        return paint(prompt, image)


def parts_of(messages: Any) -> list[list[str]]:
    """Return the parts of a conversation: the role, then texts and image digests in their order."""
    parts: list[list[str]] = []
    for message in messages:
        parts.append(["role", message["role"]])
        for part in message["content"]:
            if part["type"] == "image":
                with Image.open(part["image"]) as image:
                    parts.append(["image", digest(image)])
            else:
                parts.append(["text", part["text"]])
    return parts


class Model:
    """Replaces planner, critic and image pipeline. `name` is what the class was told to load."""

    device = "cpu"
    case: Case

    def __init__(self, name: str) -> None:
        self.name = name

    @classmethod
    def from_pretrained(cls, name: str, **options: Any) -> Model:
        """Return the model of a name. Nothing is loaded."""
        return cls(name)

    def to(self, device: object) -> Model:
        """Return the model, which has no device."""
        return self

    def set_progress_bar_config(self, **options: Any) -> None:
        """Do nothing."""

    def generate(self, messages: Any, **options: Any) -> list[list[str]]:
        """Return the reply of an agent."""
        return [[Model.case.reply(self.name, messages)]]

    def __call__(self, prompt: str, generator: Seed, image: Any = None, **options: Any) -> Any:
        """Return the image of the generator."""
        asked_side = {options.get("width"), options.get("height")}
        if asked_side != {SIDE}:
            raise ScriptEnded(f"images of {asked_side} pixels were requested instead of {SIDE}")
        return types.SimpleNamespace(images=[Model.case.draw(prompt, image, generator.seed)])


class Seed:
    """Replaces torch.Generator."""

    def __init__(self, device: object = None) -> None:
        self.seed = 0

    def manual_seed(self, seed: int) -> Seed:
        """Store the seed."""
        self.seed = seed
        return self


def replace_libraries() -> None:
    """Put stand-ins in the place of the libraries that load models."""
    processor = types.SimpleNamespace(
        apply_chat_template=lambda messages, **options: Inputs(messages=messages),
        batch_decode=lambda replies, **options: ["".join(reply) for reply in replies],
    )
    loader = types.SimpleNamespace(from_pretrained=lambda name, **options: processor)
    libraries: dict[str, dict[str, Any]] = {
        "torch": {"Generator": Seed, "bfloat16": "bfloat16"},
        "transformers": {"Qwen3VLForConditionalGeneration": Model, "AutoProcessor": loader},
        "diffusers": {"Flux2KleinPipeline": Model},
        "datasets": {"load_dataset": None},
    }
    for name, values in libraries.items():
        library = types.ModuleType(name)
        vars(library).update(values)
        sys.modules[name] = library


def run_demo(module: Any, case: dict[str, Any], folder: str) -> tuple[list[str], list[str]]:
    """Run the demo's class; return the texts and the image files of its steps."""
    generator = module.SingleSampleGenerator("planner", "critic", "processor", device="cpu")
    images = list(case["images"]) or None
    steps = generator.generate_sequence(
        case["request"], folder, input_image=images, retry_delay=0.0, max_attempts=1
    )
    return [step["text"] for step in steps], [step["image"] for step in steps]


def run_runner(module: Any, case: dict[str, Any], folder: str) -> tuple[list[str], list[str]]:
    """Run the UEval runner's class; return its joined text and the image files of its steps."""
    generator = module.IterativeImageGenerator("judge", "planner", "critic", "klein", "cpu")
    item = {"id": case["name"], "prompt": case["request"]}
    images, text = generator.generate(item, folder, retry_delay=0.0, max_attempts=1)
    return [text], images


CLASSES = {"demo": ("demo_klein", run_demo), "runner": ("ueval_klein", run_runner)}


def main(kind: str, asked: str, observed: str) -> None:
    """Run all cases with a class and write what it asked its models."""
    replace_libraries()
    name, run = CLASSES[kind]
    module = importlib.import_module(name)
    with open(asked, encoding="utf-8") as file:
        cases = json.load(file)
    found = []
    for case in cases:
        Model.case = Case(case)
        texts, images = run(module, case, os.path.abspath(case["name"]))
        final = []
        for path in images:
            with Image.open(path) as image:
                final.append(digest(image))
        found.append({**Model.case.seen, "texts": texts, "final": final})
    with open(observed, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
