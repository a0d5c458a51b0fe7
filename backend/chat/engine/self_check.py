"""Compares the engine with the library at first use, with this model, on this device, in this version.

A fault of the engine does not raise an error, it only makes answers slightly worse (three versions of
transformers had such a fault when the beginning of a prompt was cached). So a toy prompt with two images is
processed by the library in one pass and by the engine: with its own layers or the library's, with and without
drafts, and after a question or in a batch with the same beginning. The logits have to agree up to rounding in
this dtype. Anything that does not agree, or fails, is switched off, and the reason is logged and stored.
Running out of memory is not a fault of the engine, and `generate` would need as much, so it is raised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from ...errors import ChatError, boundary, is_out_of_memory
from ...machine.counters import not_counting
from ...pictures import Picture
from ..chat_template import rendered
from .prefix_cache import forget_prefix
from .settings import EngineSettings

if TYPE_CHECKING:
    from .engine import Engine

SIDES = ((64, 96), (80, 80))
"""Width and height of the toy images. Their shapes differ, so that a wrong image order is detected."""
TOLERANCE_32_BITS = 1e-3
TOLERANCE_16_BITS = 0.04
"""Maximum `distance` that counts as rounding, for 16 and 32 bits.

Measured (`rounding` of 0.3.0: 12 models with random weights, 2 to 16 layers, on a CPU): rounding gives up
to 6e-7 in 32 bits and nothing in 16 bits; an answer moved by one position gives 0.092 or more. Deeper models
and other devices round more (not measured).
"""


def checked_engine(
    model: Any, processor: Any, settings: EngineSettings
) -> tuple[Engine | None, dict[str, str]]:
    """Create an engine and switch off the settings that change answers here.

    Returns:
        The engine, and the reason for each setting that is off. If the library has to decode, the engine is
        `None` and the reasons contain `enabled`.

    Raises:
        ChatError: Memory runs out.
        Cancelled: The run was cancelled.
    """
    made: list[Engine] = []
    off: dict[str, str] = {}

    def make() -> str:
        # The engine uses internal names of the library, which may differ in another version.
        from .engine import Engine

        made.append(Engine(processor, settings))
        return ""

    def check() -> str:
        off.update(switch_off_inexact(made[0], model, processor))
        return off.pop("enabled", "")

    if found := _failure(make) or _failure(check):
        return None, {**off, "enabled": found}
    return made[0], off


def switch_off_inexact(engine: Engine, model: Any, processor: Any) -> dict[str, str]:
    """Switch off the settings whose logits differ from the library's.

    Returns:
        The reason for each setting that is off (`enabled` if nothing can be used); empty if all agree.
    """
    with not_counting(), torch.inference_mode():
        pages = [toy_page(size, shade) for shade, size in enumerate(SIDES)]
        prompt, ids = toy_prompt(processor, pages)
        library = library_logits(model, processor, prompt, pages, ids)
        tolerance = TOLERANCE_32_BITS if model.dtype == torch.float32 else TOLERANCE_16_BITS

        def difference(draft: Sequence[int] = ()) -> str:
            def look() -> str:
                return _difference(
                    engine_logits(engine, model, prompt, pages, ids, draft), library, tolerance
                )

            return _failure(look)

        def together() -> str:
            found = batch_logits(engine, model, prompt, pages, ids)
            return _difference(found, library, tolerance)

        off: dict[str, str] = {}
        lookup, engine.prompt_lookup_tokens = engine.prompt_lookup_tokens, 0
        prefix, engine.prefix_tokens = engine.prefix_tokens, 0
        if engine.inline_layers and (found := difference()):
            off["inline_layers"], engine.inline_layers = found, False
        if not engine.inline_layers and (found := difference()):
            return {"enabled": found}
        if lookup and ids:
            engine.prompt_lookup_tokens = lookup
            # An accepted draft with one token too many, and a rejected draft.
            if found := difference([ids[-1], ids[0]]) or difference([ids[0], ids[0]]):
                off["prompt_lookup_tokens"], engine.prompt_lookup_tokens = found, 0
        if prefix:
            engine.prefix_tokens = prefix
            # Another question about the same images, and one about other images.
            others = ((prompt.replace("changed", "grown"), pages), (prompt, [pages[0], pages[0]]))
            for other, shown in others:
                engine.read(model, None, other, shown)
                if found := difference() or _failure(together):
                    off["prefix_tokens"], engine.prefix_tokens = found, 0
                    break
            forget_prefix(model)
        engine.clear()
        return off


def _failure(look: Callable[[], str]) -> str:
    """Return the fault that `look` finds, or the error that it raises.

    Raises:
        ChatError: Memory runs out.
        Cancelled: The run was cancelled.
    """
    try:
        with boundary(ChatError, "The check of the engine"):
            return look()
    except ChatError as error:
        if is_out_of_memory(error):
            raise
        reason = error.__cause__ or error
        return f"{type(reason).__name__}: {reason}"


def toy_page(size: tuple[int, int], shade: int) -> Picture:
    """Return a small synthetic image."""
    width, height = size
    pixels = bytes(
        (shade * 85 + 7 * x * y + 31 * x + 13 * channel * y) % 256
        for y in range(height)
        for x in range(width)
        for channel in range(3)
    )
    return Picture(Image.frombytes("RGB", size, pixels))


def toy_prompt(processor: Any, pictures: Sequence[Picture]) -> tuple[str, list[int]]:
    """Return a prompt about the images, and the beginning of an answer as token ids."""
    content = [*({"type": "image"} for _ in pictures), {"type": "text", "text": "What has changed?"}]
    prompt = rendered(processor, [{"role": "user", "content": content}])
    answer = processor.tokenizer("It has", add_special_tokens=False)["input_ids"]
    return prompt, list(answer)[:2]


def library_logits(
    model: Any, processor: Any, prompt: str, pictures: Sequence[Picture], answer: Sequence[int]
) -> torch.Tensor:
    """Return the library's logits at the end of the prompt and after every token of the answer, in one pass.

    Returns:
        Logits `(answer + 1, vocabulary)`.
    """
    from .qwen3_vl import device_of, forget_positions, image_token

    inputs = processor(text=[prompt], images=[picture.image for picture in pictures], return_tensors="pt")
    ids = torch.cat([inputs["input_ids"], torch.tensor([list(answer)])], dim=1)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    given |= {name: inputs[name] for name in ("pixel_values", "image_grid_thw")}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        given["mm_token_type_ids"] = (ids == image_token(model)).int()
    forget_positions(model)
    output = model(**{name: tensor.to(device_of(model)) for name, tensor in given.items()}, use_cache=False)
    forget_positions(model)
    return output.logits[0, -len(answer) - 1 :].float()


def engine_logits(
    engine: Engine,
    model: Any,
    prompt: str,
    pictures: Sequence[Picture],
    answer: Sequence[int],
    draft: Sequence[int] = (),
) -> torch.Tensor:
    """Return the engine's logits like `library_logits`, token by token.

    The draft is processed together with the first token of the answer.
    """
    growing = engine.read(model, None, prompt, pictures)
    rows = [growing.logits]
    for number, token in enumerate(answer):
        growing.add(token, () if number else draft)
        rows.append(growing.logits)
    return torch.cat(rows)


def batch_logits(
    engine: Engine, model: Any, prompt: str, pictures: Sequence[Picture], answer: Sequence[int]
) -> torch.Tensor:
    """Return the engine's logits like `library_logits`, of the second of two questions of a batch.

    The first one differs in its last image.
    """
    other = toy_page(SIDES[-1], len(SIDES))
    with engine.answering(model):
        growing = engine.read_together(model, None, prompt, [[*pictures[:-1], other], pictures])
        assert growing is not None, "images of the same shapes"
        rows = [growing.logits[1:]]
        for token in answer:
            growing.add([token, token])
            rows.append(growing.logits[1:])
    return torch.cat(rows)


def distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Return the distance of two logits tensors `(rows, vocabulary)`.

    This is the largest norm of a row's difference, with means removed, relative to the norm of that row.
    """
    ours, theirs = (one - one.mean(dim=-1, keepdim=True) for one in (ours, theirs))
    return float(((ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp_min(1e-9)).max())


def _difference(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> str:
    """Return a description of how much the logits differ; empty if the difference is only rounding."""
    apart = distance(ours, theirs)
    if apart <= tolerance:
        return ""
    return f"logits differ from the library's by {apart:.2g} of their norm (rounding is up to {tolerance:g})"
