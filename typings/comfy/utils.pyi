from typing import Any

import torch

PROGRESS_BAR_ENABLED: bool

class ProgressBar:
    def __init__(self, total: int, node_id: str | None = None) -> None: ...
    def update_absolute(self, value: int, total: int | None = None, preview: Any = None) -> None: ...

def common_upscale(
    samples: torch.Tensor, width: int, height: int, upscale_method: str, crop: str
) -> torch.Tensor: ...
