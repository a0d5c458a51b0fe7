"""Finds GPUs, free ports and models on this machine.

A port is tested by binding to it for a moment, as the service would. That is more reliable than a list of
connections and needs no privileges.
"""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PORTS = tuple(range(8000, 8012))
"""Default ports of the published services and of `serve` (8011)."""
THIS_MACHINE = "127.0.0.1"
GIB = 2**30
HUB_MODELS = ("models--*Qwen3-VL*", "models--InterleaveThinker--*-8B")
"""Folders of agents in the hub's cache."""


def free_ports() -> list[int]:
    """Return the ports in PORTS that a service on this machine could listen on."""
    return [port for port in PORTS if _is_free(port)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name == "posix":
            # As servers do: a port with connections in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((THIS_MACHINE, port))
        except OSError:
            return False
    return True


def cards() -> list[dict[str, Any]]:
    """Return every GPU that torch sees: its name for `--devices`, and its total and free memory in GiB."""
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
    """Return the GPUs and ports of a report as lines."""
    shown = []
    for gpu in places["cards"]:
        memory = f"{gpu['free_gib']} of {gpu['memory_gib']} GiB free" if "name" in gpu else gpu["fault"]
        shown.append(f"{gpu['device']}: {gpu.get('name', 'cannot be used')}, {memory}")
    taken = [str(port) for port in PORTS if port not in places["free_ports"]]
    ports = f"ports {PORTS[0]} to {PORTS[-1]}: " + (f"in use {', '.join(taken)}" if taken else "all free")
    return [*(shown or ["no GPU: models run on the CPU or on Apple's mps"]), ports]


def found_models() -> dict[str, list[Path]]:
    """Return the checkpoint folders by place: built in, in a ComfyUI installation, in the hub cache."""
    shipped = Path(__file__).parents[2] / "tinyworld" / "runtime" / "checkpoints"
    comfy = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "comfy" / "ComfyUI")
    return {
        "shipped": _checkpoints(shipped),
        "comfyui": _checkpoints(comfy / "models" / "interleave_agents"),
        "hub": sorted(
            path for name in HUB_MODELS for path in _hub_cache().glob(name) if any(path.glob("snapshots/*"))
        ),
    }


def _hub_cache() -> Path:
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub")


def _checkpoints(folder: Path) -> list[Path]:
    """Return the subfolders with a model (config.json) or a pipeline (model_index.json)."""
    named = ("config.json", "model_index.json", "adapter_config.json")
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if any((path / name).is_file() for name in named))
