"""The tiny world's learned generator: a diffusers pipeline that draws a page, or edits one, from a prompt in
four steps.

Decisions. The flow lives in the latents of a linear codec (codec.py), one token a cell, in a transformer of a
few million weights: a small UNet and raw pixels learned words many times slower. A T5 encoder reads the
prompt, because relative positions bind "red" to "fish" wherever they stand. The source's latents are
concatenated (zeros and a flag for "none"), and the network predicts the change from them, which makes keeping
things easy; the flow's velocity follows. Noise levels are shifted towards pure noise, as large-image flow
models do, because all decisions about a page fall there.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from diffusers.pipelines.pipeline_utils import DiffusionPipeline
from PIL import Image

from ...backend.checkpoints.model_folder import check_files, check_weights
from ...backend.errors import GeneratorError, SettingsError
from .codec import CellCodec
from .drawing import PAGE

if TYPE_CHECKING:
    from diffusers.models.transformers.pixart_transformer_2d import PixArtTransformer2DModel
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
    from transformers import PreTrainedTokenizerFast, T5EncoderModel

CHANNELS = 96
MAX_TOKENS = 64
SHIFT = 2.0
LUCK_CHANNELS = 3
"""Channels of a cell's noise that say whether it goes wrong, and how
(tinyworld/lab/models/generator_batches.py)."""
LUCK_SPREAD = 1.1
"""Luck is drawn this much wider than in training, since decoding mends about half of what would have gone
wrong: a world in which every second story needs a critic."""


class TinyWorldPipeline(DiffusionPipeline):
    """`pipeline(prompts, sources, seeds)` draws a batch; the same prompt, source and seed give the same
    page."""

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
        """Read a folder that `save_pretrained` wrote, without the network and from safetensors only. Raises
        SettingsError for one that brings code, or describes more than its weights.

        The parts are read one by one because the general loader guesses at classes, which is slow and noisy
        here.
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
            # The default, said: diffusers recommends to install accelerate otherwise, which a few million
            # weights do not need.
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
        """Text features [n, tokens, width] and their attention mask [n, tokens]."""
        tokens = self.tokenizer(
            prompts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="pt"
        ).to(self.device)
        features = self.text_encoder(tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return features.last_hidden_state, tokens["attention_mask"]

    def place(self, pages: torch.Tensor, blank: torch.Tensor) -> torch.Tensor:
        """Source pages [n, 3, PAGE, PAGE] in -1..1 as [n, CHANNELS + 1, 3, 3]: latents, zeros where `blank`
        [n]; a flag."""
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
        """Clean latents [n, CHANNELS, 3, 3] from noisy ones at noise level sigma [n] in 0..1; `source` from
        `place`."""
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
        """Draw one page a prompt; `sources` are images, scaled to PAGE x PAGE pixels, or None."""
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
                "The pixels are not finite numbers (NaN or infinite).",
                "Use another checkpoint: its weights are broken.",
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


def untrained_parts(vocabulary: list[str], heads: int = 6, layers: int = 6) -> dict[str, Any]:
    """Fresh modules for training: a transformer, a two-layer T5 encoder, a word tokenizer, a scheduler."""
    from diffusers.models.transformers.pixart_transformer_2d import PixArtTransformer2DModel
    from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

    words = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *vocabulary])}
    phrases = [AddedToken(word, normalized=True) for word in vocabulary if " " in word]
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.normalizer = normalizers.Lowercase()  # pyright: ignore[reportAttributeAccessIssue]
    raw.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    raw.add_tokens(phrases)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")
    text_encoder = T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=128,
            d_kv=32,
            num_heads=4,
            num_layers=2,
            d_ff=256,
            dropout_rate=0.0,
            pad_token_id=0,
            is_encoder_decoder=False,
        )
    )
    # A thing and its place stand a fixed number of words apart. Attention that starts out looking at fixed
    # distances finds that; from the library's 0.09 pages with two things had them swapped half of the time,
    # however long it learned.
    for name, weight in text_encoder.named_parameters():
        if "relative_attention_bias" in name:
            torch.nn.init.normal_(weight, std=4.0)
    transformer = PixArtTransformer2DModel(
        num_attention_heads=heads,
        attention_head_dim=32,
        num_layers=layers,
        cross_attention_dim=32 * heads,
        caption_channels=128,
        in_channels=2 * CHANNELS + 1,
        out_channels=CHANNELS,
        sample_size=3,
        patch_size=1,
        norm_num_groups=1,
        interpolation_scale=0.05,  # pyright: ignore[reportArgumentType] - cells 20 apart, else their codes are alike
        use_additional_conditions=False,
    )
    # Weights of 1/sqrt(fan-in) instead of the library's 0.58 of that: words are heard sooner.
    for name, module in transformer.named_modules():
        if isinstance(module, torch.nn.Linear) and not name.startswith("adaln_single"):
            torch.nn.init.normal_(module.weight, std=module.in_features**-0.5)
    torch.nn.init.zeros_(transformer.proj_out.weight)
    return {
        "transformer": transformer,
        "codec": CellCodec.fitted(CHANNELS),
        "text_encoder": text_encoder,
        "tokenizer": tokenizer,
        "scheduler": FlowMatchEulerDiscreteScheduler(shift=SHIFT),
    }
