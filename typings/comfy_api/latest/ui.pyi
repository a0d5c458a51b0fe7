from typing import Any

import torch

from . import io

class PreviewImage:
    values: list[dict[str, Any]]
    def __init__(
        self, image: torch.Tensor, animated: bool = False, cls: type[io.ComfyNode] | None = None
    ) -> None: ...
