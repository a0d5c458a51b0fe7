"""What the experiment on the agents' cost runs: the work, a small model, the plain loop and the pack's loop.

The work is fixed: plans, verdicts and answers are forced token by token on the logits of real forward passes.
A random model then does the work of a trained one, and differences in time come only from how the answers are
computed. The plain loop does what the published demo does, with library calls only: every reply is decoded to
its end, the last attempt is judged although the verdict is unused, images are passed as files, and two images
are encoded for every question.

With the real vocabulary of 151 936 tokens, the head would be six times larger than the rest of so small a
model and hide everything else. A byte-level BPE with 2 048 entries is therefore learned from the prompts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from PIL import Image

from interleave_thinker.backend.core.answers.reading import read_plan, read_verdict, write_plan, write_verdict
from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import PromptSet, fill
from interleave_thinker.backend.core.types import Plan, Request, RunSettings, Step, Trajectory, Verdict
from interleave_thinker.backend.models.chat import Message, ReplySettings
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.chat.local.generation import forget_prefix
from interleave_thinker.backend.story.agents.asking import ConstrainedDecoding
from interleave_thinker.backend.story.agents.critic import Critic, critic_message
from interleave_thinker.backend.story.agents.planner import Planner
from interleave_thinker.backend.story.loop.collaborators import Collaborators
from interleave_thinker.backend.story.loop.events import AttemptDrawn, Finished
from interleave_thinker.backend.story.loop.loop import run
from interleave_thinker.research.tinyworld.models.recipes import (
    ImageTokens,
    learn_processor,
    rotary,
    save_untrained,
)

VOCABULARY = 2048
ADAPTER = "adapter"
"""Folder of the adapter within the checkpoint."""


class Shape(NamedTuple):
    """Sizes of a model.

    `deepstack`: layers of the vision tower whose features are added to those of the language model.
    """

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_width: int
    rotary_sections: tuple[int, int, int]
    vision_hidden: int
    vision_inner: int
    vision_layers: int
    vision_heads: int
    deepstack: tuple[int, ...]


SMALL = Shape(256, 8, 8, 4, 32, (6, 5, 5), 192, 768, 6, 6, (1, 3, 5))
MODELS = {
    "small": SMALL,
    "real-proportions": Shape(512, 12, 8, 2, 64, (12, 10, 10), 144, 538, 8, 4, (4,)),
}
"""`small` is fast, but a token of an image costs its vision tower 2.5 times as much as its language layers.

`real-proportions` is Qwen3-VL-8B with an eighth of every width and a third of the layers. A token of an image
costs the tower 0.29 of what it costs the language layers (8B: 0.26), and the tower has a tenth of their
weights (8B: a twelfth).
"""


def build(folder: Path, prompts: PromptSet, shape: Shape, answers: list[str]) -> Path:
    """Save a model of this shape. The vocabulary is learned from the prompts and answers."""
    processor = learn_processor(
        [prompts.planner_text, prompts.planner_images, prompts.critic, *answers, "true false True False"],
        VOCABULARY,
        ImageTokens((64 * 64, 1024 * 1024), patch=16, merge=2),
    )
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": shape.hidden,
        "intermediate_size": 3 * shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "head_dim": shape.head_width,
        "max_position_embeddings": 16384,
        "rope_parameters": rotary(5_000_000.0, *shape.rotary_sections),
    }
    vision = {
        "depth": shape.vision_layers,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": shape.vision_inner,
        "num_heads": shape.vision_heads,
        "num_position_embeddings": 1024,
        "deepstack_visual_indexes": list(shape.deepstack),
    }
    return save_untrained(folder, processor, text, vision, seed=0)


def build_adapter(checkpoint: Path) -> Path:
    """Save a LoRA adapter of rank 8 for all linear layers of the language model, inside the checkpoint."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen3VLForConditionalGeneration

    config = LoraConfig(r=8, target_modules=r".*language_model.*\.(q|k|v|o|gate|up|down)_proj")
    adapted = get_peft_model(Qwen3VLForConditionalGeneration.from_pretrained(checkpoint), config)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    adapted.save_pretrained(str(checkpoint / ADAPTER))
    return checkpoint / ADAPTER


