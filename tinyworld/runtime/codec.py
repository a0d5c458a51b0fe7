"""The latent space of the tiny world's generator: a linear autoencoder of cells, fitted in closed form.

Decision: flow matching on the raw 3072 numbers of a cell learned words too slowly on a CPU. The principal
components of all cells that can occur keep the picture (RMS error about 2 of 255 with 96 of them) and leave
the flow a short vector a cell. Components are scaled by the fourth root of their variance: between raw, where
only backdrops count, and whitened, where noise does. Decoding is vector quantisation with a soft assignment,
as in a VQ autoencoder, whose codebook is the atlas: four sampling steps leave a faint ghost of what a cell
might also have held on every sixth page, and the nearest codes take nearly all of them away (measured: 18 %
of pages unreadable without, 4 % with); only what is torn between two stays a ghost.
"""

from __future__ import annotations

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin

from .drawing import CELL, atlas
from .scene import EMPTY

EMPTY_WEIGHT = 20.0


class CellCodec(ModelMixin, ConfigMixin):
    """Pages [n, 3, 3*cell, 3*cell] in -1..1 to latents [n, channels, 3, 3] and back."""

    @register_to_config
    def __init__(self, channels: int = 96, cell: int = CELL, softness: float = 40.0) -> None:
        super().__init__()
        self.cell = cell
        numbers = 3 * cell * cell
        self.mean = torch.nn.Parameter(torch.zeros(numbers), requires_grad=False)
        self.basis = torch.nn.Parameter(torch.zeros(numbers, channels), requires_grad=False)
        self.scale = torch.nn.Parameter(torch.ones(channels), requires_grad=False)
        self._known: torch.Tensor | None = None

    def encode(self, pages: torch.Tensor) -> torch.Tensor:
        cells = torch.nn.functional.pixel_unshuffle(pages, self.cell).movedim(1, -1)
        return ((cells - self.mean) @ self.basis * self.scale).movedim(-1, 1)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        raw = latents.movedim(1, -1).flatten(1, 2) / self.scale
        codes = self._codes().to(raw)
        distances = torch.stack([torch.cdist(raw[:, cell], codes[cell]) ** 2 for cell in range(9)], 1)
        snapped = torch.einsum("ncl,clk->nck", torch.softmax(-distances / self.config["softness"], -1), codes)
        cells = snapped @ self.basis.T + self.mean
        return torch.nn.functional.pixel_shuffle(cells.unflatten(1, (3, 3)).movedim(-1, 1), self.cell)

    def _codes(self) -> torch.Tensor:
        """Unscaled latents of every content on every backdrop, by cell: [9, 4 * 41, channels]."""
        if self._known is None:
            tiles = torch.tensor(atlas()).permute(0, 1, 2, 5, 3, 4).float() / 127.5 - 1
            flat = tiles.transpose(0, 1).flatten(1, 2).flatten(0, 1)
            cells = torch.nn.functional.pixel_unshuffle(flat, self.cell).flatten(1)
            known = (cells.to(self.mean) - self.mean) @ self.basis
            self._known = known.unflatten(0, (9, -1))
        return self._known

    @classmethod
    def fitted(cls, channels: int = 96) -> CellCodec:
        """The codec of this world's cells: principal components of the atlas, empty cells counting
        EMPTY_WEIGHT times."""
        tiles = torch.tensor(atlas()).permute(0, 1, 2, 5, 3, 4).double() / 127.5 - 1
        weight = torch.ones(tiles.shape[:3], dtype=torch.float64)
        weight[:, :, EMPTY] = EMPTY_WEIGHT
        weight = (weight / weight.sum()).flatten()[:, None]
        cells = tiles.flatten(3).flatten(0, 2)
        mean = (weight * cells).sum(0)
        _, spread, directions = torch.linalg.svd((cells - mean) * weight.sqrt(), full_matrices=False)
        spread, directions = spread[:channels], directions[:channels]
        # The sign of a principal component is arbitrary; fixing it makes the codec the same on every machine.
        directions = directions * directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()
        scale = spread.rsqrt()
        scale = scale / ((spread * scale) ** 2).mean().sqrt()
        codec = cls(channels=channels)
        codec.mean.data = mean.float()
        codec.basis.data = directions.T.float().contiguous()
        codec.scale.data = scale.float()
        return codec
