"""Support for other model families, which may differ from Qwen3-VL: control tokens, inputs, text of tokens.

No family is named here. A processor is asked for its tokens and inputs in the ways that the library provides
for all families, so a new family works, untested, as soon as the library supports it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...pictures import Picture

MARK = re.compile(r"<[^\s<>]{2,60}>|\[[A-Z_/]{3,40}\]")
"""Pattern of control tokens: `<start_of_turn>`, `<|im_end|>`, `[INST]`."""
OURS = re.compile(r"</?(?:think|answer|s)>")
"""Tags that agents are asked to write, and a tag that is common in texts."""


def controls_of(processor: Any, tested: bool) -> list[str]:
    """Return texts that the tokenizer or the processor would take for control tokens."""
    tokens = [str(token) for token in processor.tokenizer.all_special_tokens]
    if tested:
        return [token for token in tokens if token.startswith("<|")]
    own = [getattr(processor, f"{name}_token", None) for name in ("image", "video", "audio", "boi", "eoi")]
    tokens += [token for token in own if isinstance(token, str)]
    tokens += [str(added) for added in processor.tokenizer.added_tokens_decoder.values() if added.special]
    found = {token for token in tokens if MARK.fullmatch(token) and not OURS.fullmatch(token)}
    # The longest first, since one may be a part of another.
    return sorted(found, key=lambda token: (-len(token), token))


def model_inputs(processor: Any, prompt: str, pictures: Sequence[Picture], model: Any) -> dict[str, Any]:
    """Return the tensors of a rendered prompt and its images, on the device of the model."""
    device = next(model.parameters()).device
    bos = getattr(processor.tokenizer, "bos_token", None)
    # A template that writes the first token itself would duplicate it.
    text = prompt.removeprefix(bos) if bos and _adds(processor.tokenizer, bos) else prompt
    # Nested as in the library itself: the images of each conversation. Some processors take a plain list for
    # several conversations with one image each.
    images = [[picture.image for picture in pictures]] if pictures else None
    inputs = processor(text=[text], images=images, return_tensors="pt")
    return {
        name: tensor.to(device, model.dtype) if tensor.is_floating_point() else tensor.to(device)
        for name, tensor in inputs.items()
        if hasattr(tensor, "is_floating_point")
    }


def _adds(tokenizer: Any, bos: str) -> bool:
    ids = tokenizer("a")["input_ids"]
    return bool(ids) and ids[0] == tokenizer.convert_tokens_to_ids(bos)
