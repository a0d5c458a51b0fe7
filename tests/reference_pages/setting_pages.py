"""The page of settings and recipes: the pydantic models of settings, and what each training recipe sets."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from .markdown import code, listed, note, page, table, text

MODELS = {
    "Run settings": (
        "backend.types:RunSettings",
        "Rules of the loop: attempts, acceptance, sources, seeds. On the command line "
        "`run --max-attempts 3`, in Python `RunSettings(max_attempts=3)`, in ComfyUI inputs of the "
        "Critic Loop.",
    ),
    "Plan constraints": (
        "backend.agents.plan_constraints:PlanConstraints",
        "What a plan must be like. On the command line `run --step-count 4`, in Python "
        "`PlanConstraints(step_count=4)`, in ComfyUI inputs of the Planner.",
    ),
    "Step settings": (
        "backend.types:StepSettings",
        'Settings of one step, under `"settings"` in [plan.json](file-formats.md#planjson) or in Edit Plan.',
    ),
    "Agents: replies": (
        "backend.chat.chat_model:ReplySettings",
        "How an agent answers. On the command line with the prefix `--planner-` or `--critic-`, "
        "in ComfyUI inputs of the agent nodes.",
    ),
    "Agents: engine": (
        "backend.chat.local.base_model:EngineSettings",
        "How a local Qwen3-VL decodes. On the command line `--engine NAME=VALUE,...`.",
    ),
    "Agents: llama.cpp": (
        "backend.chat.llamacpp_chat:LlamaCppSettings",
        "For `llamacpp:FILE.gguf`. On the command line `--context 8192` and so on.",
    ),
    "Generators: encoding cache": (
        "backend.generators.encoding_cache:EncodingCacheSettings",
        "On the command line `--engine encodings_bytes=0`.",
    ),
    "Exports": (
        "backend.report.export_options:ExportOptions",
        "Options of `export`, of `Story.export` and of the Export node.",
    ),
    "Image service": (
        "service.settings:ServiceSettings",
        "Options of `serve`, and keys of its YAML file (with `-` or `_`).",
    ),
}
RECIPES = """
## Training recipes

`--config NAME` or `--config FILE.yaml` sets defaults of a training command. Options that are given on the
command line override the recipe. A recipe has one section for each stage, or is one flat list of options.
The comment on each line of `training/recipes/NAME.yaml` says where the value comes from: the paper, its
published files, an estimate, a measurement, or our choice.

| Recipe | Hardware | Trained weights |
|---|---|---|
| `paper-8b` | eight GPUs of 80 GB, FSDP2 or ZeRO-3, vLLM rollouts | all but vision (`critic-grpo`: all) |
| `one-80gb` | one GPU of 80 GB | LoRA on 8B |
| `one-24gb` | one GPU of 24 GB | QLoRA on 8B (`planner-grpo`: 4B) |
| `tiny` | CPU | all weights of the tiny world's agents |

The tables list every option that at least one recipe sets. An empty cell means the command's default. The
[command line reference](command-line-train.md) describes each option.
"""


def pages(root: Path) -> dict[str, str]:
    """Return the page `settings-and-recipes.md`."""
    blocks = [
        "# Settings and recipes",
        note("the settings' definitions and `training/recipes`"),
        "Every setting is defined once, as a field with a type, a range, a default and a description. The "
        "command line, the Python API and the nodes all read that definition.",
    ]
    for title, (place, about) in MODELS.items():
        module, _, name = place.partition(":")
        kind = getattr(import_module(f"interleave_thinker.{module}"), name)
        blocks += [f"## {title}", about, table(("Setting", "Value", "Default", "Description"), _fields(kind))]
    return {"settings-and-recipes.md": page(*blocks, RECIPES, *_recipes())}


def _fields(kind: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    for name, field in kind.model_fields.items():
        default = "required" if field.is_required() else _shown(field.get_default(call_default_factory=True))
        bounds = {
            key: getattr(mark, key)
            for mark in field.metadata
            for key in ("ge", "gt", "le", "lt")
            if hasattr(mark, key)
        }
        yield code(name), _value(field.annotation, bounds), default, text(field.description or "")


def _shown(value: Any) -> str:
    if value is None or value is PydanticUndefined or value == "" or value == ():
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return code(f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value)))


def _value(kind: Any, bounds: dict[str, Any]) -> str:
    members = (
        [one for one in get_args(kind) if one is not type(None)] if type(None) in get_args(kind) else [kind]
    )
    kind = members[0]
    if get_origin(kind) is Literal:
        return listed(str(one) for one in get_args(kind))
    name = {"int": "integer", "float": "float", "bool": "on or off", "str": "text", "Path": "path"}.get(
        getattr(kind, "__name__", ""), ""
    )
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    more = "more than " if "gt" in bounds else ""
    if low is None and high is None:
        return name
    if high is None:
        return f"{name}, {more}{low:g}" + ("" if more else " or more")
    return f"{name}, up to {high:g}" if low is None else f"{name}, {more}{low:g} to {high:.12g}"


def _recipes() -> Iterator[str]:
    from interleave_thinker.cli.train.command import app
    from interleave_thinker.training.recipes.recipe import STAGES, read_recipe, recipe_names, stages_in

    commands: Any = typer.main.get_command(app)
    names = sorted(recipe_names(), key=["paper-8b", "one-80gb", "one-24gb", "tiny"].index)
    for stage in STAGES:
        columns = {name: read_recipe(name, stage) if stage in stages_in(name) else {} for name in names}
        options = {one.name: one for one in commands.commands[stage].params}
        used = [name for name in options if any(name in column for column in columns.values())]
        rows = [
            (
                code(max(options[name].opts, key=len)),
                _shown(_plain(options[name].default)),
                *(_shown(column.get(name)) for column in columns.values()),
            )
            for name in used
        ]
        yield f"### {stage}"
        yield table(("Option", "Default", *(code(name) for name in names)), rows)


def _plain(value: Any) -> Any:
    return None if callable(value) or "Sentinel" in repr(type(value)) else value