MAX_ATTEMPTS = 3
PROFILES: dict[str, tuple[tuple[bool, ...], ...]] = {
    "easy": ((True,), (True,), (True,)),
    "mixed": ((True,), (False, True), (False, False, False)),
    "hard": ((False, False, False),) * 3,
    "guided": ((True,), (False, True), (False, False, False)),
}
"""Verdicts on the attempts of every step. `guided` starts with an image of the user."""
THINGS = ("a red fox", "a stone bridge", "a paper lantern")
THOUGHT = (
    "The goal asks for {thing}. In the second image {thing} is {finding}; the rest of the page is as it was."
)
REFINED = (
    "Add {thing} to the middle of the page, number {number}, large enough to be seen at once, in the same "
    "soft water colours and the same light; the ground, the sky and all that was drawn before stay exactly "
    "where they are."
)
SHORT_THOUGHT = "It is cut off at the edge."
Form = Literal["reasoned", "short", "verdict first"]
"""Answer format of a critic: long reasoning, one short sentence, or the verdict before a short sentence."""


@dataclass(frozen=True)
class Work:
    """One job: the request and the agents' answers."""

    request: Request
    plan: Plan
    verdicts: dict[tuple[int, int], Verdict]
    """By step (index in the plan) and attempt, both from 0."""

    def plan_text(self) -> str:
        """Return the planner's answer."""
        return write_plan(self.plan)

    def verdict_text(self, step: int, attempt: int, form: Form = "reasoned") -> str:
        """Return the critic's answer. The formats differ in their reasoning but not in the decision."""
        verdict = self.verdicts[step, attempt]
        if form != "reasoned":
            verdict = verdict.model_copy(update={"reasoning": "" if verdict.success else SHORT_THOUGHT})
        return write_verdict(verdict, verdict_first=form == "verdict first")


def make_work(profile: str, side: int) -> Work:
    """Return the job of a profile; images are squares of `side` pixels."""
    steps = []
    verdicts: dict[tuple[int, int], Verdict] = {}
    for index, outcomes in enumerate(PROFILES[profile]):
        thing = THINGS[index]
        prompt = f"Add {thing} to the middle of the page, in soft water colours."
        steps.append(
            Step(
                number=index + 1,
                name=f"Draw {thing}",
                instruction=f"Show {thing}.",
                prompt=prompt,
                auxiliary_text=f"Then there was {thing}.",
            )
        )
        for number, success in enumerate(outcomes):
            finding = "there and whole" if success else "cut off at the edge"
            verdicts[index, number] = Verdict(
                success=success,
                reasoning=THOUGHT.format(thing=thing, finding=finding),
                refined_prompt=prompt
                if number == 0 and success
                else REFINED.format(thing=thing, number=number + 1),
            )
    images = (paint("the user's own page", None, side),) if profile == "guided" else ()
    plan = Plan(steps=tuple(steps), reasoning="Three things, one after another, on one page.")
    return Work(Request(text="A fox crosses a bridge by lantern light.", images=images), plan, verdicts)


def paint(prompt: str, source: Picture | None, side: int) -> Picture:
    """Return an image of noisy blocks that depends only on the arguments: a generator with almost no cost.

    The seed is ignored, because the systems use different ones and no prompt of the work is used twice.
    """
    drawn_from = f"{prompt}\0{source.digest if source else ''}".encode()
    cells = side // 4
    grid = Image.frombytes("RGB", (cells, cells), hashlib.shake_256(drawn_from).digest(cells * cells * 3))
    return Picture(grid.resize((side, side), Image.Resampling.BILINEAR))


