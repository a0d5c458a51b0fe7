"""Parts of the small models of all families: a learned vocabulary, a chat template, sizes."""

from __future__ import annotations

from typing import Any

from support.tiny_checkpoint import ACCEPTED, REFUSED

TEXTS = [ACCEPTED, REFUSED, "Is it light? true false True False"] * 4


SIDE = 56


TEMPLATE = (
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{%- if message.content is string %}{{ message.content }}{% else %}{%- for part in message.content %}"
    "{%- if part.type == 'image' %}IMAGE{%- else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{%- endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 16384,
    "initializer_range": 0.08,
}


def tokenizer(*controls: str, **named: str) -> Any:
    """Return a byte-level tokenizer with these control tokens; `named` are those that the library needs."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # pyright: ignore[reportAttributeAccessIssue]
    learned.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    every = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *controls]
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=every,
        show_progress=False,
    )
    learned.train_from_iterator(TEXTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=learned,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=every,
        **named,
    )


def ids(words: Any, **names: str) -> dict[str, int]:
    return {name: words.convert_tokens_to_ids(token) for name, token in names.items()}


def template(image: str) -> str:
    return TEMPLATE.replace("IMAGE", image)


def rotary(sections: list[int]) -> dict[str, Any]:
    return {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": sections,
        "mrope_interleaved": True,
    }
