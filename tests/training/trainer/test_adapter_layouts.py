"""Adapters of many layouts: agents, merging and training apply each completely, or refuse it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.adapter_layouts import (
    LANGUAGE,
    MODULES,
    PREFIX,
    Layout,
    State,
    bare,
    canonical,
    embedding,
    on,
    ranked,
    with_weight,
    without,
)
from support.tiny_checkpoint import build_checkpoint, question

pytest.importorskip("trl", reason='training needs: pip install ".[training]"')
pytest.importorskip("peft")

from interleave_thinker import ChatError, InterleaveError, ReplySettings, open_chat
from interleave_thinker.backend.models.chat.local.adapters import attach
from interleave_thinker.backend.models.chat.local.base_model import load_processor
from interleave_thinker.backend.models.checkpoints.checkpoint import load_whole
from interleave_thinker.training.trainer.saving import merge

HEAD, EMBEDDINGS = "lm_head", "model.language_model.embed_tokens"
VISION = "model.visual.blocks.0.attn.qkv"
MERGER = "model.visual.merger.linear_fc2"
CLOSE = 2e-4
SHORT = ReplySettings(max_tokens=8)
BOTH = ("untied", "tied")
REPLIES = ("output layer", "embeddings", "output layer whole", "dora")
"""Layouts on whose adapters the engine's own decoding is tried too."""
ONE = ("untied",)


def written(*modules: str) -> str:
    """Return the pattern that training here writes."""
    return "|".join(rf"model\.language_model\.layers\.\d+\.self_attn\.{name}" for name in modules)


