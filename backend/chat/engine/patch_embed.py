"""Image patches embedded by a matrix product, which a convolution with kernel = stride is, exact to rounding.

Decision: the convolution is several times slower on a CPU and thousands of times on some GPUs in bf16
(transformers issue 45750). It is replaced on one object: the library's own switch (`fusion_config`) replaces
the class for the whole process, which in a host is not ours to do.
"""

from __future__ import annotations

from typing import Any

import torch


def use_linear_patches(model: Any) -> None:
    """From now on this Qwen3-VL embeds patches so; nothing happens where its convolution is none with kernel
    = stride."""
    patches = model.model.visual.patch_embed
    convolution = getattr(patches, "proj", None)
    if not isinstance(convolution, torch.nn.Conv3d) or convolution.stride != convolution.kernel_size:
        return

    def forward(hidden_states: torch.Tensor) -> torch.Tensor:
        weight = convolution.weight.flatten(1)
        return torch.nn.functional.linear(
            hidden_states.to(weight.dtype).view(-1, weight.shape[1]), weight, convolution.bias
        )

    patches.forward = forward
