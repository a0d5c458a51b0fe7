"""The loop without any savings: every question is processed completely, and images are PNG files.

It does what the published demo does, with library calls only: every critic reply is decoded to its end, the
last attempt is judged although the verdict is unused, images are passed as files, and two images are encoded
for every question. It needs no checkout. `--official` runs the demo's own class instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from interleave_thinker.backend.agents.critic import critic_message
from interleave_thinker.backend.answers.reading import read_plan, read_verdict
from interleave_thinker.backend.pictures import Picture
from interleave_thinker.backend.prompts import PromptSet, fill

from .outcome import Outcome
from .work import MAX_ATTEMPTS, Forced, Work, paint

MAX_NEW_TOKENS = 4096


class PlainLoop:
    """One model for both agents. `reply` is the library's `generate` on freshly encoded inputs."""

    name = "plain loop"

    def __init__(self, folder: Path, prompts: PromptSet) -> None:
        import torch
        from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

        self.model: Any = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.model.eval()
        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.prompts = prompts
        self.forced = Forced(self.processor.tokenizer, self.model.generation_config.eos_token_id)
        self.forced.say("?")
        self.reply([], "?")

    def run(self, work: Work, folder: Path, side: int) -> Outcome:
        """Do the work, with the images in the folder."""
        outcome = Outcome()
        given = [folder / f"given_{number}.png" for number in range(len(work.request.images))]
        for path, picture in zip(given, work.request.images, strict=True):
            picture.image.save(path)
        white = folder / "white.png"
        Image.new("RGB", (side, side), (255, 255, 255)).save(white)
        self.forced.say(work.plan_text())
        template = self.prompts.planner_images if given else self.prompts.planner_text
        plan = read_plan(self.reply(given, fill(template, text_input=work.request.text)))
        source = given[-1] if given else white
        for index, step in enumerate(plan.steps):
            assert step.prompt is not None
            prompt, target = step.prompt, source
            for number in range(MAX_ATTEMPTS):
                before = None if index == 0 and not given else Picture.open(source)
                target = folder / f"step{index}_{number}.png"
                paint(prompt, before, side).image.save(target)
                outcome.prompts.append((index, prompt))
                outcome.images.append(Picture.open(target).digest)
                self.forced.say(work.verdict_text(index, number))
                verdict = read_verdict(self.reply([source, target], self._question(step.prompt, prompt)))
                last = number == MAX_ATTEMPTS - 1
                outcome.accepted.append(bool(verdict.success))
                if verdict.success or last:
                    break
                prompt = verdict.refined_prompt
            source = target
            outcome.chosen.append(Picture.open(target).digest)
        return outcome

    def _question(self, original: str, used: str) -> str:
        pages = (Picture.white((8, 8)), Picture.white((8, 8)))
        return "".join(
            part
            for part in critic_message(self.prompts, pages, original, used).content
            if isinstance(part, str)
        )

    def reply(self, images: list[Path], text: str) -> str:
        """Return the model's complete answer to image files and a text."""
        import torch

        content = [
            *({"type": "image", "image": str(path)} for path in images),
            {"type": "text", "text": text},
        ]
        inputs = self.processor.apply_chat_template(
            [{"role": "user", "content": content}],
            tokenize=True,
            add_generation_prompt=True,
            return_dict=True,
            return_tensors="pt",
        )
        with torch.inference_mode():
            ids = self.model.generate(
                **inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False, logits_processor=[self.forced]
            )
        new = ids[0, inputs["input_ids"].shape[1] :]
        return self.processor.tokenizer.decode(new, skip_special_tokens=True).strip()
