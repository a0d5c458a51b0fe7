"""A small checkout with the files, classes and calls of the published code, written for these tests.

It contains none of the published code or prompts, so it only shows that the comparison works. Whether this
package agrees with the published code is shown by `interleave-thinker parity` on a real checkout.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

SYSTEM = """
NARRATIVE_PROMPT_JSON = "Plan this story: {text_input}"
GUIDANCE_GLOBAL_PROMPT_JSON = "Plan this story with its images: {text_input}"
Iterative_T2I_PROMPT_QWEN = "Goal: {original_instruction}\\nUsed: {rewritten_prompt}\\nIs it reached?"
"""

STORY = """
import json, os, re
import torch
from PIL import Image
from diffusers import Flux2KleinPipeline
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

ATTEMPTS = 3

class Story:
    def load(self, planner, critic, device):
        self.planner, self.critic = (
            Qwen3VLForConditionalGeneration.from_pretrained(name, device_map=device)
            for name in (planner, critic)
        )
        self.processor = AutoProcessor.from_pretrained(critic)
        self.pipeline = Flux2KleinPipeline.from_pretrained("klein", torch_dtype=torch.bfloat16)

    def ask(self, model, content):
        inputs = self.processor.apply_chat_template([{"role": "user", "content": content}], tokenize=True)
        replies = model.generate(**inputs.to(model.device), max_new_tokens=4096)
        new = [reply[len(asked):] for reply, asked in zip(replies, inputs.input_ids)]
        return json.loads(re.search("<answer>(.*)</answer>", self.processor.batch_decode(new)[0], re.S)[1])

    def plan(self, template, request, images):
        text = template.replace("{text_input}", request)
        parts = text.split("<image>") if "<image>" in text else [""] * len(images) + [text]
        content = []
        for part, image in zip(parts, [*images, None]):
            content += [text_part(part)] if part else []
            content += [image_part(image)] if image else []
        return self.ask(self.planner, content)["execution_plan"]

    def tell(self, plan, template, images, folder, white, seed_of, judges_last, lead=""):
        os.makedirs(folder)
        source = images[-1] if images else None
        for index, step in enumerate(plan):
            prompt = step["prompt"]
            for attempt in range(ATTEMPTS):
                path = os.path.join(folder, f"{index}_{attempt}.png")
                image = None if source is None else Image.open(source)
                seed = torch.Generator(device="cpu").manual_seed(seed_of(index, attempt))
                options = {} if image is None else {"image": image}
                drawn = self.pipeline(prompt=prompt, height=1024, width=1024, generator=seed, **options)
                drawn.images[0].save(path)
                if attempt == ATTEMPTS - 1 and not judges_last:
                    break
                text = template.replace("{original_instruction}", step["prompt"])
                text = lead + text.replace("{rewritten_prompt}", prompt)
                before = source or white
                verdict = self.ask(self.critic, [image_part(before), image_part(path), text_part(text)])
                if verdict["previous_step_success"]:
                    break
                prompt = verdict["refine_prompt"]
            source = path
            yield step["auxiliary_text"] or step["instruction"], path

def text_part(text):
    return {"type": "text", "text": text}

def image_part(path):
    return {"type": "image", "image": path}
"""

DEMO = """
from UEval.story import Story
from UEval.system import *

class SingleSampleGenerator(Story):
    def __init__(self, planner, critic, processor, device):
        self.load(planner, critic, device)

    def generate_sequence(self, request, folder, input_image, retry_delay, max_attempts):
        images = input_image or []
        plan = self.plan(
            GUIDANCE_GLOBAL_PROMPT_JSON if images else NARRATIVE_PROMPT_JSON, request, images
        )
        told = self.tell(
            plan, Iterative_T2I_PROMPT_QWEN, images, folder, "data_gen/white.png",
            seed_of=lambda index, attempt: 1000 * index, judges_last=True, lead="\\n",
        )
        return [{"text": text, "image": image} for text, image in told]
"""

RUNNER = """
from story import Story
from system import *

class IterativeImageGenerator(Story):
    def __init__(self, model, planner, critic, klein, device):
        self.load(planner, critic, device)

    def generate(self, item, folder, retry_delay, max_attempts):
        plan = self.plan(NARRATIVE_PROMPT_JSON, item["prompt"], [])
        told = list(self.tell(
            plan, Iterative_T2I_PROMPT_QWEN, [], folder, "white.png",
            seed_of=lambda index, attempt: 100 * index + attempt, judges_last=False,
        ))
        return [image for _, image in told], "".join(text for text, _ in told)
"""

FILES = {
    "UEval/system.py": SYSTEM,
    "UEval/story.py": STORY,
    "demo_klein.py": DEMO,
    "UEval/ueval_klein.py": RUNNER,
}


def made_checkout(folder: Path, *changes: tuple[str, str]) -> Path:
    """Write the checkout, with texts of its files replaced, and return its folder.

    Args:
        folder: New folder.
        changes: Pairs of a text, which must occur, and its replacement.
    """
    (folder / "UEval").mkdir(parents=True)
    (folder / "data_gen").mkdir()
    for name, content in FILES.items():
        for old, new in changes:
            content = content.replace(old, new)
        (folder / name).write_text(content, encoding="utf-8")
    assert all(any(old in content for content in FILES.values()) for old, _ in changes)
    white = Image.new("RGB", (1024, 1024), "white")
    for name in ("UEval/white.png", "data_gen/white.png"):
        white.save(folder / name)
    return folder
