"""The nodes between Attempt Start and Attempt End, and their expansion for every further attempt.

These are pure functions over the graph in API form, so they are tested without the host. The nodes of an
attempt have the ids "END.STEP.ATTEMPT.NODE": the same in every run, which the host's caches need, and of one
length. An attempt gets its prompt, seed and source as values. Values from outside stay links, unless the host
keeps no cache and would compute them (above all checkpoints) again for every attempt; then they are computed
once and carried along.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...backend.core.errors import SettingsError

OPEN, CLOSE = "InterleaveTryOpen", "InterleaveTryClose"
AGAIN, NEXT, HOLD, HELD = (
    "InterleaveTryAgain",
    "InterleaveTryNext",
    "InterleaveTryHold",
    "InterleaveTryHeld",
)
SOURCE_SLOT = 3
"""Index of Attempt Start's output of the image to edit."""

Node = Mapping[str, Any]
Graph = Mapping[str, Node]
Link = tuple[str, int]


@dataclass(frozen=True)
class AttemptBody:
    """Ids of the nodes of one attempt: the producers of `image`, and its preview and save nodes."""

    opened: str
    closed: str
    image: Link
    nodes: tuple[str, ...]
    producers: tuple[str, ...]
    """Nodes that the image depends on."""
    outside: tuple[Link, ...]
    edits: bool
    """Whether the image to edit is used."""

    @property
    def has_previews(self) -> bool:
        """Whether nodes of the attempt show or save something."""
        return len(self.nodes) > len(self.producers)


def find_body(graph: Graph, closed: str, is_output: Callable[[str], bool]) -> AttemptBody:
    """Return the body of the Attempt End with id `closed`; `is_output` tells output nodes by their class.

    Raises:
        SettingsError: The node is not connected to one Attempt Start that its image depends on, or another
            pair is inside.
    """
    inputs = graph[closed]["inputs"]
    start, image = as_link(inputs.get("opened")), as_link(inputs.get("image"))
    if start is None or class_of(graph, start[0]) != OPEN:
        raise SettingsError(
            "Attempt End is not connected to an Attempt Start.",
            "Connect the first output of an Attempt Start to it.",
        )
    opened = start[0]
    if image is None:
        raise SettingsError("Attempt End has no image.", "Connect the image of your nodes to it.")
    below = downstream(graph, opened)
    producers = below & upstream(graph, [image[0]], barriers={opened})
    _check_pairs(graph, opened, closed, image, below, producers)
    previews: set[str] = set()
    after = downstream(graph, closed) | {closed}
    for node in sorted(below - producers - after):
        if not is_output(class_of(graph, node)):
            continue
        branch = (upstream(graph, [node], barriers={opened}) & below) - producers
        if not branch & after and not any(class_of(graph, one) in (OPEN, CLOSE) for one in branch):
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
    rivals = [node for node in below if class_of(graph, node) == CLOSE and node != closed]
    starts = [as_link(graph[node]["inputs"].get("opened")) for node in rivals]
    if any(start is not None and start[0] == opened for start in starts):
        raise SettingsError(
            "Two Attempt End nodes are connected to one Attempt Start.",
            "Use a separate Attempt Start for each Attempt End.",
        )
    if any(class_of(graph, node) in (OPEN, CLOSE) for node in producers):
        raise SettingsError(
            "Another Attempt Start or Attempt End is inside this pair.",
            "Pairs cannot be nested. Put them one after the other: Attempt End, then the next Attempt Start.",
        )
    ended = {node for node in graph if class_of(graph, node) == CLOSE}
    reached = upstream(graph, [image[0]], barriers={opened, *ended})
    if any(class_of(graph, node) == OPEN and node != opened for node in reached):
        raise SettingsError(
            "The image at Attempt End depends on two Attempt Start nodes.",
            "Use prompt, seed and source image of the connected one only.",
        )
    if not producers:
        raise SettingsError(
            "The image at Attempt End does not depend on Attempt Start, so every attempt would be the same.",
            "Connect prompt and seed of Attempt Start to the nodes that make the image.",
        )


def image_nodes(graph: Graph, body: AttemptBody) -> set[str]:
    """Return all nodes that the image depends on, without Attempt Start and the nodes only it depends on."""
    return set(_in_order(graph, body.image[0], stop=body.opened))


def body_digest(
    graph: Graph, body: AttemptBody, stamp: Callable[[str], str | None] = lambda text: None
) -> str | None:
    """Return the digest (40 hex digits) of the nodes that make the image, `None` if one always changes.

    It depends on nodes, settings, links and the host's change marks (`is_changed`), not on ids and not on the
    values from Attempt Start. `stamp` identifies the content of a file that a setting names.
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
    """Data of one further attempt."""

    prefix: str
    """Prefix of the ids of its nodes."""
    opened: object
    """Input of its first node."""
    carried: object
    """Input of its last node."""
    held: object | None = None
    """Values from outside, if an earlier attempt collected them."""
    hold: bool = False
    """Whether to collect the values from outside once for all attempts."""


def lay_out(
    graph: Graph, body: AttemptBody, further: FurtherAttempt, shown_as: Callable[[str], str]
) -> tuple[dict[str, dict[str, Any]], str]:
    """Return the nodes of one further attempt in API form, and the id of the Attempt Next that ends it.

    `shown_as` returns the display id of a node.
    """
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
    """Return a node's id as part of another one, without the colons that name a subgraph ("75:62")."""
    return name.replace(":", "|")


def as_link(value: Any) -> Link | None:
    """Return the link in an input, `None` for a plain value, by the host's own rule."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        name, slot = value
        if isinstance(slot, (int, float)):
            return name, int(slot)
    return None


def class_of(graph: Graph, name: str) -> str:
    """Return the class of a node, "" for one that is not in the graph."""
    return graph[name]["class_type"] if name in graph else ""


def _links(node: Node) -> Iterator[Link]:
    for value in node["inputs"].values():
        link = as_link(value)
        if link is not None:
            yield link


def upstream(graph: Graph, starts: Iterable[str], barriers: set[str]) -> set[str]:
    """Return the starts and all nodes before them, up to and including the barriers."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found and name in graph:
            found.add(name)
            if name not in barriers:
                waiting += [link[0] for link in _links(graph[name])]
    return found


def downstream(graph: Graph, start: str) -> set[str]:
    """Return all nodes behind a node."""
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
    """Yield `end` and all nodes before it in topological order, without `stop` and its own inputs."""
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
