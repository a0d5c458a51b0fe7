"""Measures the savings and the memory plan at full size on one large GPU.

    python -m research.experiments.h200                       # 8B agents, klein 4B; the last line is JSON
    python -m research.experiments.h200 --klein flux2-klein-9b --parts memory
    python -m research.experiments.h200 --tiny                # small models on a CPU, as a trial

Four tables that are never mixed. `exact`: the agents' work of one job of agents.py, savings added one
by one, compared with the plain loop; a ratio needs equal outcomes. `engine`: one reply of a fixed length with
several engines and the same weights. `policy`: the same reply at the lengths of shorter answers. `memory`:
weights and working memory of every part, measured and planned. Times are wall-clock seconds until the device
is idle, since a GPU has no processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from support.live_bytes import live_bytes

from interleave_thinker.backend.core.pictures import Picture
from interleave_thinker.backend.core.prompts.prompt_set import default_prompt_set
from interleave_thinker.backend.models.chat import Message, ReplySettings
from interleave_thinker.backend.models.chat.local import chat as local
from interleave_thinker.backend.models.chat.local.base_model import EngineSettings
from interleave_thinker.backend.models.vram.models import named_agent
from interleave_thinker.backend.models.vram.placement import (
    ModelPart,
    agent_weights,
    agent_work,
    moments,
    plan_memory,
)
from interleave_thinker.backend.models.vram.shapes import KNOWN, SHAPES, ImageShape

from .agents import agreement, unequal
from .agents_loops import SMALL, WAYS, Forced, Ours, PlainLoop, Way, build, make_work

AGENT = "Qwen/Qwen3-VL-8B-Instruct"
IDS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def agent_folder(folder: Path, answers: list[str], device: str, tiny: bool) -> Path:
    """A checkpoint folder of an agent: of the published 8B shape in bf16, or small."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    build(folder, default_prompt_set(), SMALL._replace(hidden=64, layers=2), answers)
    if tiny:
        return folder
    small = json.loads((folder / "config.json").read_text())
    config = Qwen3VLConfig(**SHAPES[AGENT], **{name: small[name] for name in IDS})
    # The parts before rotary embeddings are as published; the rest of the text configuration is the classes'
    # default.
    config.text_config.rope_parameters = {
        "rope_type": "default",
        "rope_theta": 5_000_000.0,
        "mrope_section": [24, 20, 20],
        "mrope_interleaved": True,
    }
    model: Any = made(lambda: Qwen3VLForConditionalGeneration(config), device)
    model.generation_config.eos_token_id = json.loads((folder / "generation_config.json").read_text())[
        "eos_token_id"
    ]
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    del model
    emptied(device)
    return folder


def made(build_one: Any, device: str) -> Any:
    """Return a module built on the device in bf16, with matrices from N(0, 0.02).

    Deep random models stay finite at this scale.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device), torch.no_grad():
            module = build_one()
            for weight in module.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.02)
    finally:
        torch.set_default_dtype(before)
    return module.eval().requires_grad_(False)


def emptied(device: str) -> None:
    """Give back what the allocator keeps."""
    import gc

    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()


BF16 = torch.bfloat16


@dataclass(frozen=True)
class Case:
    """A part of an image model: how to build it, and how to call it at a side in pixels."""

    name: str
    build: Callable[[], torch.nn.Module]
    call: Callable[[Any, int], object]


def cases() -> Iterator[Case]:
    """Yield the parts of the klein models. Both have the same VAE, and nearly the same encoder."""
    yield _flux2("flux2-klein-4b", heads=24, text=7680)
    yield _flux2("flux2-klein-9b", heads=32, text=12288)
    yield from _vae(KNOWN["flux2-klein-4b"])
    yield Case("flux2-klein-4b encoder", _qwen3, _encode)


def _flux2(name: str, heads: int, text: int) -> Case:
    from diffusers import Flux2Transformer2DModel

    return Case(
        f"{name} denoiser",
        lambda: Flux2Transformer2DModel(
            num_layers=2,
            num_single_layers=2,
            num_attention_heads=heads,
            joint_attention_dim=text,
            guidance_embeds=False,
        ),
        lambda model, side: model(
            hidden_states=_empty(1, 2 * _tokens(side), 128),
            encoder_hidden_states=_empty(1, 512, text),
            timestep=_empty(1),
            img_ids=torch.empty(1, 2 * _tokens(side), 4),
            txt_ids=torch.empty(1, 512, 4),
            guidance=None,
        ),
    )


def _vae(shape: ImageShape) -> Iterator[Case]:
    from diffusers import AutoencoderKLFlux2

    for act, channels, scale in (("decode", 32, 8), ("encode", 3, 1)):
        yield Case(
            f"{shape.name} VAE {act}",
            AutoencoderKLFlux2,
            lambda model, side, act=act, channels=channels, scale=scale: getattr(model, act)(
                _empty(1, channels, side // scale, side // scale)
            ),
        )


def _qwen3() -> torch.nn.Module:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=151936,
            num_hidden_layers=36,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            hidden_size=2560,
            intermediate_size=9728,
            tie_word_embeddings=True,
        )
    )


def _encode(model: Any, side: int) -> object:
    """Call the encoder as Flux2KleinPipeline does: padded to 512 tokens, with the states of all layers."""
    tokens = torch.zeros(1, 512, dtype=torch.long)
    return model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens), output_hidden_states=True, use_cache=False
    )


def _tokens(side: int) -> int:
    return (side // 16) ** 2


def _empty(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=BF16)


def peak_of(case: Case, device: str, side: int) -> int:
    """Return the most bytes alive next to the weights of a part."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(BF16)
    try:
        with torch.device(device), torch.no_grad():
            module = case.build().eval()
    finally:
        torch.set_default_dtype(before)
    with torch.device(device), torch.inference_mode(device != "meta"):
        return peak_bytes(lambda: case.call(module, side), device, module)