APPLIED: dict[str, tuple[tuple[str, ...], Callable[[State], Layout]]] = {
    "as peft writes": (BOTH, canonical),
    "no prefix": (ONE, lambda s: canonical(s).renamed(PREFIX, "")),
    "older layout": (ONE, lambda s: canonical(s).renamed(LANGUAGE, "model.layers")),
    "language_model.model": (ONE, lambda s: canonical(s).renamed(LANGUAGE, "language_model.model.layers")),
    "layers alone": (ONE, lambda s: canonical(s).renamed(f"{PREFIX}{LANGUAGE}", "layers")),
    "adapter's name": (ONE, lambda s: canonical(s).renamed(".weight", ".default.weight")),
    "dora": (ONE, lambda s: canonical(s, use_dora=True)),
    "dora, newer keys": (ONE, lambda s: canonical(s, use_dora=True).renamed("_vector", "_vector.weight")),
    "rank pattern, older layout": (
        ONE,
        lambda s: ranked(s, {"^model.layers.0.self_attn.q_proj|^model.layers.1.self_attn.q_proj": 2}).renamed(
            LANGUAGE, "model.layers"
        ),
    ),
    "pattern of our training": (
        ONE,
        lambda s: _patterned(s, written("q_proj", "v_proj"), *(m for m in MODULES if "attn" in m)),
    ),
    "pattern that would freeze": (ONE, lambda s: canonical(s, target_modules="(.+)+Z")),
    "layers pattern that would freeze": (
        ONE,
        lambda s: canonical(s, layers_pattern="(.+)+Z", layers_to_transform=[0, 1]),
    ),
    "vision tower": (ONE, lambda s: on(s, VISION)),
    "vision tower, older layout": (ONE, lambda s: on(s, VISION).renamed("model.visual", "visual")),
    "output layer": (BOTH, lambda s: on(s, HEAD, MODULES[0], MODULES[4])),
    "embeddings": (BOTH, embedding),
    "embeddings, with those of the base": (
        BOTH,
        lambda s: _repeated(embedding(s), s, f"{EMBEDDINGS}.base_layer.weight", f"{EMBEDDINGS}.weight"),
    ),
    "output layer whole": (
        BOTH,
        lambda s: on(s, MODULES[0], MODULES[4], whole=("lm_head.weight",), modules_to_save=["lm_head"]),
    ),
    "projector whole": (
        ONE,
        lambda s: on(
            s,
            MODULES[0],
            MODULES[4],
            whole=(f"{MERGER}.weight", f"{MERGER}.bias"),
            modules_to_save=["merger.linear_fc2"],
        ),
    ),
    "whole, with the adapter's name": (
        ONE,
        lambda s: on(
            s, MODULES[0], MODULES[4], whole=("lm_head.weight",), modules_to_save=["lm_head"]
        ).renamed("lm_head.", "lm_head.modules_to_save.default."),
    ),
    "unknown fields": (ONE, lambda s: canonical(s, unsloth_fixed=True, someone="else", eva_config=None)),
    "float alpha": (ONE, lambda s: canonical(s, lora_alpha=8.0, lora_dropout=0.1)),
}
REFUSED: dict[str, tuple[Callable[[State], Layout], str]] = {
    "other model": (lambda s: canonical(s).renamed("layers.1", "layers.7"), "does not have"),
    "kohya's names": (
        lambda s: canonical(s).renamed("lora_A", "lora_down").renamed("lora_B", "lora_up"),
        "does not have|does not list",
    ),
    "empty": (bare, "does not contain LoRA weights"),
    "half a pair": (lambda s: without(canonical(s), "layers.1.mlp.up_proj.lora_B"), "lacks the weight"),
    "magnitudes without dora": (
        lambda s: _changed(canonical(s, use_dora=True), use_dora=False),
        "does not list",
    ),
    "a whole module lost": (lambda s: canonical(s, modules_to_save=["lm_head"]), "lists in modules_to_save"),
    "rank of the file": (lambda s: canonical(s, r=8), "does not fit this base model"),
    "rank pattern that would freeze": (
        lambda s: canonical(s, rank_pattern={"(.+)+Z": 2}),
        "not a plain module name",
    ),
    "embeddings of another base": (
        lambda s: with_weight(
            embedding(s), f"{PREFIX}{EMBEDDINGS}.base_layer.weight", *s[f"{EMBEDDINGS}.weight"].shape
        ),
        "not that of the base model",
    ),
    "bias trained": (lambda s: canonical(s, bias="lora_only"), "own weights"),
    "bias in the file": (
        lambda s: with_weight(canonical(s), f"{PREFIX}{VISION}.bias", *s[f"{VISION}.bias"].shape),
        "does not list",
    ),
    "pissa": (lambda s: canonical(s, init_lora_weights="pissa"), "own weights"),
    "parameters": (lambda s: canonical(s, target_parameters=["experts.down_proj"]), "target_parameters"),
    "tokens": (lambda s: canonical(s, trainable_token_indices=[1, 2]), "trainable_token_indices"),
    "layers repeated": (lambda s: canonical(s, layer_replication=[[0, 2]]), "layer_replication"),
    "tied by the adapter": (lambda s: canonical(s, ensure_weight_tying=True), "ensure_weight_tying"),
    "two adapters": (
        lambda s: (
            canonical(s)
            .renamed("layers.0.mlp.up_proj.lora_A.", "layers.0.mlp.up_proj.lora_A.a.")
            .renamed("layers.1.mlp.up_proj.lora_A.", "layers.1.mlp.up_proj.lora_A.b.")
        ),
        "several adapters",
    ),
    "a norm": (
        lambda s: with_weight(canonical(s), f"{PREFIX}{LANGUAGE}.0.input_layernorm.lora_A.weight", 4, 64),
        "not a linear layer",
    ),
    "other kind": (lambda s: canonical(s, peft_type="LOHA"), "only 'LORA'"),
    "alpha not a number": (lambda s: canonical(s, lora_alpha="x"), "alpha"),
    "patterns of great length": (
        lambda s: canonical(s, rank_pattern={f"x{at}|" + "a|" * 9000 + "b": 4 for at in range(40)}),
        "longer than 200,000 characters",
    ),
}


def _repeated(layout: Layout, state: State, name: str, own: str) -> Layout:
    layout.weights[f"{PREFIX}{name}"] = state[own].clone()
    return layout


