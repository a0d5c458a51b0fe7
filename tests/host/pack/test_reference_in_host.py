"""The reference page of the nodes, which is written without a host, describes the nodes that the host has."""

from __future__ import annotations

import re
from typing import Any

from ..server.comfy_server import PACK, ROOT, ComfyServer

CELL = re.compile(r"\s(?<!\\)\|\s")


def sections() -> dict[str, list[list[str]]]:
    """The rows of each node's table of inputs, by the node's id."""
    page = (ROOT / "docs" / "reference" / "nodes.md").read_text(encoding="utf-8")
    found = {}
    for section in page.split("\n### ")[1:]:
        node = re.search(r"^`(\w+)`$", section, re.MULTILINE)
        assert node
        inputs = section.partition("| Output |")[0]
        rows = [line for line in inputs.splitlines() if line.startswith("|") and "`" in line]
        found[node[1]] = [CELL.split(row.strip("| ") + " | ") for row in rows]
    return found


def shown_default(options: dict[str, Any]) -> str:
    value = options.get("default")
    if value is None or value == "":
        return ""
    return f"`{'on' if value else 'off'}`" if isinstance(value, bool) else f"`{value}`"


def test_the_reference_page_lists_every_input_with_its_default(host: ComfyServer) -> None:
    nodes = {
        name: node
        for name, node in host.get("/object_info").items()
        if node["python_module"] == f"custom_nodes.{PACK}" and not node.get("dev_only")
    }
    written = sections()
    assert set(written) == set(nodes)
    for name, node in nodes.items():
        given = {**node["input"].get("required", {}), **node["input"].get("optional", {})}
        rows = {re.findall(r"`(\w+)`", row[0])[0]: row for row in written[name]}
        assert set(rows) == set(given), name
        for one, declared in given.items():
            options = declared[1] if len(declared) > 1 else {}
            default = shown_default(options)
            assert default == "" or default in rows[one], (name, one, default, rows[one])
