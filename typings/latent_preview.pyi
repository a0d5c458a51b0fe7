from typing import Any

import torch

class LatentPreviewer:
    def decode_latent_to_preview_image(self, preview_format: str, x0: torch.Tensor) -> Any: ...

def get_previewer(device: torch.device, latent_format: Any) -> LatentPreviewer | None: ...
