"""The page of the ComfyUI nodes: inputs, outputs and defaults from the schemas, texts from `locales/en`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import host_stand_in
from .markdown import code, listed, note, page, table, text

GROUPS = {
    "Agents": ("InterleaveLoadAgent", "InterleaveRemoteAgent", "InterleaveHostAgent"),
    "Plan": ("InterleavePlanner", "InterleaveEditPlan", "InterleaveCast"),
    "Generators": (
        "InterleaveStepGenerator",
        "InterleaveStepOptions",
        "InterleaveDiffusersGenerator",
        "InterleaveServiceGenerator",
        "InterleavePluginGenerator",
        "InterleaveTinyWorldGenerator",
    ),
    "Critic": ("InterleaveCriticLoop", "InterleaveTryOpen", "InterleaveTryClose", "InterleaveJudge"),
    "Story": (
        "InterleaveStoryboard",
        "InterleaveExport",
        "InterleaveSaveTrajectory",
        "InterleaveLoadTrajectory",
        "InterleaveFeedback",
        "InterleavePutBack",
        "InterleaveClipList",
        "InterleaveAddClips",
    ),
}
LARGEST = {2**53: "2^53", 2**48: "2^48"}
INTRODUCTION = """
Every node of the pack, in the category *InterleaveThinker* of ComfyUI's node library. A name in `code` is
the id that workflows and API calls use; the name before it is the label in the interface. Inputs marked
*advanced* are hidden until you open the node's advanced inputs. Sockets accept a connection, all other
inputs are widgets.
"""


def pages(root: Path) -> dict[str, str]:
    """Return the page `nodes.md`. The process cannot import a real ComfyUI afterwards."""
    host_stand_in.install()
    from interleave_thinker.nodes.pack import NODES

    words = json.loads((root / "locales" / "en" / "nodeDefs.json").read_text(encoding="utf-8"))
    schemas = {schema.declared["node_id"]: schema for schema in (node.define_schema() for node in NODES)}
    grouped = {node for group in GROUPS.values() for node in group}
    if grouped != set(schemas):
        raise SystemExit(f"GROUPS in {__file__} lack or exceed: {sorted(grouped ^ set(schemas))}")
    blocks = ["# ComfyUI nodes", note("the nodes' schemas and `locales/en`"), INTRODUCTION]
    for group, nodes in GROUPS.items():
        blocks.append(f"## {group}")
        for node in nodes:
            blocks += _node(node, schemas[node], words[node])
    return {"nodes.md": page(*blocks)}


def _node(name: str, schema: Any, words: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {words['display_name']}"
    yield f"`{name}`"
    yield text(words.get("description") or schema.declared.get("description", ""))
    yield table(
        ("Input", "Type", "Default", "Range or choices", "Description"),
        (_input(one, words.get("inputs", {}).get(one.id, {})) for one in schema.inputs),
    )
    yield table(("Output", "Type", "Description"), _outputs(schema, words.get("outputs", {})))


def _input(one: Any, words: Mapping[str, Any]) -> tuple[str, ...]:
    options = one.options
    kind = (
        "up to {} of {}".format(options["template"].most, options["template"].input.kind)
        if ("template" in options)
        else one.kind
    )
    kind += " (list)" if options.get("is_output_list") else ""
    marks = [mark for mark in ("optional", "advanced") if options.get(mark)]
    if not options.get("advanced") and one.kind in ("COMBO", "INT", "FLOAT", "STRING", "BOOLEAN"):
        marks = []
    shown = ", ".join([kind, *(mark for mark in marks if mark != "optional" or "advanced" not in marks)])
    label = words.get("name", one.id)
    name = code(one.id) if label == one.id else f"{text(label)} {code(one.id)}"
    tip = words.get("tooltip") or options.get("tooltip") or ""
    return name, shown, _default(options), _range(options, words), text(tip)


def _default(options: Mapping[str, Any]) -> str:
    value = options.get("default")
    if value is None or value == "":
        return ""
    return code(("on" if value else "off") if isinstance(value, bool) else str(value))


def _range(options: Mapping[str, Any], words: Mapping[str, Any]) -> str:
    if "options" in options:
        labelled = list(words.get("options") or ())
        offered = [one for one in options["options"] if one != host_stand_in.FROM_COMFYUI]
        choices = listed([*labelled, *(one for one in offered if one not in labelled)])
        if host_stand_in.FROM_COMFYUI in options["options"]:
            choices = f"{choices}, ComfyUI's own" if choices else "ComfyUI's own"
        return choices
    if "min" not in options or "max" not in options:
        return ""
    high = options["max"]
    return f"{options['min']:g} to {LARGEST.get(high) or format(high, '.10g')}"


def _outputs(schema: Any, words: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for place, one in enumerate(schema.outputs):
        said = words.get(str(place), {})
        kind = one.kind + (" (list)" if one.options.get("is_output_list") else "")
        yield (
            code(said.get("name", one.id)),
            kind,
            text(said.get("tooltip") or one.options.get("tooltip", "")),
        )
