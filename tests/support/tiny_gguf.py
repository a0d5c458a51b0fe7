"""Writes a tiny language model in GGUF with random weights, for tests with a real llama-server.

Its vocabulary is the 256 bytes and five control tokens, so that it can read any text. It generates only
printable ASCII and never ends a reply on its own, so that every reply has the requested number of tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

LAYERS, WIDTH, HEADS, HIDDEN = 2, 32, 2, 64
CONTEXT = 32768
SEED = 34
CONTROL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
PRINTABLE = range(32, 127)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_gguf(path: Path) -> Path:
    """Write the model and return its path. Needs the package `gguf`."""
    from gguf import GGUFWriter, TokenType

    writer = GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    tokens = [*CONTROL, *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    kinds = [TokenType.UNKNOWN, *[TokenType.CONTROL] * (len(CONTROL) - 1), *[TokenType.BYTE] * 256]
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(len(CONTROL) - 1)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    for name, values in _weights(len(tokens)).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _weights(vocabulary: int) -> dict[str, np.ndarray]:
    """Return the tensors by name, each of shape (outputs, inputs)."""
    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    output = np.zeros((vocabulary, WIDTH), np.float32)
    # A zero row gives the logit 0, which is below the largest of the 95 random ones.
    output[[len(CONTROL) + byte for byte in PRINTABLE]] = matrix(len(PRINTABLE), WIDTH)
    tensors = {"token_embd.weight": matrix(vocabulary, WIDTH), "output_norm.weight": ones}
    tensors["output.weight"] = output
    for layer in range(LAYERS):
        shapes = {f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")}
        shapes |= {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
        tensors |= {f"blk.{layer}.{name}.weight": matrix(*shape) for name, shape in shapes.items()}
        tensors |= {f"blk.{layer}.{name}_norm.weight": ones for name in ("attn", "ffn")}
    return tensors
