"""What lies between Try Open and Try Close, and how it is laid out anew for every further try.

Decision: pure functions over the graph in API form, so that they are tested without the host. The nodes of a
try carry the ids "CLOSE.STEP.TRY.NODE": the same in every run, which the host's caches ask for, and of one
length however many tries there are. A try is handed its prompt, seed and source as values; what it takes from
outside stays a link, except where the host keeps no cache and would make it again for every try (checkpoints
above all): there it is made once for all tries and carried along.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...backend.errors import SettingsError

OPEN, CLOSE = "InterleaveTryOpen", "InterleaveTryClose"
AGAIN, NEXT, HOLD, HELD = (
    "InterleaveTryAgain",
    "InterleaveTryNext",
    "InterleaveTryHold",
    "InterleaveTryHeld",
)
SOURCE_SLOT = 3
"""Try Open's output of the image to edit."""

Node = Mapping[str, Any]
Graph = Mapping[str, Node]
Link = tuple[str, int]


@dataclass(frozen=True)
class AttemptBody:
    """The nodes of one try by their ids: the producers of `image`, and the previews and savers of the try."""

    opened: str
    closed: str
    image: Link
    nodes: tuple[str, ...]
    producers: tuple[str, ...]
    """The nodes that the image is made with."""
    outside: tuple[Link, ...]
    edits: bool
    """Whether the image to edit is used."""

    @property
    def has_previews(self) -> bool:
        return len(self.nodes) > len(self.producers)


def find_body(graph: Graph, closed: str, is_output: Callable[[str], bool]) -> AttemptBody:
    """The body of the Try Close with id `closed`; `is_output` says which classes show or save something.

    Raises SettingsError if it is not closed: no Try Open, another one's, none of it before the image, or a
    pair inside.
    """
    inputs = graph[closed]["inputs"]
    start, image = as_link(inputs.get("opened")), as_link(inputs.get("image"))
    if start is None or _class(graph, start[0]) != OPEN:
        raise SettingsError("Try Close has no Try Open.", "Connect the output 'try' of a Try Open to it.")
    opened = start[0]
    if image is None:
        raise SettingsError("Try Close has no image.", "Connect the image that your nodes make to it.")
    below = _downstream(graph, opened)
    producers = below & _upstream(graph, [image[0]], barriers={opened})
    _check_pairs(graph, opened, closed, image, below, producers)
    previews: set[str] = set()
    after = _downstream(graph, closed) | {closed}
    for node in sorted(below - producers - after):
        if not is_output(_class(graph, node)):
            continue
        branch = (_upstream(graph, [node], barriers={opened}) & below) - producers
        if not branch & after and not any(_class(graph, one) in (OPEN, CLOSE) for one in branch):
            previews |= branch
    nodes = tuple(sorted(producers | previews))
    inner = {*nodes, opened}
    used = [link for node in nodes for link in _links(graph[node])]
    outside = tuple(sorted({link for link in used if link[0] not in inner}))
    return AttemptBody(
        opened=opened,
        closed=closed,
        image=image,
        nodes=nodes,
        producers=tuple(sorted(producers)),
        outside=outside,
        edits=(opened, SOURCE_SLOT) in used,
    )


def _check_pairs(
    graph: Graph, opened: str, closed: str, image: Link, below: set[str], producers: set[str]
) -> None:
    rivals = [node for node in below if _class(graph, node) == CLOSE and node != closed]
    starts = [as_link(graph[node]["inputs"].get("opened")) for node in rivals]
    if any(start is not None and start[0] == opened for start in starts):
        raise SettingsError(
            "Two Try Close are connected to one Try Open.", "Give each Try Close a Try Open of its own."
        )
    if any(_class(graph, node) in (OPEN, CLOSE) for node in producers):
        raise SettingsError(
            "There is another Try Open or Try Close between this pair.",
            (
                "Pairs cannot stand inside one another; "
                "put them one after the other: Try Close, then the next Try Open."
            ),
        )
    ended = {node for node in graph if _class(graph, node) == CLOSE}
    reached = _upstream(graph, [image[0]], barriers={opened, *ended})
    if any(_class(graph, node) == OPEN and node != opened for node in reached):
        raise SettingsError(
            "Two Try Open lead to one Try Close.",
            "Take prompt, seed and source from the connected one alone.",
        )
    if not producers:
        raise SettingsError(
            "The image at Try Close is not made with what Try Open gives, so every try would be the same.",
            "Connect Try Open's prompt and seed to the nodes that make the image.",
        )


def image_nodes(graph: Graph, body: AttemptBody) -> set[str]:
    """All nodes that the image is made with, also those before the body; not Try Open and what is before that
    alone."""
    return set(_in_order(graph, body.image[0], stop=body.opened))


def body_digest(
    graph: Graph, body: AttemptBody, stamp: Callable[[str], str | None] = lambda text: None
) -> str | None:
    """What the image is made with, besides what Try Open gives: 40 hex digits, or None if that is
    unknown.

    Equal for equal nodes, settings and wires, whatever their ids. `stamp` names the content of a file that a
    setting names. The host's own change marks (`is_changed`) are part of it; a node that always changes gives
    None.
    """
    digests: dict[str, str] = {}
    for node in _in_order(graph, body.image[0], stop=body.opened):
        content = _content(graph, node, body.opened, digests, stamp)
        if content is None:
            return None
        digests[node] = hashlib.blake2b(content.encode(), digest_size=20).hexdigest()
    return hashlib.blake2b(f"{digests[body.image[0]]}/{body.image[1]}".encode(), digest_size=20).hexdigest()


