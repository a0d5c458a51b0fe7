from typing import Any

import torch

SAMPLER_NAMES: list[str]
SCHEDULER_NAMES: list[str]

class KSampler:
    sigmas: torch.Tensor
    def __init__(
        self,
        model: Any,
        steps: int,
        device: torch.device,
        sampler: str | None = None,
        scheduler: str | None = None,
        denoise: float | None = None,
    ) -> None: ...

class CFGGuider:
    def __init__(self, model_patcher: Any) -> None: ...
    def set_conds(self, positive: list, negative: list) -> None: ...
    def set_cfg(self, cfg: float) -> None: ...
    def sample(
        self,
        noise: torch.Tensor,
        latent_image: torch.Tensor,
        sampler: Any,
        sigmas: torch.Tensor,
        **options: Any,
    ) -> torch.Tensor: ...

def sampler_object(name: str) -> Any: ...
