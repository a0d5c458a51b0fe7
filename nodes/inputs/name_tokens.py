"""The %...% tokens of file names, which ComfyUI's front end replaces for its own save nodes only.

They are replaced here and not in the browser, so they work in graphs sent by programs too. The rules are
those of the front end: %date:yyyy-MM-dd% with its letters; %Node.widget% by a node's "name for S&R", else by
its title; characters that are not allowed in file names become underscores. Unknown tokens stay; the host
replaces the rest (%year%, %month%...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MARK = re.compile(r"%([^%]+)%")
DATE = "date:"
DATE_PART = re.compile(r"d{1,2}|M{1,2}|h{1,2}|m{1,2}|s{1,2}|yyyy|yy")
NOT_IN_NAMES = re.compile(r'[/?<>\\:*|"\x00-\x1f\x7f]')
NOT_IN_DATES = re.compile(r'[?<>\\:*|"\x00-\x1f\x7f]')
"""A date may create subfolders: %date:yyyy/MM%."""
SEARCH_NAME = "Node name for S&R"


@dataclass(frozen=True)
class NamedNode:
    """A running node: its "name for S&R", its title and its inputs."""

    search_name: str
    title: str
    inputs: Mapping[str, Any]


def with_tokens(text: str, now: datetime, nodes: Sequence[NamedNode] = ()) -> str:
    """Return the text with its tokens replaced."""
    return MARK.sub(lambda found: _filled(found[1], now, nodes) or found[0], text)


def named_nodes(prompt: Any, workflow: Any) -> list[NamedNode]:
    """Return the nodes of a graph in API form, with their names from the browser's workflow if sent."""
    shown = workflow.get("nodes") if isinstance(workflow, dict) else None
    listed = shown if isinstance(shown, list) else []
    by_id = {str(one.get("id")): one for one in listed if isinstance(one, dict)}
    nodes = []
    for identity, node in prompt.items() if isinstance(prompt, dict) else ():
        if not isinstance(node, dict):
            continue
        kind, given = node.get("class_type", ""), node.get("_meta") or {}
        seen = by_id.get(str(identity), {})
        properties = seen.get("properties")
        search = properties.get(SEARCH_NAME) if isinstance(properties, dict) else None
        title = seen.get("title") or given.get("title") or kind
        nodes.append(NamedNode(str(search or kind), str(title), node.get("inputs") or {}))
    return nodes


def _filled(mark: str, now: datetime, nodes: Sequence[NamedNode]) -> str:
    """Return the value of a token, "" for an unknown one."""
    if mark.startswith(DATE):
        date = DATE_PART.sub(lambda part: _date_part(part[0], now), mark.removeprefix(DATE))
        return NOT_IN_DATES.sub("_", date)
    name, dot, widget = mark.partition(".")
    if not dot or "." in widget:
        return ""
    found = [one for one in nodes if one.search_name == name] or [one for one in nodes if one.title == name]
    value = found[0].inputs.get(widget) if found else None
    return "" if value is None or isinstance(value, list | dict) else NOT_IN_NAMES.sub("_", _shown(value))


def _shown(value: Any) -> str:
    """Return a widget's value in the front end's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


def _date_part(part: str, now: datetime) -> str:
    if part == "yyyy":
        return str(now.year)
    if part == "yy":
        return f"{now.year % 100:02}"
    number = {"d": now.day, "M": now.month, "h": now.hour, "m": now.minute, "s": now.second}[part[0]]
    return str(number).zfill(len(part))
