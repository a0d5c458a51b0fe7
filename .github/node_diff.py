"""Lists changes that break saved workflows, by comparing the node definitions of two checkouts in ComfyUI.

    python .github/node_diff.py BASE CHANGED --comfyui FOLDER

A change is breaking if a saved workflow would no longer load unchanged: a node, input, output or choice was
removed, changed its type or position, or a new input is required. Widget values are saved by position, so new
inputs must come after all old ones. The exit code is 1 if anything breaks.

Comfy-Org/node-diff is not used: it reads NODE_CLASS_MAPPINGS, which packs with `comfy_entrypoint` do not
have, compares only outputs, and fetches actions by tags that can be moved.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Definitions = dict[str, dict[str, Any]]


def definitions(pack: Path, comfyui: Path) -> Definitions:
    """Return inputs (name, type, required, choices) and outputs (types) of every node, in order."""
    sys.path.insert(0, str(comfyui))
    from comfy.cli_args import args  # pyright: ignore[reportMissingImports]

    args.cpu = True
    # Keep the host's own import order: nodes.py puts the folder comfy first, which contains another module
    # utils.
    for name in ("utils.install_util", "server"):
        importlib.import_module(name)

    spec = importlib.util.spec_from_file_location(
        "pack", pack / "__init__.py", submodule_search_locations=[str(pack)]
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["pack"] = module
    spec.loader.exec_module(module)

    async def nodes() -> list[Any]:
        return await (await module.comfy_entrypoint()).get_node_list()

    return {node.GET_SCHEMA().node_id: _definition(node.GET_NODE_INFO_V1()) for node in asyncio.run(nodes())}


def _definition(info: dict[str, Any]) -> dict[str, Any]:
    inputs = []
    for kind in ("required", "optional"):
        for name, value in info["input"].get(kind, {}).items():
            declared, options = value[0], value[1] if len(value) > 1 else {}
            choices = declared if isinstance(declared, list) else options.get("options")
            # A list of files on this machine is not part of the pack.
            choices = sorted(map(str, choices)) if choices and "default" in options else None
            must = kind == "required" and "default" not in options
            inputs.append([name, "COMBO" if isinstance(declared, list) else declared, must, choices])
    return {"inputs": inputs, "outputs": list(info["output"])}


def breaking(base: Definitions, changed: Definitions) -> list[str]:
    """Return one line for every change that a saved workflow would notice."""
    found = [f"{node}: was removed" for node in base if node not in changed]
    for node in base.keys() & changed.keys():
        old, new = base[node], changed[node]
        names = [name for name, *_ in new["inputs"]]
        for place, (name, kind, must, choices) in enumerate(old["inputs"]):
            if name not in names:
                found.append(f"{node}: input {name} was removed")
                continue
            _, new_kind, new_must, new_choices = new["inputs"][names.index(name)]
            if names.index(name) != place:
                found.append(
                    f"{node}: input {name} was number {place + 1} and is now number {names.index(name) + 1}"
                )
            if new_kind != kind:
                found.append(f"{node}: input {name} was {kind} and is now {new_kind}")
            if new_must and not must:
                found.append(f"{node}: input {name} is now required")
            gone = set(choices or ()) - set(new_choices or choices or ())
            found += [f"{node}: input {name} no longer has the choice {choice!r}" for choice in sorted(gone)]
        before = {name for name, *_ in old["inputs"]}
        found += [
            f"{node}: new input {name} is required"
            for name, _, must, _ in new["inputs"]
            if must and name not in before
        ]
        if new["outputs"][: len(old["outputs"])] != old["outputs"]:
            found.append(
                f"{node}: outputs were {', '.join(old['outputs'])} and are now {', '.join(new['outputs'])}"
            )
    return sorted(found)


def _asked(pack: Path, comfyui: Path) -> Definitions:
    """Read definitions in a separate process, because both checkouts have the same package name."""
    line = [sys.executable, __file__, str(pack), "--comfyui", str(comfyui), "--list"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Cannot load {pack} in {comfyui}:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packs", nargs="+", type=Path, help="BASE and CHANGED; with --list one")
    parser.add_argument("--comfyui", type=Path, required=True)
    parser.add_argument("--list", action="store_true", help="print the definitions of one checkout as JSON")
    given = parser.parse_args()
    sys.argv[1:] = []
    packs = [pack.resolve() for pack in given.packs]
    if given.list:
        print(json.dumps(definitions(packs[0], given.comfyui.resolve())))
        return
    base, changed = (_asked(pack, given.comfyui.resolve()) for pack in packs)
    found = breaking(base, changed)
    print(
        "\n".join(found)
        or f"nothing breaks in {len(base)} nodes; {len(changed.keys() - base.keys())} are new"
    )
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
