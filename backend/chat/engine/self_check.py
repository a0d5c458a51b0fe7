"""Whether our decoding says what the library says, with this model, on this device, in this version: asked
once, at first use.

Decision: a fault of this kind does not fail, it answers a little worse (three versions of transformers did,
with kept prefixes). So before anything is kept, a toy prompt with two images is read in several ways: by the
library in one pass, by ours in one piece, on top of a head that another prompt left, and with guesses. Logits
have to agree to what the number type rounds off; what does not agree, or fails in whatever way, is switched
off, and the reason is logged and kept for whoever asks. Want of memory alone is no finding: it says nothing
about the decoding, and `generate` would need as much.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from ...counters import not_counting
from ...errors import ChatError, boundary, is_out_of_memory
from ...pictures import Picture
from .decoder import can_be_written_out
from .settings import EngineSettings

if TYPE_CHECKING:
    from .engine import Engine

SIDES = ((64, 96), (96, 64), (80, 80))
"""Width and height of the toy images: different shapes, so that places that are off by one image show."""
TOLERANCE_32_BITS = 1e-3
TOLERANCE_16_BITS = 0.04
"""Largest `distance` that counts as rounding. Measured (benchmarks/rounding.py: 12 models of random weights,
2 to 16 layers, on a CPU): reading in pieces gives up to 6.4e-7 in 32 bits, 0.012 in bfloat16, 0.0016 in
float16; what follows the head moved by one place gives 0.059 or more, by five 0.15 or more. Deeper models and
other devices round more (not measured)."""


def checked_decoding(
    model: Any, processor: Any, levers: EngineSettings
) -> tuple[Engine | None, dict[str, str]]:
    """Our decoding with these levers, less those that were switched off, and why each was; None, and
    `own_loop` among the reasons, where the library has to decode. Raises ChatError if memory runs out,
    Cancelled."""
    made: list[Engine] = []
    off: dict[str, str] = {}

    def make() -> str:
        # It uses names that the library calls its own, and another version may have moved them.
        from .engine import Engine

        made.append(Engine(processor, levers))
        return ""

    def check() -> str:
        off.update(switch_off_inexact(made[0], model, processor))
        return off.pop("own_loop", "")

    if found := _trouble(make) or _trouble(check):
        return None, {**off, "own_loop": found}
    return made[0], off


def switch_off_inexact(own: Engine, model: Any, processor: Any) -> dict[str, str]:
    """Switch off what does not agree. The levers it was (`own_loop` if nothing can be used) and why; empty if
    all agrees."""
    with not_counting(), torch.inference_mode():
        off: dict[str, str] = {}
        first, second, third = (toy_page(size, shade) for shade, size in enumerate(SIDES))
        prompt, ids = toy_prompt(processor, [first, third])
        library = library_logits(model, processor, prompt, [first, third], ids)
        tolerance = TOLERANCE_32_BITS if model.dtype == torch.float32 else TOLERANCE_16_BITS

        def problem(guesses: Sequence[int] = ()) -> str:
            return _trouble(
                lambda: _difference(
                    own_logits(own, model, prompt, [first, third], ids, guesses), library, tolerance
                )
            )

        def leave_head() -> str:
            own.read(model, None, toy_prompt(processor, [first, second])[0], [first, second])
            return ""

        drafts, own.draft_tokens = own.draft_tokens, 0
        prefix, own.prefix = own.prefix, False
        static, own.static = own.static, "off"
        if found := problem():
            if not own.written_out:
                return {"own_loop": found}
            off["written_out"], own.written_out = found, False
            if found := problem():
                return {"own_loop": found}
        if prefix:
            own.prefix = True
            if found := _trouble(leave_head) or problem():
                off["prefix_bytes"], own.prefix = found, False
        if drafts and ids:
            own.draft_tokens = drafts
            # Guessed right, and then one too many; guessed wrong, and forgotten.
            if found := problem([ids[-1], ids[0]]) or problem([ids[0], ids[0]]):
                off["draft_tokens"], own.draft_tokens = found, 0
        if static != "off":
            found = _trouble(lambda: _why_not_static(own, model, static)) or problem()
            own.static = "off" if found else static
            off |= {"static_cache": found} if found else {}
        own.forget()
        return off


def _why_not_static(own: Engine, model: Any, static: str) -> str:
    """Why there can be no buffers of a fixed size, empty if there can; they are then on, uncompiled."""
    from .static_cache import why_not_compiled

    if not (own.written_out and can_be_written_out(model.model.language_model)):
        return "these layers are not known here"
    # The step as it is: compiling it, for a bucket of its own, would take longer than most replies.
    own.static = "eager"
    return why_not_compiled(model.lm_head.weight.device) if static == "compiled" else ""


def _trouble(look: Callable[[], str]) -> str:
    """What `look` finds wrong, or the error that it ends in; raises ChatError if memory runs out,
    Cancelled."""
    try:
        with boundary(ChatError, "The check of our own decoding"):
            return look()
    except ChatError as error:
        if is_out_of_memory(error):
            raise
        reason = error.__cause__ or error
        return f"{type(reason).__name__}: {reason}"


def toy_page(size: tuple[int, int], shade: int) -> Picture:
    width, height = size
    pixels = bytes(
        (shade * 85 + 7 * x * y + 31 * x + 13 * channel * y) % 256
        for y in range(height)
        for x in range(width)
        for channel in range(3)
    )
    return Picture(Image.frombytes("RGB", size, pixels))


def toy_prompt(processor: Any, pictures: Sequence[Picture]) -> tuple[str, list[int]]:
    """A question about the pictures, and the beginning of an answer as token ids."""
    content = [*({"type": "image"} for _ in pictures), {"type": "text", "text": "What has changed?"}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    answer = processor.tokenizer("It has", add_special_tokens=False)["input_ids"]
    return prompt, list(answer)[:2]


def library_logits(
    model: Any, processor: Any, prompt: str, pictures: Sequence[Picture], answer: Sequence[int]
) -> torch.Tensor:
    """Logits `(answer + 1, vocabulary)` at the end of the prompt and after every token of the answer, in one
    pass."""
    device = model.lm_head.weight.device
    inputs = processor(text=[prompt], images=[picture.image for picture in pictures], return_tensors="pt")
    ids = torch.cat([inputs["input_ids"], torch.tensor([list(answer)])], dim=1)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    given |= {name: inputs[name] for name in ("pixel_values", "image_grid_thw")}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        given["mm_token_type_ids"] = (ids == model.config.image_token_id).int()
    model.model.rope_deltas = None
    output = model(**{name: tensor.to(device) for name, tensor in given.items()}, use_cache=False)
    model.model.rope_deltas = None
    return output.logits[0, -len(answer) - 1 :].float()


def own_logits(
    own: Engine,
    model: Any,
    prompt: str,
    pictures: Sequence[Picture],
    tokens: Sequence[int],
    guesses: Sequence[int] = (),
) -> torch.Tensor:
    """As `library_logits`, token by token; `guesses` are read together with the first token of the answer."""
    answer = own.read(model, None, prompt, pictures)
    rows = [answer.logits]
    for number, token in enumerate(tokens):
        answer.add(token, () if number else guesses)
        rows.append(answer.logits)
    return torch.cat(rows)


def distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """How far logits `(rows, vocabulary)` are apart: the largest length of a row's difference (means taken
    off), in lengths of their row."""
    ours, theirs = (one - one.mean(dim=-1, keepdim=True) for one in (ours, theirs))
    return float(((ours - theirs).norm(dim=-1) / theirs.norm(dim=-1).clamp_min(1e-9)).max())


def _difference(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float) -> str:
    """In words how far the logits are apart, empty if no farther than rounding."""
    apart = distance(ours, theirs)
    if apart <= tolerance:
        return ""
    return (
        f"logits differ from the library's by {apart:.2g} of their length (up to {tolerance:g} is rounding)"
    )