def peak_bytes(act: Callable[[], object], device: str, *modules: torch.nn.Module) -> int:
    """Return the most bytes that were alive next to what was there before."""
    if not device.startswith("cuda"):
        with live_bytes(*modules, fused=True) as count:
            act()
        return count.peak
    emptied(device)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    act()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


PARTS = ("exact", "engine", "policy", "memory")
CLOSE = 0.10
LENGTHS = {"a verdict alone": 8, "short reasoning": 60, "as published": 300}
NOTHING_CACHED = EngineSettings(prefix_tokens=0, static_cache=False)


class Bench:
    """The device, the folder of the agents' checkpoint and the sizes of one run."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.device: str = options.device
        self.tiny: bool = options.tiny
        self.side: int = options.side
        self.folder = folder
        self.work = make_work(options.profile, self.side)
        answers = [self.work.plan_text(), *(self.work.verdict_text(*key) for key in self.work.verdicts)]
        self.agent = agent_folder(folder / "agent", answers, self.device, self.tiny)

    def open(self, engine: EngineSettings, quantization: str | None = None) -> Any:
        """Open the agent on the device."""
        return local.open(
            str(self.agent), dtype="bfloat16", device=self.device, quantization=quantization, engine=engine
        )

    def waited(self, act: Callable[[], Any]) -> tuple[float, Any]:
        """Seconds until the device is done, and the result."""
        self._wait()
        began = time.monotonic()
        result = act()
        self._wait()
        return time.monotonic() - began, result

    def peak(self, act: Callable[[], Any], *modules: torch.nn.Module) -> int:
        """The most bytes that were alive beside what was there before."""
        return peak_bytes(act, self.device, *modules)

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


class OursThere(Ours):
    """The pack's loop with the agents on the device."""

    def __init__(self, bench: Bench, way: Way) -> None:
        self.way, self.name, self._prompts = way, way.name, default_prompt_set()
        self._chat = bench.open(way.engine)
        self._chat.reply(
            [Message(role="user", content=(Picture.white((64, 64)), "?"))], ReplySettings(max_tokens=4)
        )


class PlainThere(PlainLoop):
    """The plain loop with its model on the device."""

    def __init__(self, bench: Bench) -> None:
        from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

        self.model = Qwen3VLForConditionalGeneration.from_pretrained(bench.agent, dtype=torch.bfloat16)
        self.model.to(bench.device).eval()
        self.processor = _Moving(AutoProcessor.from_pretrained(bench.agent), bench.device)
        self.prompts = default_prompt_set()
        self.forced = Forced(self.processor.tokenizer, self.model.generation_config.eos_token_id)
        self.forced.say("?")
        self.reply([], "?")