class Painter:
    """`paint` as a generator of the pack; counts its images."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.drawn = 0

    @property
    def identity(self) -> str:
        """Identity of the generator."""
        return f"benchmark painter {self.side}"

    def draw(self, prompt: str, source: Picture | None, seed: int) -> Picture:
        """Paint an image."""
        self.drawn += 1
        return paint(prompt, source, self.side)


class Forced:
    """A logits processor that allows only the next token of a given answer (`say`)."""

    def __init__(self, tokenizer: Any, end: int) -> None:
        self._tokenizer = tokenizer
        self._end = end
        self._answer: Sequence[int] = ()
        self.free: list[int] = []
        """Tokens that the model would have chosen if they had not been forced."""
        self._start: int | None = None

    def say(self, text: str) -> None:
        """Set the text of the next reply."""
        self._answer = (*self._tokenizer(text, add_special_tokens=False)["input_ids"], self._end)
        self._start = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Mask `scores` `(1, vocabulary)` except for the next token of the answer."""
        if self._start is None:
            self._start = input_ids.shape[1]
        self.free.append(int(scores.argmax()))
        token = self._answer[input_ids.shape[1] - self._start]
        forced = scores.new_full(scores.shape, float("-inf"))
        forced[:, token] = scores[:, token]
        return forced


@dataclass
class Outcome:
    """Decisions of a run. Equal work has equal outcomes."""

    prompts: list[tuple[int, str]] = field(default_factory=list)
    """Step (from 0) and prompt of every attempt, in order."""
    images: list[str] = field(default_factory=list)
    """Digest of every attempt's image."""
    accepted: list[bool] = field(default_factory=list)
    """For every attempt, whether the critic accepted it and ended the step."""
    chosen: list[str] = field(default_factory=list)
    """Digest of each step's image."""
    free: list[int] = field(default_factory=list)
    """Greedy tokens before forcing. They affect no decision but reveal numerical differences."""


@dataclass
class Cost:
    """Operations, counted on the modules in the same way for all systems, and processor time."""

    lm_forwards: int = 0
    lm_tokens: int = 0
    images_seen: int = 0
    vision_patches: int = 0
    cpu_seconds: float = 0.0

    def counts(self) -> dict[str, int]:
        """Return all counts, without the processor time."""
        values = asdict(self)
        return {name: value for name, value in values.items() if name != "cpu_seconds"}


