"""Where a service could run on this machine: the cards, and which of the usual ports nobody listens at.

Decision: a port is tried by taking it for a moment, as the service would; that says more than a list of
connections, and needs no rights.
"""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from typing import Any

PORTS = tuple(range(8000, 8012))
"""Those of the published services, ours (8011) among them."""
THIS_MACHINE = "127.0.0.1"
GIB = 2**30


def free_ports() -> list[int]:
    """Those of PORTS at which a service of this machine could listen."""
    return [port for port in PORTS if _is_free(port)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":
            # As servers do: a port whose last connections are only fading away is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((THIS_MACHINE, port))
        except OSError:
            return False
    return True


def cards() -> list[dict[str, Any]]:
    """Every card that torch sees, as `--devices` names it, with its memory in GiB and how much is free."""
    if find_spec("torch") is None:
        return []
    import torch

    found = []
    for number in range(torch.cuda.device_count()):
        try:
            free, total = torch.cuda.mem_get_info(number)
        except RuntimeError as error:
            fault = next(iter(str(error).splitlines()), "")[:200]
            found.append({"device": f"cuda:{number}", "fault": fault})
            continue
        found.append(
            {
                "device": f"cuda:{number}",
                "name": torch.cuda.get_device_name(number),
                "memory_gib": round(total / GIB, 1),
                "free_gib": round(free / GIB, 1),
            }
        )
    return found


def lines(places: dict[str, Any]) -> list[str]:
    """The cards and ports of a report as lines."""
    shown = []
    for card in places["cards"]:
        memory = f"{card['free_gib']} of {card['memory_gib']} GiB free" if "name" in card else card["fault"]
        shown.append(f"{card['device']}: {card.get('name', 'cannot be used')}, {memory}")
    taken = [str(port) for port in PORTS if port not in places["free_ports"]]
    said = f"ports {PORTS[0]} to {PORTS[-1]}: " + (f"taken {', '.join(taken)}" if taken else "all free")
    return [*(shown or ["no card: models run on the processor, or on Apple's mps"]), said]
