"""`interleave-thinker doctor`: shows what is installed, what is missing and the command that installs it.

It only inspects: versions come from package metadata, models from local folders. Only torch and torchvision
are imported, because their metadata does not tell whether they fit together. No model is loaded, downloaded
or requested over the network. `--plan` estimates memory instead, and `--agent` loads one agent to check which
engine settings work with it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from ...backend.errors import SettingsError, torchvision_repair
from ...backend.machine import libraries
from ..progress import Lines
from ..serve import places
from .doctor_agent import cards_of, show_agent

PACKAGES = {
    "torch": "",
    "torchvision": "",
    "transformers": "",
    "diffusers": "",
    "safetensors": "",
    "json-repair": "training",
    "trl": "training",
    "peft": "training",
    "accelerate": "training",
    "datasets": "training",
    "bitsandbytes": "quantization",
    "llguidance": "grammar",
    "fastapi": "serve",
    "uvicorn": "serve",
    "python-multipart": "serve",
    "prometheus-client": "serve",
    "ray": "ray",
}
"""Package: the extra that installs it, empty for a required package."""


PLAN_PANEL = "Memory estimate (--plan)"
DEFAULT_AGENT = "qwen3-vl-8b"
"""The size of the published planner and critic."""
TINY_PAGE = (96, 96)


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    plan: Annotated[
        str | None,
        typer.Option(
            help="Estimate instead which precisions fit into 12 to 80 GB of VRAM with this image model: "
            "flux2-klein-4b, flux2-klein-9b, qwen-image-edit, flux1-kontext, sdxl, sd15, tinyworld, a "
            "diffusers "
            "folder or a safetensors file.",
        ),
    ] = None,
    planner: Annotated[
        str | None,
        typer.Option(
            help="Planner: qwen3-vl-2b, -4b, -8b or -32b, a checkpoint folder, or openai:MODEL@URL (needs "
            "no VRAM "
            f"here). [default: {DEFAULT_AGENT}]",
            rich_help_panel=PLAN_PANEL,
        ),
    ] = None,
    critic: Annotated[
        str | None,
        typer.Option(
            help="Critic, in the same forms. The same folder as the planner's is counted once.",
            rich_help_panel=PLAN_PANEL,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Image size as WIDTHxHEIGHT. Default: 1024x1024.", rich_help_panel=PLAN_PANEL),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Load this agent instead, such as transformers:FOLDER, and show its device, training "
            "and decoding settings."
        ),
    ] = None,
    reserve: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1000.0,
            help="VRAM in GB that other programs use, such as the desktop.",
            rich_help_panel=PLAN_PANEL,
        ),
    ] = 0.0,
) -> None:
    """Show the installed packages, the device, the models that were found, and what is missing.

    The exit code is 1 if a required package is missing or torchvision does not load. With --plan, show which
    precisions of agents and image model fit into how much VRAM, and when models have to be moved between VRAM
    and RAM.
    """
    if agent is not None:
        show_agent(agent, as_json)
        return
    if plan is not None:
        _plan(plan, planner, critic, size, reserve, as_json)
        return
    models = places.found_models()
    report = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "interleave_thinker": _own_version(),
        "packages": {name: libraries.installed(name) or None for name in PACKAGES},
        "device": _device(),
        "cards": places.cards(),
        "free_ports": places.free_ports(),
        "models": {place: [str(path) for path in found] for place, found in models.items()},
        "trained": {},
        "advice": [],
    }
    cards, warnings = cards_of(models)
    broken = _broken_torchvision()
    report["trained"], report["advice"] = cards, [*broken, *_advice(report), *warnings]
    if as_json:
        print(json.dumps(report))
    else:
        _show(report)
    absent = any(not extra and report["packages"][name] is None for name, extra in PACKAGES.items())
    raise typer.Exit(int(absent or bool(broken)))


def _plan(
    generator: str, planner: str | None, critic: str | None, size: str | None, reserve: float, as_json: bool
) -> None:
    from ...backend.vram.models import NamedAgent, named_agent, named_image_model
    from ...backend.vram.placement import GB, plan_memory
    from ...tinyworld.runtime import checkpoint
    from .doctor_vram import lines

    tiny = generator.partition(":")[0] == "tinyworld"
    agents = [
        named_agent(given or (f"tinyworld:{role}" if tiny else DEFAULT_AGENT), checkpoint)
        for role, given in (("planner", planner), ("critic", critic))
    ]
    if planner is None and critic is None and not tiny and agents[1] is not None:
        # The published planner and critic are two checkpoints of one size.
        agents[1] = NamedAgent(f"another {agents[1].name}", agents[1].shape)
    found = plan_memory(
        named_image_model(generator, checkpoint),
        agents[0],
        agents[1],
        _size(size) if size else TINY_PAGE if tiny else (1024, 1024),
        reserve=reserve * GB,
    )
    if as_json:
        print(found.model_dump_json())
        return
    view = Lines()
    for line in lines(found):
        view.say(line)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{2,5})x(\d{2,5})", text)
    if match is None:
        raise SettingsError(
            f"--size {text!r} is not WIDTHxHEIGHT in pixels.", "Give a size such as 1024x768."
        )
    return int(match[1]), int(match[2])


def _own_version() -> str:
    from ... import __version__

    return __version__


def _device() -> dict[str, Any]:
    """Return the name of the default device, and its memory in GiB if it is known."""
    processors = os.cpu_count() or 1
    cpu = {"name": f"cpu, {processors} processors", "memory_gib": _main_memory()}
    if find_spec("torch") is None:
        return cpu
    import torch

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        name = torch.cuda.get_device_name()
        return {"name": name, "memory_gib": round(total / 2**30, 1), "free_gib": round(free / 2**30, 1)}
    if torch.backends.mps.is_available():
        return {"name": "mps", "memory_gib": _main_memory()}
    return cpu


def _main_memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _broken_torchvision() -> list[str]:
    """Return a line if torchvision is installed and does not load."""
    if find_spec("torch") is None or find_spec("torchvision") is None:
        return []
    try:
        import torchvision  # noqa: F401 - only whether it loads matters
    except (ImportError, AttributeError, RuntimeError, OSError) as error:
        reason = next(iter(str(error).splitlines()), "")
        repair = torchvision_repair(error) or "Reinstall it: pip install -U torchvision"
        return [f"torchvision does not load: {type(error).__name__}: {reason}. {repair}"]
    return []


def _advice(report: dict[str, Any]) -> list[str]:
    """Return one line for each missing part: its purpose and how to install it."""
    absent = [name for name in PACKAGES if report["packages"][name] is None]
    advice = [f"{name} is missing: pip install {name}" for name in absent if not PACKAGES[name]]
    for name, found in report["packages"].items():
        if found and libraries.is_too_old(name, found):
            least = libraries.least(name)
            advice.append(f'{name} {found} is too old: pip install "{name}>={least}"')
    purposes = {
        "training": "to train agents",
        "quantization": "to load agents in 4 or 8 bits",
        "grammar": "to constrain agents' answers to their grammar",
        "serve": "to serve image models",
        "ray": "to use several machines",
    }
    for extra, purpose in purposes.items():
        lacking = [name for name in absent if PACKAGES[name] == extra]
        if lacking:
            advice.append(
                f'{", ".join(lacking)} missing (needed {purpose}): pip install "interleave-thinker[{extra}]"'
            )
    if not report["models"]["shipped"]:
        advice.append("the tiny world's checkpoints are missing: reinstall interleave-thinker")
    if not report["models"]["comfyui"] and not report["models"]["hub"]:
        advice.append(
            "no Qwen3-VL checkpoint found, which requests beyond the tiny world need: use "
            "--planner transformers:FOLDER --critic transformers:FOLDER, a hub id with --download, or a "
            "server "
            "with openai:MODEL@URL"
        )
    return advice


def _show(report: dict[str, Any]) -> None:
    view = Lines()
    view.say(f"interleave-thinker {report['interleave_thinker']}", "bold")
    view.say(f"  python {report['python']} ({sys.executable}), {report['system']}")
    memory = report["device"]["memory_gib"]
    view.say(f"  device: {report['device']['name']}{f', {memory} GiB' if memory else ''}")
    view.say("Packages", "bold")
    for name, version in report["packages"].items():
        view.say(f"  {name} {version or 'missing'}", "" if version else "yellow")
    view.say("GPUs and ports for a service", "bold")
    for line in places.lines(report):
        view.say(f"  {line}")
    view.say("Models", "bold")
    for place, found in report["models"].items():
        for path in found or ["none"]:
            trained = report["trained"].get(path)
            view.say(f"  {place}: {path}{f' ({trained})' if trained else ''}")
    if report["advice"]:
        view.say("Missing", "bold")
    for line in report["advice"]:
        view.say(f"  {line}", "yellow")
