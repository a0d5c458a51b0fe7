"""The tiny world's generator: a diffusers pipeline that generates or edits an image in four steps.

The flow runs in the latents of a linear codec, one token per cell, in a transformer of a few million weights;
a small UNet on raw pixels learned words many times more slowly. A T5 encoder reads the prompt, because
relative positions bind "red" to "fish" anywhere in the text. The source's latents are concatenated (zeros and
a flag for "none"), and the network predicts the change from them, which makes preserving content easy; the
velocity of the flow follows from it. Noise levels are shifted toward pure noise, as in large flow models,
because the content of an image is decided there.

The codec is fitted in closed form: with 96 principal components of all possible cells the image is preserved
(RMS error about 2 of 255) and each cell is a short vector. Components are scaled by the fourth root of their
variance: between raw, where only backdrops matter, and whitened, where noise does. Decoding is vector
quantization with soft assignment, as in a VQ autoencoder, with the atlas as codebook. Four sampling steps
leave a faint ghost of other content in every sixth image, and snapping to the nearest codes removes nearly
all of them (measured: 18 % unreadable images without it, 4 % with it).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from PIL import Image

from ..backend.core.errors import GeneratorError, SettingsError
from ..backend.models.checkpoints.model_folder import check_files, check_weights
from .drawing import CELL, PAGE, atlas

if TYPE_CHECKING:
    from diffusers.models.transformers.pixart_transformer_2d import PixArtTransformer2DModel
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
    from transformers import PreTrainedTokenizerFast, T5EncoderModel


class CellCodec(ModelMixin, ConfigMixin):
    """Encodes images `(n, 3, 3*cell, 3*cell)` in -1..1 to latents `(n, channels, 3, 3)`, and decodes them."""

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
        """Encode images `(n, 3, 3*cell, 3*cell)` to latents `(n, channels, 3, 3)`."""
        cells = torch.nn.functional.pixel_unshuffle(pages, self.cell).movedim(1, -1)
        return ((cells - self.mean) @ self.basis * self.scale).movedim(-1, 1)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Decode latents `(n, channels, 3, 3)` to images `(n, 3, 3*cell, 3*cell)`."""
        raw = latents.movedim(1, -1).flatten(1, 2) / self.scale
        codes = self._codes().to(raw)
        distances = torch.stack([torch.cdist(raw[:, cell], codes[cell]) ** 2 for cell in range(9)], 1)
        snapped = torch.einsum("ncl,clk->nck", torch.softmax(-distances / self.config["softness"], -1), codes)
        cells = snapped @ self.basis.T + self.mean
        return torch.nn.functional.pixel_shuffle(cells.unflatten(1, (3, 3)).movedim(-1, 1), self.cell)

    def _codes(self) -> torch.Tensor:
        """Return unscaled latents of every content on every backdrop, by cell: `(9, 4 * 41, channels)`."""
        if self._known is None:
            tiles = torch.tensor(atlas()).permute(0, 1, 2, 5, 3, 4).float() / 127.5 - 1
            flat = tiles.transpose(0, 1).flatten(1, 2).flatten(0, 1)
            cells = torch.nn.functional.pixel_unshuffle(flat, self.cell).flatten(1)
            known = (cells.to(self.mean) - self.mean) @ self.basis
            self._known = known.unflatten(0, (9, -1))
        return self._known


CHANNELS = 96
MAX_TOKENS = 64
LUCK_CHANNELS = 3
"""Noise channels of a cell that decide its mistakes."""
LUCK_SPREAD = 1.1
"""Factor by which luck is wider than in training.

Decoding repairs about half of the mistakes. With this factor every second story needs a critic.
"""


