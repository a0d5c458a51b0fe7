"""Samples several answers of the starting model to each question, and caches them.

All questions are answered before anything is generated or judged. The model is unloaded by then, so that it
and the generator never need the GPU at the same time. The cache key includes everything that an answer
depends on: the same command resumes after an interruption, and another scorer judges the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ....backend.chat.chat_template import opens_thought, rendered
from ....backend.chat.protocol import THOUGHT
from ....backend.checkpoints.checkpoint import checkpoint_digest
from ....backend.checkpoints.loaded import load_whole
from ...content_cache import ContentCache, key_of
from ...gate.held_out import greedy_answers
from ...trainer.model_loading import load_processor, silence_libraries


class SampledPairs(BaseModel):
    """Settings of sampling, and of which answers make a pair."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    samples: int = Field(default=8, ge=2, le=64, description="Answers sampled for each question.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Sampling temperature of the answers.")
    max_completion_length: int = Field(
        default=1024,
        ge=16,
        serialization_alias="answer_tokens",
        description="Maximum length of an answer, in tokens.",
    )
    sample_batch: int = Field(default=16, ge=1, description="Answers generated at once.")
    least_margin: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Minimum difference in reward (0-1) between the best and the worst answer. Questions "
        "with closer answers make no pair.",
    )
    pixels: int = Field(
        default=1_048_576,
        ge=1024,
        description="Largest area of a shown image, in pixels. Larger images are scaled down.",
    )
    device: Literal["auto", "cpu"] = Field(
        default="auto", description="Device that generates the answers. auto: the GPU if there is one."
    )
    seed: int = Field(default=0, ge=0, description="Sampling seed of the answers.")


def sampled_answers(
    checkpoint: Path,
    questions: Sequence[dict[str, Any]],
    settings: SampledPairs,
    kept: ContentCache,
    log: Callable[[str], None],
) -> list[list[str]]:
    """Return `settings.samples` answers of the checkpoint to each question, from the cache where possible.

    Args:
        checkpoint: Folder of the model.
        questions: Questions with `prompt`, `images` (paths) and `row` (identifies the row).
        settings: Settings of sampling.
        kept: Cache of answers.
        log: Called with every line of progress.
    """
    digest = checkpoint_digest(checkpoint)
    # The cache key uses the names that the settings had when answers were first cached.
    how = settings.model_dump_json(by_alias=True, exclude={"sample_batch", "least_margin", "device"})
    processor = load_processor(checkpoint)
    keys = []
    for one in questions:
        asked = rendered(processor, one["prompt"])
        # Answers that were cached without the thought that their template opens are not valid.
        opened = [THOUGHT] if opens_thought(asked) else []
        keys.append(key_of("samples", digest, how, one["row"], json.dumps(one["prompt"]), *opened))
    available = {key: text for key in keys if (text := kept.text(key)) is not None}
    missing = [(key, one) for key, one in zip(keys, questions, strict=True) if key not in available]
    if available:
        log(f"{len(available)} of {len(questions)} questions have cached answers")
    for done, (key, answers) in enumerate(_written(checkpoint, processor, missing, settings), 1):
        available[key] = json.dumps(answers, ensure_ascii=False)
        kept.keep_text(key, available[key])
        if done % 20 == 0 or done == len(missing):
            log(f"{done} of {len(missing)} questions answered")
    return [json.loads(available[key]) for key in keys]


def _written(
    checkpoint: Path, processor: Any, asked: Sequence[tuple[str, dict[str, Any]]], settings: SampledPairs
) -> Iterator[tuple[str, list[str]]]:
    if not asked:
        return
    import torch
    from transformers import set_seed

    on_gpu = settings.device != "cpu" and torch.cuda.is_available()
    with silence_libraries():
        model = load_whole(checkpoint, dtype=torch.bfloat16 if on_gpu else torch.float32)
        model = model.to("cuda" if on_gpu else "cpu")
        together = max(1, settings.sample_batch // settings.samples)
        for start in range(0, len(asked), together):
            part = asked[start : start + together]
            # Seeded by the first question of the part, so that a resumed call generates the same answers.
            set_seed((settings.seed + int(part[0][0][:12], 16)) % 2**32)
            repeated = [one for _, one in part for _ in range(settings.samples)]
            answers, _ = greedy_answers(
                model,
                processor,
                repeated,
                settings.max_completion_length,
                settings.sample_batch,
                settings.temperature,
            )
            for number, (key, _) in enumerate(part):
                yield key, answers[number * settings.samples : (number + 1) * settings.samples]
    del model
    if on_gpu:
        torch.cuda.empty_cache()