def _content(
    graph: Graph, name: str, opened: str, digests: Mapping[str, str], stamp: Callable[[str], str | None]
) -> str | None:
    node = graph.get(name)
    if node is None:
        return None
    changed = node.get("is_changed")
    marks = changed if isinstance(changed, list) else [changed]
    if any(isinstance(mark, float) and math.isnan(mark) for mark in marks):
        return None
    parts: list[Any] = [node["class_type"], changed]
    for key, value in sorted(node["inputs"].items()):
        link = as_link(value)
        if link is not None:
            origin = "try" if link[0] == opened else digests[link[0]]
            parts.append([key, "from", origin, link[1]])
        else:
            parts.append([key, value, stamp(value) if isinstance(value, str) else None])
    try:
        return json.dumps(parts, sort_keys=True)
    except TypeError:
        return None


@dataclass(frozen=True)
class FurtherAttempt:
    """What tells one more try from the others."""

    prefix: str
    """Of the ids of its nodes."""
    opened: object
    """Handed to its first node as it is."""
    carried: object
    """Handed to its last node as it is."""
    held: object | None = None
    """The values from outside, where an earlier try collected them."""
    hold: bool = False
    """Collect the values from outside once for all tries."""


def lay_out(
    graph: Graph, body: AttemptBody, further: FurtherAttempt, shown_as: Callable[[str], str]
) -> tuple[dict[str, dict[str, Any]], str]:
    """The nodes of one more try and the id of the Try Next that ends it; `shown_as` gives the display id of a
    node."""
    inner = {*body.nodes, body.opened}
    prefix, held = as_id(further.prefix), further.held
    holder = f"{prefix}/hold"
    box: Any = held if held is not None else [holder, 0]
    carries = held is not None or (further.hold and bool(body.outside))

    def moved(value: Any) -> Any:
        link = as_link(value)
        if link is None:
            return value
        if link[0] in inner:
            return [prefix + as_id(link[0]), link[1]]
        return [f"{prefix}/held.{body.outside.index(link)}", 0] if carries else value

    def made(class_type: str, original: str, **inputs: Any) -> dict[str, Any]:
        return {"class_type": class_type, "inputs": inputs, "override_display_id": shown_as(original)}

    nodes = {prefix + as_id(body.opened): made(AGAIN, body.opened, opened=further.opened)}
    for name in body.nodes:
        inputs = {key: moved(value) for key, value in graph[name]["inputs"].items()}
        nodes[prefix + as_id(name)] = made(graph[name]["class_type"], name, **inputs)
    end = {"image": moved(list(body.image)), "carried": further.carried}
    if carries:
        for number in range(len(body.outside)):
            nodes[f"{prefix}/held.{number}"] = made(HELD, body.closed, box=box, index=number)
        if held is None:
            links = {f"value{number}": list(link) for number, link in enumerate(body.outside)}
            nodes[holder] = made(HOLD, body.closed, **links)
        end["held"] = box
    last = prefix + as_id(body.closed)
    nodes[last] = made(NEXT, body.closed, **end)
    return nodes, last


def as_id(name: str) -> str:
    """A node's id as part of another one: a colon, as in the ids of nodes inside a sub-graph ("75:62"), would
    have the front end look for the sub-graph that the whole id names."""
    return name.replace(":", "|")


def as_link(value: Any) -> Link | None:
    """The link that an input's value is, as the host distinguishes links from values; None for a value."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        name, slot = value
        if isinstance(slot, (int, float)):
            return name, int(slot)
    return None


def _class(graph: Graph, name: str) -> str:
    return graph[name]["class_type"] if name in graph else ""


def _links(node: Node) -> Iterator[Link]:
    for value in node["inputs"].values():
        link = as_link(value)
        if link is not None:
            yield link


def _upstream(graph: Graph, starts: Iterable[str], barriers: set[str]) -> set[str]:
    """The starts and all before them, up to the barriers and with those."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found and name in graph:
            found.add(name)
            if name not in barriers:
                waiting += [link[0] for link in _links(graph[name])]
    return found


def _downstream(graph: Graph, start: str) -> set[str]:
    users: dict[str, list[str]] = {}
    for name, node in graph.items():
        for link in _links(node):
            users.setdefault(link[0], []).append(name)
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in users.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found


def _in_order(graph: Graph, end: str, stop: str) -> Iterator[str]:
    """`end` and all before it except `stop` and what is before that alone, a node before those that use
    it."""
    done: set[str] = set()
    waiting = [(end, False)]
    while waiting:
        name, ready = waiting.pop()
        if name in done or name == stop:
            continue
        if ready or name not in graph:
            done.add(name)
            yield name
            continue
        waiting.append((name, True))
        waiting += [(link[0], False) for link in _links(graph[name])]