class TinyWorldPipeline(DiffusionPipeline):
    """`pipeline(prompts, sources, seeds)` generates a batch.

    Equal prompts, sources and seeds give equal images.
    """

    def __init__(
        self,
        transformer: PixArtTransformer2DModel,
        codec: CellCodec,
        scheduler: FlowMatchEulerDiscreteScheduler,
        text_encoder: T5EncoderModel,
        tokenizer: PreTrainedTokenizerFast,
    ) -> None:
        super().__init__()
        self.register_modules(
            transformer=transformer,
            codec=codec,
            scheduler=scheduler,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
        )

    @classmethod
    def load(cls, folder: Path) -> TinyWorldPipeline:
        """Load a folder written by `save_pretrained`, without network access and from safetensors only.

        The parts are loaded one by one because the general loader guesses classes, which is slow and noisy
        here.

        Raises:
            SettingsError: If the folder contains code, or a configuration that does not match its weights.
        """
        from diffusers.models.transformers.pixart_transformer_2d import PixArtTransformer2DModel
        from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
        from transformers import PreTrainedTokenizerFast, T5EncoderModel

        check_files(folder, SettingsError)
        for part in ("transformer", "codec", "text_encoder"):
            check_weights(folder / part, SettingsError)
        local: dict[str, Any] = {
            "local_files_only": True,
            "use_safetensors": True,
            "torch_dtype": torch.float32,
            # The default, stated explicitly: otherwise diffusers recommends installing accelerate, which a
            # few million weights do not need.
            "low_cpu_mem_usage": find_spec("accelerate") is not None,
        }
        text = {"local_files_only": True, "use_safetensors": True, "dtype": torch.float32}
        return cls(
            transformer=PixArtTransformer2DModel.from_pretrained(folder, subfolder="transformer", **local),
            codec=CellCodec.from_pretrained(folder, subfolder="codec", **local),
            text_encoder=T5EncoderModel.from_pretrained(folder / "text_encoder", **text),
            tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer", local_files_only=True),
            scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(folder, subfolder="scheduler"),  # pyright: ignore[reportArgumentType]
        )

    def encode(self, prompts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return text features `(n, tokens, width)` and their attention mask `(n, tokens)`."""
        tokens = self.tokenizer(
            prompts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(self.device)
        features = self.text_encoder(tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return features.last_hidden_state, tokens["attention_mask"]

    def place(self, pages: torch.Tensor, blank: torch.Tensor) -> torch.Tensor:
        """Encode source images `(n, 3, PAGE, PAGE)` in -1..1 as `(n, CHANNELS + 1, 3, 3)`.

        The last channel is a flag. Latents and flag are zero where `blank` `(n,)` is true.
        """
        there = (~blank).float().view(-1, 1, 1, 1)
        return torch.cat([self.codec.encode(pages) * there, there.expand(-1, 1, 3, 3)], 1)

    def predict(
        self,
        noisy: torch.Tensor,
        source: torch.Tensor,
        sigma: torch.Tensor,
        text: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Predict clean latents `(n, CHANNELS, 3, 3)`.

        Args:
            noisy: Noisy latents `(n, CHANNELS, 3, 3)`.
            source: Result of `place`, `(n, CHANNELS + 1, 3, 3)`.
            sigma: Noise levels `(n,)`, from 0 to 1.
            text: Text features `(n, tokens, width)`.
            mask: Attention mask `(n, tokens)`.
        """
        change = self.transformer(
            torch.cat([noisy, source], 1),
            encoder_hidden_states=text,
            timestep=sigma * 1000.0,
            encoder_attention_mask=mask,
            added_cond_kwargs={"resolution": None, "aspect_ratio": None},
        ).sample
        return source[:, :-1] + change

    @torch.inference_mode()
    def __call__(
        self,
        prompts: list[str],
        sources: list[Image.Image | None],
        seeds: list[int],
        num_inference_steps: int = 4,
    ) -> list[Image.Image]:
        """Generate one image per prompt. `sources` are images of any size, or `None`.

        Raises:
            GeneratorError: If the pixels are not finite.
        """
        text, mask = self.encode(prompts)
        blank = torch.tensor([image is None for image in sources], device=self.device)
        source = self.place(torch.stack([_pixels(image) for image in sources]).to(self.device), blank)
        shape = (CHANNELS, 3, 3)
        noise = [torch.randn(shape, generator=torch.Generator("cpu").manual_seed(seed)) for seed in seeds]
        state = torch.stack(noise).to(self.device)
        state[:, :LUCK_CHANNELS] *= LUCK_SPREAD
        sigmas = [1.0 - index / num_inference_steps for index in range(num_inference_steps)]
        self.scheduler.set_timesteps(sigmas=sigmas, device=self.device)
        for index, timestep in enumerate(self.scheduler.timesteps):
            sigma = self.scheduler.sigmas[index]
            clean = self.predict(state, source, sigma.expand(len(prompts)), text, mask)
            state = self.scheduler.step((state - clean) / sigma, timestep, state, return_dict=False)[0]
        decoded = self.codec.decode(state)
        if not torch.isfinite(decoded).all():
            raise GeneratorError(
                "The generated pixels are not finite (NaN or infinite).",
                "Use another checkpoint: the weights of this one are damaged.",
            )
        pages = ((decoded.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
        return [Image.fromarray(page.permute(1, 2, 0).cpu().numpy()) for page in pages]


def _pixels(image: Image.Image | None) -> torch.Tensor:
    if image is None:
        return torch.ones(3, PAGE, PAGE)
    import numpy as np

    if image.size != (PAGE, PAGE):
        image = image.resize((PAGE, PAGE), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 127.5 - 1
