"""An output of type "any", like those of "any switch" nodes, with values that no node of the host gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from .declared import declared

NUMBER = float("nan")


def image(*shape: int, value: float = 0.5) -> torch.Tensor:
    return torch.full(shape, value)


def conditioning(width: int = 16, **options: Any) -> list[Any]:
    return [[torch.zeros(1, 4, width), options]]


ODD: dict[str, Any] = {
    "nothing": lambda: None,
    "number": lambda: 5,
    "no number": lambda: NUMBER,
    "truth": lambda: True,
    "text": lambda: "text",
    "long text": lambda: "x" * 1_000_000,
    "control characters": lambda: "\x00\x1b[31m\ud800",
    "list": list,
    "dictionary": dict,
    "latent": lambda: {"samples": None},
    "object": object,
    "class": lambda: SimpleNamespace,
    "function": lambda: lambda *arguments, **options: None,
    "list of nothing": lambda: [None],
    "names alone": lambda: SimpleNamespace(
        sample=None, generate_noise=None, seed=None, model_patcher=None, original_conds=None, set_conds=None,
        identity=None, draw=None, reply=None, prompt_set=None, patcher=None, model=None,
    ),
    "tensor of nothing": lambda: torch.zeros(0),
    "one number": lambda: torch.tensor(1.0),
    "words as tensor": lambda: torch.arange(4),
    "no image": lambda: image(0, 16, 16, 3),
    "no pixels": lambda: image(1, 0, 16, 3),
    "no channels": lambda: image(1, 16, 16, 0),
    "one pixel": lambda: image(1, 1, 1, 3),
    "a line": lambda: image(1, 1, 3000, 3),
    "grey": lambda: image(1, 16, 16, 1),
    "flat": lambda: image(16, 16, 3),
    "five channels": lambda: image(1, 16, 16, 5),
    "alpha": lambda: image(1, 16, 16, 4),
    "video": lambda: image(1, 2, 16, 16, 3),
    "image of NaN": lambda: image(1, 16, 16, 3, value=NUMBER),
    "image of infinities": lambda: image(1, 16, 16, 3, value=float("inf")),
    "image far too bright": lambda: image(1, 16, 16, 3, value=1e30),
    "image below black": lambda: image(1, 16, 16, 3, value=-5),
    "bytes": lambda: image(1, 16, 16, 3).byte(),
    "halves": lambda: image(1, 16, 16, 3).half(),
    "brain floats": lambda: image(1, 16, 16, 3).bfloat16(),
    "doubles": lambda: image(1, 16, 16, 3).double(),
    "complex": lambda: image(1, 16, 16, 3).to(torch.complex64),
    "being learned": lambda: torch.nn.Parameter(image(1, 16, 16, 3)),
    "without values": lambda: torch.empty(1, 16, 16, 3, device="meta"),
    "seventeen": lambda: image(17, 16, 16, 3),
    "hundreds": lambda: image(400, 8, 8, 3),
    "far too large": lambda: image(1, 1, 1, 3).expand(1, 60_000, 60_000, 3),
    "mask": lambda: image(1, 16, 16),
    "empty mask": lambda: image(1, 16, 16, value=0.0),
    "mask of another shape": lambda: image(1, 8, 64),
    "mask of NaN": lambda: image(1, 16, 16, value=NUMBER),
    "mask without pixels": lambda: image(1, 0, 0),
    "no mask": lambda: image(0, 16, 16),
    "masks": lambda: image(3, 16, 16),
    "mask of five axes": lambda: image(1, 1, 1, 16, 16),
    "mask below nothing": lambda: image(1, 16, 16, value=-3),
    "mask of truths": lambda: torch.ones(1, 16, 16, dtype=torch.bool),
    "sigmas": lambda: torch.tensor([1.0, 0.5, 0.0]),
    "one sigma": lambda: torch.tensor([1.0]),
    "equal sigmas": lambda: torch.zeros(4),
    "rising sigmas": lambda: torch.tensor([0.0, 0.5, 1.0]),
    "negative sigmas": lambda: torch.tensor([-1.0, -2.0]),
    "whole sigmas": lambda: torch.tensor([1, 0]),
    "huge sigmas": lambda: torch.tensor([1e38, 1e30, 0.0]),
    "conditioning": conditioning,
    "conditioning of another width": lambda: conditioning(7),
    "conditioning of nothing": lambda: [[None, {}]],
    "conditioning of texts": lambda: [["a", {}]],
    "conditioning with strange control": lambda: conditioning(control=5, control_apply_to_uncond=None),
    "conditioning with strange pooling": lambda: conditioning(pooled_output="a", mask=5, area=(1,)),
    "conditioning of one": lambda: [[torch.zeros(1, 4, 16)]],
    "conditioning of strange keys": lambda: [[torch.zeros(1, 4, 16), {5: None, None: 5}]],
}  # fmt: skip


@declared("InterleaveTestOddValue", "*", needs={"name": (["given", *ODD],)}, may={"given": ("*",)})
def odd_value(name: str, given: Any = None) -> tuple[Any]:
    """Returns a value of ODD by name, or the given value, on an output of any type."""
    return (given if name == "given" else ODD[name](),)
