"""The internal names of Qwen3-VL in transformers that the engine uses exist."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any

import pytest
import transformers
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from interleave_thinker.backend.chat.engine import qwen3_vl

WIDTHS = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2}
CHECKED = "5.0 to 5.24"
"""Versions of transformers in which all of these names were found."""


@pytest.fixture(scope="module")
def model() -> Any:
    text = {**WIDTHS, "num_hidden_layers": 1, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 8}
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    vision |= {"deepstack_visual_indexes": [0]}
    return Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=text, vision_config=vision))


@pytest.mark.parametrize("path", qwen3_vl.LIBRARY_PATHS)
def test_the_model_has_the_expected_parts(model: Any, path: str) -> None:
    try:
        attrgetter(path)(model)
    except AttributeError as error:
        pytest.fail(f"transformers {transformers.__version__} lacks {path} ({CHECKED} have it): {error}")


@pytest.mark.parametrize("path", qwen3_vl.LAYER_PATHS)
def test_a_decoder_layer_has_the_expected_attributes(model: Any, path: str) -> None:
    assert qwen3_vl.has_known_layers(model), f"transformers {transformers.__version__} renamed its layers"
    try:
        attrgetter(path)(model.model.language_model.layers[0])
    except AttributeError as error:
        pytest.fail(f"transformers {transformers.__version__} lacks {path} ({CHECKED} have it): {error}")


def test_the_language_model_accepts_the_arguments(model: Any) -> None:
    accepted = inspect.signature(type(model.model.language_model).forward).parameters
    missing = set(qwen3_vl.LAYER_ARGUMENTS) - set(accepted)
    assert not missing, f"transformers {transformers.__version__} lacks {missing} ({CHECKED} have them)"
    assert qwen3_vl.cache_argument(type(model.model.language_model)) in accepted, "the cache has a third name"


def test_the_cache_argument_has_the_librarys_name() -> None:
    class Newer:
        def forward(self, inputs_embeds: Any, cache: Any = None, **others: Any) -> None: ...

    class Older:
        def forward(self, inputs_embeds: Any, past_key_values: Any = None, **others: Any) -> None: ...

    assert [qwen3_vl.cache_argument(one) for one in (Newer, Older)] == ["cache", "past_key_values"]


def test_the_vision_tower_returns_features_of_every_level(model: Any) -> None:
    import torch

    vision = model.config.vision_config
    numbers = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    with torch.inference_mode():
        features = qwen3_vl.image_features(model, torch.zeros(4, numbers), torch.tensor([[1, 2, 2]]))
    assert [tuple(level.shape) for level in features] == [(1, 32), (1, 32)]
