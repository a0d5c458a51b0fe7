"""Compares a tiny-world critic in GGUF with its safetensors, on questions about images it was not trained on.

    OMP_NUM_THREADS=1 python -m benchmarks.gguf_critic --out runs/gguf --converter .../convert_hf_to_gguf.py

llama.cpp joins 2 by 2 patches of an image to a token, and the shipped critic 1 by 1. So its language model
gets a vision tower with smaller patches, which is first trained on rendered images. How good the critic
becomes does not matter here: a worse critic is less certain, so rounding changes more of its answers.
llama.cpp's converter recognizes tokenizers by a table, which does not contain the tiny world's; a wrapper
names it. `llama-server` is needed, and `llama-quantize` for more than f16. The same command continues a
stopped training.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from interleave_thinker.backend.errors import InterleaveError
from interleave_thinker.backend.prompts.agent_card import AgentCard
from interleave_thinker.backend.prompts.trained_with import trained_with
from interleave_thinker.tinyworld.lab.data.critic_rows import make_rendered
from interleave_thinker.tinyworld.lab.data.prompts import PROMPT_SET
from interleave_thinker.tinyworld.lab.models.agents import PICTURE_SIDE
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.training.data.rows.row_sets import RowSet
from interleave_thinker.training.data.rows.sft import write_rows
from interleave_thinker.training.gguf.comparison import as_lines, compare, prepare_questions
from interleave_thinker.training.gguf.conversion import Conversion
from interleave_thinker.training.gguf.settings import GgufSettings
from interleave_thinker.training.sft.data import FINAL, SftData
from interleave_thinker.training.sft.train import SftTraining, train

PATCH, MERGE = 8, 2
ROWS_SEED, QUESTIONS_SEED = 70_000, 80_000
WRAPPER = """import sys
sys.path[:0] = [{folder!r}, {folder!r} + "/gguf-py"]
from conversion.base import TextModel
TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""


def untrained(folder: Path) -> Path:
    """Save the shipped critic with another vision tower, of which only the layers' weights are kept."""
    import torch
    from transformers import AutoConfig, AutoProcessor, Qwen3VLForConditionalGeneration

    shipped = checkpoint("critic")
    processor: Any = AutoProcessor.from_pretrained(shipped)
    for images in (processor.image_processor, processor.video_processor):
        images.patch_size, images.merge_size = PATCH, MERGE
    config = AutoConfig.from_pretrained(shipped)
    config.vision_config.patch_size, config.vision_config.spatial_merge_size = PATCH, MERGE
    config.vision_config.num_position_embeddings = (PICTURE_SIDE // PATCH) ** 2
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(config).float()
    own = model.state_dict()
    known = Qwen3VLForConditionalGeneration.from_pretrained(shipped, dtype=torch.float32).state_dict()
    fitting = {name: value for name, value in known.items() if value.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    PROMPT_SET.save(folder / "prompt_set")
    AgentCard(role="critic", image_pixels=PICTURE_SIDE**2).save(folder)
    return folder


def trained(out: Path, rows: int) -> Path:
    """Return the trained critic."""
    first = out / "untrained"
    if not first.exists():
        untrained(first)
    made = make_rendered(out / "rows", rows // 4, rows - rows // 4, ROWS_SEED)
    settings = SftTraining(
        num_train_epochs=1, per_device_train_batch_size=32, learning_rate=1e-3, warmup_steps=0.05,
        weight_decay=0.01, adam_beta2=0.98, freeze_vision=False, max_length=1024, device="cpu",
        image_pixels=PICTURE_SIDE**2, save_dtype="float16", save_steps=100, tensorboard=False, samples=0,
    )  # fmt: skip
    data = SftData(RowSet(made, out / "rows"), role="critic")
    final = out / "critic" / FINAL
    return final if final.exists() else train(first, data, out / "critic", settings, PROMPT_SET)


def measure(out: Path, rows: int, settings: GgufSettings) -> dict[str, Any]:
    """Train, convert and compare below `out`, print the table, and return its figures."""
    critic = trained(out, rows)
    write_rows(
        out / "questions" / "critic_sft.json", make_rendered(out / "questions", 0, 600, QUESTIONS_SEED)
    )
    wrapper = out / "convert.py"
    wrapper.write_text(WRAPPER.format(folder=str(Path(settings.converter or "").absolute().parent)))
    data = str(out / "questions" / "critic_sft.json")
    settings = settings.model_copy(update={"converter": str(wrapper), "compare_data": data})
    folder = out / "critic-gguf"
    files = Conversion.prepared(settings, critic, folder).run(critic, folder)
    questions = prepare_questions(trained_with(critic), settings)
    found = compare(critic, files, questions, settings)
    print("\n".join(as_lines(found)))
    return {
        one.file: {
            "rows": len(one.rows),
            "verdicts": one.equal,
            "texts": sum(row.same_text for row in one.rows),
        }
        for one in found
    }


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--converter", required=True)
    parser.add_argument("--converter-python")
    parser.add_argument("--quantize")
    parser.add_argument("--quantizer")
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--questions", type=int, default=200)
    options = vars(parser.parse_args())
    out, rows, questions = options.pop("out"), options.pop("rows"), options.pop("questions")
    try:
        settings = GgufSettings(**options, compare_rows=questions, compare_tokens=320, gpu_layers=0)
        found = measure(out, rows, settings)
    except InterleaveError as error:
        raise SystemExit(str(error)) from error
    print(json.dumps(found))


if __name__ == "__main__":
    main()