def _patterned(state: State, pattern: str, *modules: str) -> Layout:
    layout = on(state, *modules)
    layout.config["target_modules"] = pattern
    return layout


def _changed(layout: Layout, **config: Any) -> Layout:
    layout.config |= config
    return layout


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bases")
    tied = build_checkpoint(folder / "tied")
    model = load_whole(tied)
    assert model.lm_head.weight is model.get_input_embeddings().weight
    model.config.tie_word_embeddings = model.config.text_config.tie_word_embeddings = False
    model.all_tied_weights_keys = {}
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.08)
    model.save_pretrained(folder / "untied")
    load_processor(tied).save_pretrained(folder / "untied")
    return {"untied": folder / "untied", "tied": tied}


@pytest.fixture(scope="module")
def agents(bases: dict[str, Path]) -> dict[str, Any]:
    """Yield an agent without adapter on each base, which keeps the shared base alive."""
    return {name: open_chat(f"transformers:{folder}", device="cpu") for name, folder in bases.items()}


def logits(model: Any, processor: Any) -> torch.Tensor:
    prompt = "<|vision_start|><|image_pad|><|vision_end|>Is it light? true false"
    image = question(200)[0].content[0].image  # pyright: ignore[reportAttributeAccessIssue]
    with torch.inference_mode():
        return model(**processor(text=[prompt], images=[image], return_tensors="pt")).logits


def expected(base: Path, layout: Layout, processor: Any) -> torch.Tensor:
    model = load_whole(base)
    state = layout.applied()
    if model.config.tie_word_embeddings:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.load_state_dict(state)
    return logits(model, processor)


def state_of(folder: Path) -> State:
    return {name: value.detach().clone() for name, value in load_whole(folder).state_dict().items()}


@pytest.mark.parametrize(
    ("name", "tied"), [(name, tied) for name, (both, _) in APPLIED.items() for tied in both]
)
def test_an_adapter_is_applied_wholly_by_all(
    name: str, tied: str, bases: dict[str, Path], agents: dict[str, Any], tmp_path: Path
) -> None:
    base, agent = bases[tied], agents[tied]
    processor = agent.base.processor
    layout = APPLIED[name][1](state_of(base))
    wanted = expected(base, layout, processor)
    folder = layout.save(tmp_path / "adapter")
    with agent.base.selected(None) as model:
        plain = logits(model, processor)
    # Output layers that are replaced do not go with others on the same base.
    share = "whole" not in name
    chat: Any = open_chat(f"transformers:{base}", device="cpu", adapter=str(folder), share=share)
    assert (chat.base is agent.base) is share
    with chat.base.selected(chat.adapter) as model:
        assert torch.allclose(logits(model, processor), wanted, atol=CLOSE), "agent"
    trained = attach(load_whole(base), folder)
    assert torch.allclose(logits(trained, processor), wanted, atol=CLOSE), "training"
    out = merge(base, folder, tmp_path / "merged")
    merged = load_whole(out)
    assert torch.allclose(logits(merged, processor), wanted, atol=CLOSE), "merging"
    with chat.base.selected(None) as model:
        assert torch.equal(logits(model, processor), plain), "the base has changed"
    assert not torch.allclose(plain, wanted, atol=100 * CLOSE), "nothing was tried"
    if name in REPLIES:
        whole = open_chat(f"transformers:{out}", device="cpu")
        assert chat.reply(question(200), SHORT).text == whole.reply(question(200), SHORT).text


@pytest.mark.parametrize("name", REFUSED)
def test_readers_reject_it(name: str, bases: dict[str, Path], agents: dict[str, Any], tmp_path: Path) -> None:
    base, agent = bases["untied"], agents["untied"]
    make, said = REFUSED[name]
    folder = make(state_of(base)).save(tmp_path / "adapter")
    with agent.base.selected(None) as model:
        before = logits(model, agent.base.processor)
    found = []
    for use in (
        lambda: open_chat(f"transformers:{base}", device="cpu", adapter=str(folder)),
        lambda: attach(load_whole(base), folder),
        lambda: merge(base, folder, tmp_path / "merged"),
    ):
        with pytest.raises(InterleaveError, match=said) as error:
            use()
        found.append(str(error.value))
    assert len(set(found)) == 1
    assert not (tmp_path / "merged").exists()
    with agent.base.selected(None) as model:
        assert torch.equal(logits(model, agent.base.processor), before)


