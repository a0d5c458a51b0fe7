"""Recipes of the tiny world's checkpoints, with the settings of the shipped ones.

A recipe consists of data, an untrained model and the regular SFT. Every part is seeded and skipped if its
result exists, so that a stopped run continues. Only finished results are moved into place.

The untrained agents are small instances of the Qwen3-VL classes, so that they run the real code; tests and
experiments make theirs here too. With the real vocabulary of 151 936 tokens the head would be many times
larger than the rest, so a byte-level BPE is learned. Some choices were measured: images are scaled to 48x48
pixels and cut into nine patches, because only with one token per cell could so small a model see. Weights
start at 1/sqrt(width); otherwise vision never improved. Fixed fragments of answers and names of cells are
single tokens, so that answers are short.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from ....backend.core.errors import SettingsError, TrainingError
from ....backend.core.files.atomic import writing_folder
from ....backend.core.types.values import DIRECT
from ....tinyworld.generator import load_pipeline
from ....tinyworld.scene import CELLS, IDENTITIES, name_of
from ....training.rows.sft import RowSet, SftRow, read_rows, write_rows
from ....training.stages.sft import SftData, SftTraining, train
from ..data.critic_rows import PROMPT_SET, make_mistakes, make_real, make_rendered
from ..data.planner_rl import in_buckets, make

if TYPE_CHECKING:
    import torch

    from ....tinyworld.pipeline import TinyWorldPipeline


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
        more: Other settings of the image processor.
    """

    pixels: tuple[int, int]
    patch: int
    merge: int
    more: Mapping[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Return the settings with the names of the transformers library."""
        return {
            "size": {"shortest_edge": self.pixels[0], "longest_edge": self.pixels[1]},
            "patch_size": self.patch,
            "merge_size": self.merge,
            **self.more,
        }


def learn_processor(
    texts: Iterable[str],
    entries: int,
    pictures: ImageTokens,
    *,
    fragments: Sequence[str] = (),
    template: str = TEMPLATE,
    padding_side: str = "right",
) -> Any:
    """Create a processor with at most `entries` learned tokens; each fragment is an additional token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
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
    learned.add_tokens([AddedToken(text, normalized=False) for text in fragments])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=learned,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side=padding_side,
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
        chat_template=template,
    )