@contextmanager
def costing(*models: Any) -> Iterator[Cost]:
    """Count and time the forward passes of these Qwen3-VL models inside the block."""
    cost = Cost()

    def on_language(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        hidden = arguments[0] if arguments else options["x"]
        cost.lm_forwards += 1
        cost.lm_tokens += hidden.shape[0] * hidden.shape[1]

    def on_vision(module: Any, arguments: Any, options: dict[str, Any]) -> None:
        patches = arguments[0] if arguments else options["hidden_states"]
        cost.vision_patches += patches.shape[0]
        cost.images_seen += options["grid_thw"].shape[0]

    hooks = []
    for model in {id(model): model for model in models}.values():
        # Rotary embeddings are computed once per pass, however the layers are called.
        rotary = model.model.language_model.rotary_emb
        hooks.append(rotary.register_forward_pre_hook(on_language, with_kwargs=True))
        hooks.append(model.model.visual.register_forward_pre_hook(on_vision, with_kwargs=True))
    began = time.process_time()
    try:
        yield cost
    finally:
        cost.cpu_seconds = time.process_time() - began
        for hook in hooks:
            hook.remove()


Table = Literal["exact", "engine", "policy"]


@dataclass(frozen=True)
class Way:
    """One way to do the work. `reference`: the way with whose greedy tokens its own are compared."""

    name: str
    engine: EngineSettings
    judge_last: bool = True
    hold: ConstrainedDecoding = "never"
    quantization: str | None = None
    adapter: bool = False
    form: Form = "reasoned"
    reference: str = ""


NO_PREFIX = EngineSettings(prefix_tokens=0)
WAYS = (
    Way("images in memory", NO_PREFIX),
    Way("+ common beginnings read once, drafts (the default)", EngineSettings()),
    Way("+ last attempt not judged", EngineSettings(), judge_last=False),
)
"""Cumulative, in this order."""
WITHOUT = (Way("default without common beginnings", NO_PREFIX),)
"""The default without each saving, for the ablation."""
DEFAULT, ALL = WAYS[-2], WAYS[-1]

AS_SHIPPED = Way("default settings", EngineSettings())
LAID_OVER = Way("adapter laid over the base", EngineSettings(), adapter=True)


def engine_ways() -> list[Way]:
    """Return the ways that this machine has libraries for. GPUs and servers have separate benchmarks."""
    ways = [AS_SHIPPED]
    if find_spec("llguidance"):
        # No agreement is computed: without the grammar, a random model writes nothing in its format. A
        # constrained reply can stop at true.
        ways.append(Way("held to the grammar", EngineSettings(), hold="always"))
    if find_spec("bitsandbytes") and find_spec("accelerate"):
        ways += [
            Way(f"{bits}-bit weights", EngineSettings(), quantization=f"{bits}bit", reference=AS_SHIPPED.name)
            for bits in (8, 4)
        ]
    if find_spec("peft"):
        ways.append(LAID_OVER)
    return ways


POLICY_WAYS = (
    AS_SHIPPED,
    Way("short reasoning", EngineSettings(), form="short"),
    Way("verdict first", EngineSettings(), form="verdict first"),
    Way("verdict first, last attempt not judged", EngineSettings(), form="verdict first", judge_last=False),
)
"""For critics trained to answer this way. Decisions are equal here because they are scripted."""


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


class Ours:
    """Planner, critic and loop, combined as in the command line."""

    def __init__(self, folder: Path, prompts: PromptSet, way: Way) -> None:
        self.way = way
        self.name = way.name
        self._prompts = prompts
        self._chat = local.open(
            str(folder),
            dtype="float32",
            device="cpu",
            engine=way.engine,
            quantization=way.quantization,
            adapter=str(folder / ADAPTER) if way.adapter else None,
        )
        # Exclude one-time costs of a process: the check of the prefix cache and the first call of a kernel.
        for _ in range(2):
            self._chat.reply(
                [Message(role="user", content=(Picture.white((64, 64)), "?"))], ReplySettings(max_tokens=4)
            )

    @property
    def model(self) -> Any:
        """The language model."""
        return self._chat.model

    def run(self, work: Work, folder: Path, side: int) -> Outcome:
        """Do the work with empty caches, like a new process."""
        chat, forced = self._chat, self._forget()
        watched = ReplySettings(watch_verdict=True)
        critic = Critic(chat, self._prompts, watched, self.way.hold)
        settings = RunSettings(max_attempts=MAX_ATTEMPTS, keep="last", judge_last=self.way.judge_last)
        forced.say(work.plan_text())
        planner = Planner(chat, self._prompts, constrained_decoding=self.way.hold)
        for event in run(work.request, Collaborators(planner, Painter(side), critic), settings):
            if isinstance(event, AttemptDrawn):
                forced.say(work.verdict_text(event.step.number - 1, event.attempt, self.way.form))
            elif isinstance(event, Finished):
                return _outcome(event.trajectory, forced.free)
        raise AssertionError("the loop ended without saying so")

    def _forget(self) -> Forced:
        """Empty the caches, and return the processor that forces the next replies."""
        chat = self._chat
        forget_prefix(chat.model)
        forced = Forced(chat.base.processor.tokenizer, chat.model.generation_config.eos_token_id)
        chat.processors = [forced]
        return forced


def _outcome(trajectory: Trajectory, free: list[int]) -> Outcome:
    outcome = Outcome(free=free)
    for index, result in enumerate(trajectory.results):
        for attempt in result.attempts:
            assert attempt.image is not None, attempt.error
            outcome.prompts.append((index, attempt.prompt))
            outcome.images.append(attempt.image.digest)
            outcome.accepted.append(attempt.verdict is not None and attempt.verdict.success is True)
        assert result.image is not None
        outcome.chosen.append(result.image.digest)
    return outcome
