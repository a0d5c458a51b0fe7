"""Several answers of a starting model to each question, written once and kept.

Decision: all questions are answered before anything is drawn or judged, and the model is gone by then, so
that it and the generator never need the card at once. Answers are kept by everything that made them: the
same command goes on after a stop, and another scorer judges the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ....backend.chat.chat_template import rendered
from ....backend.chat.protocol import THOUGHT, opens_thought
from ....backend.checkpoints.checkpoint import checkpoint_digest
from ....backend.checkpoints.loaded import load_whole
from ...content_cache import ContentCache, key_of
from ...gate.held_out import greedy_answers
from ...trainer.model_loading import load_processor, silence_libraries


class SampledPairs(BaseModel):
    """How answers are sampled, and which of them make a pair."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    samples: int = Field(default=8, ge=2, le=64, description="Answers to each question.")
    temperature: float = Field(default=1.0, gt=0, le=2, description="Temperature of the sampled answers.")
    max_completion_length: int = Field(
        default=1024, ge=16, serialization_alias="answer_tokens", description="Longest answer, in tokens."
    )
    sample_batch: int = Field(default=16, ge=1, description="Answers that are written at once.")
    least_margin: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Reward (0..1) by which the best answer must be better than the worst; closer ones make "
        "no pair.",
    )
    pixels: int = Field(
        default=1_048_576, ge=1024, description="Largest area of an image that is shown, in pixels."
    )
    device: Literal["auto", "cpu"] = Field(default="auto", description="Where answers are written.")
    seed: int = Field(default=0, ge=0, description="Seed of the answers.")


def sampled_answers(
    checkpoint: Path,
    questions: Sequence[dict[str, Any]],
    settings: SampledPairs,
    kept: ContentCache,
    log: Callable[[str], None],
) -> list[list[str]]:
    """`settings.samples` answers of the checkpoint to each question (`prompt`, `images` as paths, `row` as
    what it is known by); those that are in `kept` are not written again."""
    digest = checkpoint_digest(checkpoint)
    # Stored answers are found by the names of the settings when they were stored first.
    how = settings.model_dump_json(by_alias=True, exclude={"sample_batch", "least_margin", "device"})
    processor = load_processor(checkpoint)
    keys = []
    for one in questions:
        asked = rendered(processor, one["prompt"])
        # Answers that were kept without the thought that their template opens are no answers.
        opened = [THOUGHT] if opens_thought(asked) else []
        keys.append(key_of("samples", digest, how, one["row"], json.dumps(one["prompt"]), *opened))
    there = {key: text for key in keys if (text := kept.text(key)) is not None}
    missing = [(key, one) for key, one in zip(keys, questions, strict=True) if key not in there]
    if there:
        log(f"{len(there)} of {len(questions)} questions were answered before")
    for done, (key, answers) in enumerate(_written(checkpoint, processor, missing, settings), 1):
        there[key] = json.dumps(answers, ensure_ascii=False)
        kept.keep_text(key, there[key])
        if done % 20 == 0 or done == len(missing):
            log(f"{done} of {len(missing)} questions answered")
    return [json.loads(there[key]) for key in keys]


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
            # By its first question, so that a call that goes on writes what the whole one would have.
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