def save_untrained(
    folder: Path,
    processor: Any,
    text: dict[str, Any],
    vision: dict[str, Any],
    seed: int,
    prepare: Callable[[Any], None] | None = None,
) -> Path:
    """Save a model with random weights and its processor.

    Args:
        folder: Folder to write.
        processor: The processor.
        text: Settings of the language model that do not follow from the processor.
        vision: Settings of the vision tower that do not follow from the processor or the language model.
        seed: Seed of the weights.
        prepare: Changes the weights before saving.
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
    if prepare is not None:
        prepare(model)
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


NAMES = [f" {name_of(identity)}" for identity in range(1, IDENTITIES)]
FRAGMENTS = [
    "<think>",
    "</think>",
    "\n\n<answer>",
    "</answer>",
    '{"execution_plan": [{"step_number": ',
    '}, {"step_number": ',
    '"}, {"step_number": ',
    ', "step_name": "',
    '", "instruction": "',
    '", "instruction": null',
    '", "prompt": "',
    ', "prompt": null',
    '", "auxiliary_text": "',
    '", "auxiliary_text": null',
    ', "auxiliary_text": "',
    "}]}",
    '"}]}',
    '{"previous_step_success": ',
    "true",
    "false",
    ', "refine_prompt": "',
    '"}',
    *[f" {cell}" for cell in CELLS if " " in cell],
]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% "
    "endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PICTURE_SIDE, WIDTH, VOCABULARY = 48, 160, 700
PICTURES = {"temporal_patch_size": 2, "image_mean": [1.0] * 3, "image_std": [0.5] * 3}


def untrained(folder: Path, corpus: Iterable[str], layers: int, seed: int, seeing: int = 0) -> Path:
    """Create a checkpoint folder with tokenizer, processor and random weights.

    Args:
        folder: Folder to write.
        corpus: Texts to learn the vocabulary from.
        layers: Layers of the language model.
        seed: Seed of the weights.
        seeing: For a critic: side of its images in pixels (default: PICTURE_SIDE). Names of colored things
            are then single tokens, and the patch embedding starts at the principal components of cells (see
            `_see_cells`).
    """
    import torch

    side = seeing or PICTURE_SIDE
    processor = learn_processor(
        _without_fragments(corpus),
        VOCABULARY,
        ImageTokens((side**2, side**2), side // 3, 1, PICTURES),
        fragments=[*FRAGMENTS, *(NAMES if seeing else [])],
        template=CHAT_TEMPLATE,
        padding_side="left",
    )

    def prepare(model: Any) -> None:
        torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=0.5)
        if seeing:
            _see_cells(model.model.visual.patch_embed.proj)

    text = {
        "vocab_size": len(processor.tokenizer),
        "hidden_size": WIDTH,
        "intermediate_size": 3 * WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": WIDTH // 32,
        "num_key_value_heads": WIDTH // 32,
        "head_dim": 32,
        "max_position_embeddings": 4096,
        "rope_parameters": rotary(10000.0, 4, 6, 6),
        "initializer_range": 0.08,
        "tie_word_embeddings": True,
        "pad_token_id": processor.tokenizer.pad_token_id,
        "eos_token_id": processor.tokenizer.eos_token_id,
    }
    vision = {
        "depth": 2,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_heads": 4,
        "num_position_embeddings": 9,
        "deepstack_visual_indexes": [0],
        "initializer_range": 0.08,
    }
    save_untrained(folder, processor, text, vision, seed, prepare)
    PROMPT_SET.save(folder / "prompt_set")
    return folder


def _see_cells(embedding: torch.nn.Conv3d) -> None:
    """Set a patch embedding to the principal components of all cells, each with about unit variance.

    From random weights, colors were told apart after a few hundred steps but shapes were not.
    """
    import torch

    from ....tinyworld.drawing import atlas

    tiles = torch.tensor(atlas()).permute(0, 1, 2, 5, 3, 4).flatten(0, 2).float() / 255
    small = torch.nn.functional.interpolate(tiles, size=tuple(embedding.weight.shape[-2:]), mode="area")
    pixels = ((small - 1.0) / 0.5).flatten(1).double()
    mean = pixels.mean(0)
    _, spread, directions = torch.linalg.svd(pixels - mean, full_matrices=False)
    count = embedding.weight.shape[0]
    directions = directions[:count]
    directions = directions * directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()
    variance = spread[:count] ** 2 / len(pixels)
    weight = directions / (variance + 0.01 * variance.mean()).sqrt()[:, None]
    frames = embedding.weight.shape[2]
    shaped = weight.reshape(count, 3, 1, *small.shape[-2:]).expand(-1, -1, frames, -1, -1) / frames
    with torch.no_grad():
        embedding.weight.copy_(shaped)
        assert embedding.bias is not None
        embedding.bias.copy_(-(weight @ mean))


def _without_fragments(corpus: Iterable[str]) -> Iterable[str]:
    """Yield texts without the fragments that become separate tokens, for learning the vocabulary."""
    for text in corpus:
        for fragment in FRAGMENTS:
            text = text.replace(fragment, "\n" if fragment.startswith((" ", "\n")) else "")
        yield text


MAX_SHARDS = 12

Log = Callable[[str], None]


Device = Annotated[Literal["auto", "cpu"], Field(description="Where to train: auto uses a GPU if available.")]
Bf16 = Annotated[
    bool,
    Field(description="Train in bfloat16, which is 1.7 times as fast on processors that support it."),
]
Workers = Annotated[int, Field(ge=0, description="Processes that load and prepare images.")]


class PlannerRecipe(BaseModel):
    """Settings of `train tinyworld-planner`."""

    rows: int = Field(
        default=96000, ge=32, description="Requests to train on, each used once.", json_schema_extra=DIRECT
    )
    layers: int = Field(default=4, ge=1, description="Layers of the language model.")
    learning_rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate.")
    per_device_train_batch_size: int = Field(default=16, ge=1, description="Rows per optimizer step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and requests.", json_schema_extra=DIRECT)
    device: Device = "auto"
    bf16: Bf16 = True
    dataloader_num_workers: Workers = 0


class CriticRecipe(BaseModel):
    """Settings of `train tinyworld-critic`: rendered images, generated images, mistakes of the generator."""

    describe: int = Field(
        default=9600, ge=0, description="Rows that teach describing images, before all others."
    )
    rendered: int = Field(
        default=54400,
        ge=1,
        description="Rows with rendered images and invented mistakes.",
        json_schema_extra=DIRECT,
    )
    real: int = Field(default=24000, ge=1, description="Rows with generated images, half of them correct.")
    mistakes: int = Field(
        default=8000,
        ge=1,
        description="Rows per round with mistakes of the generator and correct images.",
    )
    rounds: int = Field(default=2, ge=1, description="Number of such rounds, each with new images.")
    layers: int = Field(default=3, ge=1, description="Layers of the language model.")
    learning_rate: float = Field(default=1.5e-3, gt=0, description="Peak learning rate on rendered images.")
    real_learning_rate: float = Field(
        default=1.2e-3, gt=0, description="Peak learning rate on generated images."
    )
    last_learning_rate: float = Field(
        default=6e-4, gt=0, description="Peak learning rate on the generator's mistakes."
    )
    per_device_train_batch_size: int = Field(default=32, ge=1, description="Rows per optimizer step.")
    seed: int = Field(default=0, ge=0, description="Seed of weights and images.", json_schema_extra=DIRECT)
    page_side: int = Field(default=48, ge=12, le=96, description="Side in pixels to which images are scaled.")
    device: Device = "auto"
    bf16: Bf16 = True
    dataloader_num_workers: Workers = 0


def sft_settings(rate: float, recipe: PlannerRecipe | CriticRecipe, ordered: bool) -> SftTraining:
    """Return the SFT settings shared by all tiny-world models.

    Args:
        rate: Peak learning rate.
        recipe: Recipe with batch size, device and seed.
        ordered: Use the rows in the given order instead of a random one.
    """
    return SftTraining(
        num_train_epochs=1,
        per_device_train_batch_size=recipe.per_device_train_batch_size,
        learning_rate=rate,
        warmup_steps=0.05,
        weight_decay=0.01,
        adam_beta2=0.98,
        freeze_vision=False,
        train_sampling_strategy="sequential" if ordered else "random",
        save_steps=250,
        device=recipe.device,
        bf16=recipe.bf16,
        gradient_checkpointing=False,
        dataloader_num_workers=recipe.dataloader_num_workers,
        save_dtype="float16",
        seed=recipe.seed,
    )


def stored_rows(folder: Path, name: str, make_rows: Callable[[Path], list[SftRow]], log: Log) -> list[SftRow]:
    """Return the rows in `folder / name`; they are created if missing."""
    path = folder / name
    if not path.exists():
        log(f"creating {path.name}")
        write_rows(path, make_rows(folder))
    return read_rows(path)


PageRows = Callable[[Path, "TinyWorldPipeline", int, int], list[SftRow]]


def _image_rows(
    data: Path, name: str, make_rows: PageRows, drawing: tuple[Path, int, int], log: Log
) -> list[SftRow]:
    """Return the rows about generated images in the data file `name`; they are created if missing.

    `drawing` is the generator's folder, the number of rows, and the first seed. Rows are made in shards, each
    with a seed of its own.
    """
    generator, count, seed = drawing
    shards = max(1, min(MAX_SHARDS, count // 1000))
    counts = [count // shards + (number < count % shards) for number in range(shards)]

    def all_rows(folder: Path) -> list[SftRow]:
        pipeline = load_pipeline(generator)
        made = (make_rows(folder, pipeline, size, seed + number) for number, size in enumerate(counts))
        return [row for rows in made for row in rows]

    return stored_rows(data, name, all_rows, log)


def texts_of(rows: list[SftRow]) -> list[str]:
    """Return questions and answers for learning a vocabulary."""
    return [message.content for row in rows for message in row.messages]


def publish(checkpoint: Path, out: Path) -> Path:
    """Copy a finished checkpoint to `out / "checkpoint"`, without files needed only for training."""
    ready = out / "checkpoint"
    unwanted = shutil.ignore_patterns("training_args.bin", "*.pt", "README.md")
    with writing_folder(ready, TrainingError, "The checkpoint") as temporary:
        shutil.copytree(checkpoint, temporary, ignore=unwanted, dirs_exist_ok=True)
    return ready


def train_planner(out: Path, recipe: PlannerRecipe, start: Path | None = None, log: Log = print) -> Path:
    """Train the tiny planner below `out` and return its checkpoint folder.

    Args:
        out: Folder of the training.
        recipe: Settings.
        start: Checkpoint of a planner to start from (its vocabulary is kept); `None` starts from random
            weights.
        log: Receives progress lines.

    Raises:
        SettingsError: If `start` is not a planner's checkpoint.
    """
    if start is not None and not (start / "prompt_set").is_dir():
        raise SettingsError(
            f"{str(start)!r} is not a planner checkpoint (it has no prompt_set folder).",
            "Pass the checkpoint folder of a tiny-world planner.",
        )
    data = out / "data"
    rows = stored_rows(data, "planner_sft.json", lambda folder: make(folder, recipe.rows, recipe.seed), log)
    fresh = start or out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(fresh, texts_of(rows[:4000]), recipe.layers, recipe.seed)
    settings = sft_settings(recipe.learning_rate, recipe, ordered=True)
    ordered = RowSet(in_buckets(rows, recipe.per_device_train_batch_size, recipe.seed), data)
    made = train(fresh, SftData(ordered), out / "sft", settings, PROMPT_SET, log)
    return publish(made, out)


def train_critic(out: Path, generator: Path, recipe: CriticRecipe, log: Log = print) -> Path:
    """Train the tiny critic below `out` for a generator's pipeline folder; returns its checkpoint folder."""
    data = out / "data"
    rows = stored_rows(
        data,
        "critic_rendered_sft.json",
        lambda folder: make_rendered(folder, recipe.describe, recipe.rendered, recipe.seed),
        log,
    )
    fresh = out / "untrained"
    if not (fresh / "prompt_set").exists():
        untrained(
            fresh, texts_of([*rows[:1000], *rows[-4000:]]), recipe.layers, recipe.seed, recipe.page_side
        )
    first = out / "rendered" / "final"
    if not (first / "prompt_set").exists():
        settings = sft_settings(recipe.learning_rate, recipe, ordered=True)
        train(fresh, SftData(RowSet(rows, data)), out / "rendered", settings, PROMPT_SET, log)
    seed = recipe.seed * 10_000
    rows = _image_rows(data, "critic_sft.json", make_real, (generator, recipe.real, seed), log)
    second = out / "real" / "final"
    if not (second / "prompt_set").exists():
        settings = sft_settings(recipe.real_learning_rate, recipe, ordered=False)
        train(first, SftData(RowSet(rows, data)), out / "real", settings, PROMPT_SET, log)
    latest = second
    for number in range(recipe.rounds):
        name, seed = f"critic_mistakes_{number}_sft.json", recipe.seed * 10_000 + 1000 * (number + 1)
        rows = _image_rows(data, name, make_mistakes, (generator, recipe.mistakes, seed), log)
        finished = out / f"mistakes_{number}" / "final"
        if not (finished / "prompt_set").exists():
            settings = sft_settings(recipe.last_learning_rate, recipe, ordered=False)
            train(latest, SftData(RowSet(rows, data)), finished.parent, settings, PROMPT_SET, log)
        latest = finished
    return publish(latest, out)