class _Moving:
    """A processor whose results are on the device."""

    def __init__(self, processor: Any, device: str) -> None:
        self._processor, self._device = processor, device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def apply_chat_template(self, *arguments: Any, **options: Any) -> Any:
        return self._processor.apply_chat_template(*arguments, **options).to(self._device)


def exact(bench: Bench) -> dict[str, Any]:
    """Seconds of the agents' part of one job, saving by saving."""
    base, theirs = job(bench, lambda: PlainThere(bench))
    rows: list[dict[str, Any]] = [{"way": "plain loop", "seconds": round(base, 3)}]
    for way in WAYS:
        seconds, outcome = job(bench, partial(OursThere, bench, way))
        different = unequal(outcome, theirs)
        result = {"unequal": different} if different else {"ratio": round(base / seconds, 2)}
        rows.append({"way": way.name, "seconds": round(seconds, 3), **result})
    return {"rows": rows}


def job(bench: Bench, system_of: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and outcome of one job by a system that is gone afterwards."""
    emptied(bench.device)
    system = system_of()
    with tempfile.TemporaryDirectory() as folder:
        return bench.waited(lambda: system.run(bench.work, Path(folder), bench.side))


def question(bench: Bench) -> list[Message]:
    """What a critic is asked: two images and a prompt's worth of words."""
    pages = (Picture.white((bench.side, bench.side)), *bench.work.request.images)
    words = default_prompt_set().critic.replace("<image>", "")
    return [Message(role="user", content=(pages[0], pages[-1], words))]


def reply_seconds(bench: Bench, chat: Any, length: int) -> tuple[float, float, list[int]]:
    """Return the seconds of the first and the second reply of this length, and the second's greedy tokens."""
    forced = Forced(chat.base.processor.tokenizer, chat.model.generation_config.eos_token_id)
    # No two tokens follow each other twice: drafts would cost next to nothing.
    answer = [100 + number for number in range(length)]

    def once() -> None:
        forced.say("")
        forced.free, forced._answer = [], answer
        chat.processors = [forced]
        chat.reply(question(bench), ReplySettings(max_tokens=length))

    return bench.waited(once)[0], bench.waited(once)[0], forced.free


def engine(bench: Bench) -> dict[str, Any]:
    """One reply of the published length by several engines; what is not installed here says so."""
    length = 16 if bench.tiny else LENGTHS["as published"]
    rows: list[dict[str, Any]] = []
    plain: list[int] = []
    for name, settings, quantization in (
        ("generate", NOTHING_CACHED, None),
        ("kept question, drafts", EngineSettings(static_cache=False), None),
        ("compiled static cache", EngineSettings(static_cache=True), None),
        ("generate, 8-bit", NOTHING_CACHED, "8bit"),
        ("generate, 4-bit", NOTHING_CACHED, "4bit"),
    ):
        row: dict[str, Any] = {"engine": name}
        try:
            chat = bench.open(settings, quantization)
            first, seconds, greedy = reply_seconds(bench, chat, length)
            plain = plain or greedy
            row |= {"first_s": round(first, 3), "seconds": round(seconds, 3)}
            row |= {"tokens_a_second": round(length / seconds, 1), "greedy_tokens": agreement(greedy, plain)}
            del chat
        except Exception as error:  # noqa: BLE001 - an engine that is not there is a row, not an end
            row["not_run"] = str(error).splitlines()[0]
        rows.append(row)
        emptied(bench.device)
    return {"tokens": length, "rows": rows}


def policy(bench: Bench) -> dict[str, Any]:
    """The same critic with shorter answers: what a prompt set that asks for them could save at most."""
    chat = bench.open(NOTHING_CACHED)
    rows = [
        {"answer": name, "tokens": length, "seconds": round(reply_seconds(bench, chat, length)[1], 3)}
        for name, length in LENGTHS.items()
    ]
    del chat
    emptied(bench.device)
    return {"rows": rows}


def memory(bench: Bench, name: str) -> dict[str, Any]:
    """Return the weights and the work of every part, measured and planned, and the peak on 12 GB."""
    planned = named_agent(str(bench.agent))
    assert planned is not None
    rows: dict[str, dict[str, float]] = {}
    answer = 16 if bench.tiny else 300
    quantization = None if bench.tiny else "4bit"
    try:
        chat = bench.open(EngineSettings(), quantization)
        precision = "bf16" if quantization is None else "4-bit"
    except Exception as error:  # noqa: BLE001 - without the library the 16-bit agent is measured
        print(f"4-bit agents were not measured: {str(error).splitlines()[0]}")
        chat, precision = bench.open(EngineSettings()), "bf16"
    words = len(chat.base.processor.tokenizer(default_prompt_set().critic)["input_ids"])
    areas = [bench.side**2] * 2
    weights = sum(held(one) for one in {id(one): one for one in chat.model.parameters()}.values())
    settings = ReplySettings(max_tokens=answer)
    rows["critic"] = {
        "weights": weights,
        "work": bench.peak(partial(chat.reply, question(bench), settings), chat.model),
        "planned_weights": agent_weights(planned.shape, precision),
        "planned_work": agent_work(planned.shape, words, areas, answer, precision),
    }
    del chat
    emptied(bench.device)
    shape = KNOWN[name]
    rows |= image_parts(name, bench.side, bench.device)
    plan = plan_memory(shape, planned, planned, (bench.side, bench.side), cards=(12,))
    parts = [
        (
            ModelPart(name=part, weights=row["weights"], work=row["work"] / 1.1),
            ModelPart(name=part, weights=row["planned_weights"], work=row["planned_work"]),
        )
        for part, row in rows.items()
    ]
    fit = plan.cards[0].finest
    arrangement = (fit.arrangement if fit else None) or "part by part"
    measured = max(moments([one for one, _ in parts], arrangement).values())
    reckoned = max(moments([one for _, one in parts], arrangement).values())
    return {
        "agents": precision,
        "parts_gb": {
            part: {key: round(value / 1e9, 6) for key, value in row.items()} for part, row in rows.items()
        },
        "arrangement_on_12_gb": arrangement,
        "peak_measured_gb": round(measured / 1e9, 3),
        "peak_planned_gb": round(reckoned / 1e9, 3),
        "planned_over_measured": round(reckoned / measured, 3),
        "within_10_percent": abs(reckoned / measured - 1) <= CLOSE,
    }


def held(weight: torch.Tensor) -> int:
    """Bytes of a weight, with the scales of a quantized one."""
    scales = getattr(getattr(weight, "quant_state", None), "absmax", None)
    return weight.nbytes + (scales.nbytes if scales is not None else 0)


def image_parts(name: str, side: int, device: str) -> dict[str, dict[str, float]]:
    """Return the parts of the image model with the larger peak of decoding and encoding as the VAE's."""
    shape = KNOWN[name]
    weights, planned = shape.weights, shape.work(side * side)
    found: dict[str, dict[str, float]] = {}
    for case in cases():
        # Both klein models have the same VAE, and nearly the same encoder.
        model, _, part = case.name.partition(" ")
        if model not in (name, "flux2-klein-4b") or (part == "denoiser" and model != name):
            continue
        part = part.lower().split()[0]
        work = peak_of(case, device, side)
        found[part] = {
            "weights": weights[part] * 2,
            "work": max(work, found.get(part, {}).get("work", 0)),
            "planned_weights": weights[part] * 2,
            "planned_work": planned[part],
        }
    return found


def main() -> None:
    """Run the requested parts and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--klein", default="flux2-klein-4b", choices=["flux2-klein-4b", "flux2-klein-9b"])
    parser.add_argument("--profile", default="mixed")
    parser.add_argument("--side", type=int, default=None, help="pixels; 1024, or 64 with --tiny")
    parser.add_argument("--tiny", action="store_true", help="the same path in small on the CPU")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        sys.exit("This needs a CUDA GPU of 80 GB or more; --tiny tries the path on a CPU.")
    options.device = "cpu" if options.tiny else "cuda"
    options.side = options.side or (64 if options.tiny else 1024)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        tables: dict[str, Any] = {}
        for part in options.parts:
            acts = {"exact": exact, "engine": engine, "policy": policy}
            tables[part] = memory(bench, options.klein) if part == "memory" else acts[part](bench)
            print(f"{part}: {json.dumps(tables[part], indent=1)}", flush=True)
    device = "cpu" if options.tiny else torch.cuda.get_device_name()
    print(json.dumps({"device": device, "tiny": options.tiny, "side": options.side, **tables}))


if __name__ == "__main__":
    main()
