"""The inputs and outputs of every node stay, since saved workflows contain widget values by position.

`node_schemas.json` has id, type, default, range and choices of each input in order, and the type of each
output. To append an input: `python tests/nodes/test_node_schemas.py` writes the file again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from interleave_thinker.nodes.node_texts import node_names

STORED = Path(__file__).with_name("node_schemas.json")
ROOT = Path(__file__).resolve().parents[2]
READ = """
import json, sys
sys.path[:0] = FOLDERS
import conftest
from reference_pages import host_stand_in
host_stand_in.install()
from interleave_thinker.nodes.pack import NODES
KEPT = ("default", "min", "max", "step", "round", "options", "optional", "force_input", "lazy")
OF_THIS_MACHINE = ("precision", "plugin")
kept = lambda one: {
    key: one.options[key]
    for key in KEPT
    if one.options.get(key) is not None and not (key == "options" and one.id in OF_THIS_MACHINE)
}
print(json.dumps({
    schema.declared["node_id"]: {
        "inputs": [[one.id, one.kind, kept(one)] for one in schema.inputs],
        "outputs": [one.kind for one in schema.outputs],
    }
    for schema in (node.define_schema() for node in NODES)
}))
"""


def declared() -> dict[str, dict[str, list]]:
    """Read the schemas in a process of its own: the stand-in of the host cannot be removed again."""
    code = READ.replace("FOLDERS", repr([str(ROOT / "tests"), str(ROOT / "docs")]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_input_or_output_moves_or_changes() -> None:
    now = declared()
    for node, before in json.loads(STORED.read_text(encoding="utf-8")).items():
        assert now[node]["inputs"] == before["inputs"], node
        assert now[node]["outputs"] == before["outputs"], node
    assert set(now) == set(node_names()), "a node is missing in nodes/pack.py or in locales/en"


if __name__ == "__main__":
    lines = (f"{json.dumps(node)}: {json.dumps(one)}" for node, one in declared().items())
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
