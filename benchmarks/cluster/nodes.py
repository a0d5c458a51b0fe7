"""A Ray cluster of three nodes on this machine, and the death of one of them.

A node is a raylet with its own workers, object store and Serve proxy. All have the address of this machine.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.ray_here import STORE

TOKEN = "0123456789abcdef" * 4
"""Token of this short-lived cluster. A real one is secret."""


@contextmanager
def three_nodes(cpus: int) -> Iterator[Any]:
    """Start a head and two more nodes with `cpus` CPUs each; yields the last one.

    Commands find the cluster with `--ray auto`.
    """
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

    head = {"num_cpus": cpus, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    os.environ["RAY_ADDRESS"] = str(cluster.address)
    try:
        cluster.add_node(num_cpus=cpus, object_store_memory=STORE)
        yield cluster.add_node(num_cpus=cpus, object_store_memory=STORE)
    finally:
        del os.environ["RAY_ADDRESS"]
        cluster.shutdown()


def raylet_of(node: Any) -> int:
    """Return the process of a node's raylet."""
    return int(node.all_processes["raylet"][0].process.pid)


def kill(first: int) -> list[str]:
    """Kill a process and all its descendants at once, as a power cut does. Returns their titles."""
    # The first one is killed first, so that it restarts none of the others.
    family = descendants(first)
    for process, _ in family:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return sorted(title for _, title in family)


def descendants(first: int) -> list[tuple[int, str]]:
    """Return a process and all its descendants, each with its title, parents before children."""
    children: dict[int, list[int]] = {}
    titles: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The second field is a name in parentheses, which can contain spaces.
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            title = (entry / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry.name))
        titles[int(entry.name)] = title.rpartition("/")[2]
    found, waiting = [], [first]
    while waiting:
        process = waiting.pop(0)
        found.append((process, titles.get(process, "")))
        waiting += children.get(process, [])
    return found