MADE: dict[str, tuple[dict[str, Any], str]] = {
    "rank pattern": ({"rank_pattern": {"q_proj": 2}}, ""),
    "alpha pattern": ({"alpha_pattern": {r"layers\.1\.self_attn\.v_proj": 32}}, ""),
    "rslora": ({"use_rslora": True}, ""),
    "dora": ({"use_dora": True}, ""),
    "a pattern of names": ({"target_modules": r".*language_model.*\.(q|up)_proj"}, ""),
    "all linear layers but some": ({"target_modules": "all-linear", "exclude_modules": ".*visual.*"}, ""),
    "one layer": ({"layers_to_transform": [1], "layers_pattern": "layers"}, ""),
    "output layer": ({"target_modules": ["q_proj", "lm_head"]}, ""),
    "both ends": ({"target_modules": ["q_proj", "lm_head", "embed_tokens"]}, ""),
    "both ends whole": ({"modules_to_save": ["lm_head", "embed_tokens"]}, ""),
    "bias of LoRA": ({"target_modules": ["qkv"], "lora_bias": True}, ""),
    "bias of the layer": ({"target_modules": ["qkv"], "bias": "lora_only"}, "own weights"),
    "single tokens": ({"trainable_token_indices": [1, 2]}, "trainable_token_indices"),
    "pissa": ({"init_lora_weights": "pissa"}, "own weights"),
}
"""Options of peft's configuration, and why their adapter is refused."""


@pytest.mark.parametrize(
    ("name", "tied"), [(name, tied) for name in MADE for tied in (BOTH if "ends" in name else ONE)]
)
def test_an_adapter_made_by_peft_is_merged_as_by_peft(
    name: str, tied: str, bases: dict[str, Path], agents: dict[str, Any], tmp_path: Path
) -> None:
    from peft import LoraConfig, get_peft_model

    (options, refusal), processor = MADE[name], agents[tied].base.processor
    config = LoraConfig(**{"r": 4, "target_modules": ["q_proj", "v_proj"], **options})
    model = get_peft_model(load_whole(bases[tied]), config)
    for weight in model.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.2)
    model.save_pretrained(str(tmp_path / "adapter"))
    if refusal:
        with pytest.raises(InterleaveError, match=refusal):
            merge(bases[tied], tmp_path / "adapter", tmp_path / "merged")
        return
    shown = logits(model, processor)
    merged = load_whole(merge(bases[tied], tmp_path / "adapter", tmp_path / "merged"))
    for made in (merged, attach(load_whole(bases[tied]), tmp_path / "adapter")):
        assert torch.allclose(logits(made, processor), shown, atol=CLOSE)
    wanted: Any = model.merge_and_unload()
    if tied == "untied":  # peft would merge both ends into the one weight that they share
        state = wanted.state_dict()
        assert all(torch.equal(weight, state[key]) for key, weight in merged.state_dict().items())


def test_two_changes_share_no_base(bases: dict[str, Path], agents: dict[str, Any], tmp_path: Path) -> None:
    base, agent = bases["tied"], agents["tied"]
    state = state_of(base)
    names = ("output layer", "output layer whole")
    added, whole = (
        str(APPLIED[name][1](state).save(tmp_path / str(number))) for number, name in enumerate(names)
    )
    first: Any = open_chat(f"transformers:{base}", device="cpu", adapter=added)
    with first.base.selected(first.adapter) as model:
        before = logits(model, agent.base.processor)
    with pytest.raises(ChatError, match="in incompatible ways"):
        open_chat(f"transformers:{base}", device="cpu", adapter=whole)
    with first.base.selected(first.adapter) as model:
        assert torch.equal(logits(model, agent.base.processor), before)
