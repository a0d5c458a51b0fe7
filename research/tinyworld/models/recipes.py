"""Small untrained instances of the Qwen3-VL classes, which run the real code in tests and experiments.

With the real vocabulary of 151 936 tokens the head would be many times larger than the rest, so a byte-level
BPE is learned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONTROLS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{% else %}"
    "{%- for part in message.content %}"
    "{%- if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A turn's text follows its role without a line break, as measured for docs/explanation/speed.md."""


@dataclass(frozen=True)
class ImageTokens:
    """How images become tokens.

    Attributes:
        pixels: Minimum and maximum number of pixels.
        patch: Side of a patch in pixels.
        merge: `merge` by `merge` patches form a token.
    """

    pixels: tuple[int, int]
    patch: int
    merge: int

    def options(self) -> dict[str, Any]:
        """Return the settings with the names of the transformers library."""
        return {
            "size": {"shortest_edge": self.pixels[0], "longest_edge": self.pixels[1]},
            "patch_size": self.patch,
            "merge_size": self.merge,
        }


def learn_processor(
    texts: Iterable[str],
    entries: int,
    pictures: ImageTokens,
) -> Any:
    """Create a processor with at most `entries` learned tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLImageProcessor,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    learned.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=list(CONTROLS),
        show_progress=False,
    )
    learned.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="right",
        additional_special_tokens=list(CONTROLS),
        model_max_length=4096,
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        vision_start_token="<|vision_start|>",
        vision_end_token="<|vision_end|>",
    )
    shown = pictures.options()
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(**shown),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**shown),
        chat_template=TEMPLATE,
    )


def save_untrained(
    folder: Path,
    processor: Any,
    text: dict[str, Any],
    vision: dict[str, Any],
    seed: int,
) -> Path:
    """Save a model with random weights and its processor.

    Args:
        folder: Folder to write.
        processor: The processor.
        text: Settings of the language model that do not follow from the processor.
        vision: Settings of the vision tower that do not follow from the processor or the language model.
        seed: Seed of the weights.
    """
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    ids = {name: processor.tokenizer.convert_tokens_to_ids(name) for name in CONTROLS}
    config = Qwen3VLConfig(
        text_config=text,
        vision_config={
            "patch_size": processor.image_processor.patch_size,
            "spatial_merge_size": processor.image_processor.merge_size,
            "temporal_patch_size": 2,
            "out_hidden_size": text["hidden_size"],
            **vision,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = ids["<|im_end|>"]
    model.generation_config.pad_token_id = ids["<|endoftext|>"]
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def rotary(theta: float, *sections: int) -> dict[str, Any]:
    """Return settings of rotary positions with interleaved sections for time, height and width."""
    return {
        "rope_type": "default",
        "rope_theta": theta,
        "mrope_section": list(sections),
        "mrope_interleaved": True,
    }
