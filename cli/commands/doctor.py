"""`interleave-thinker doctor`: shows what is installed, what is missing and the command that installs it.

It only inspects: versions come from package metadata, models from local folders. Only torch and torchvision
are imported, because their metadata does not tell whether they fit together. No model is loaded, downloaded
or requested over the network. `--plan` estimates memory instead.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...backend.core.errors import SettingsError, torchvision_repair
from ...backend.core.machine import libraries
from ...backend.core.prompts.trained_with import trained_with
from ...backend.core.types import StopReason, Trajectory
from ...backend.core.types.run_settings import sides_of
from ..progress import Lines
from ..shared_options import Json

if TYPE_CHECKING:
    from ...backend.models.vram.placement import CardPlan, Fit, MemoryPlan

PACKAGES = {
    **dict.fromkeys(("torch", "torchvision", "transformers", "diffusers", "safetensors"), ""),
    **dict.fromkeys(("json-repair", "trl", "peft", "accelerate", "datasets"), "training"),
    "bitsandbytes": "quantization",
    "llguidance": "grammar",
    **dict.fromkeys(("fastapi", "uvicorn", "python-multipart"), "serve"),
    "ray": "ray",
}
"""Package: the extra that installs it, empty for a required package."""
PURPOSES = {
    "training": "to train agents",
    "quantization": "to load agents in 4 or 8 bits",
    "grammar": "to constrain agents' answers to their grammar",
    "serve": "to serve image models",
    "ray": "to use several machines",
}
DEFAULT_AGENT = "qwen3-vl-8b"
"""The size of the published planner and critic."""
TINY_PAGE = (96, 96)
GIB = 2**30
HUB_MODELS = ("models--*Qwen3-VL*", "models--InterleaveThinker--*-8B")
"""Folders of agents in the hub's cache."""
COMFYUI_DECODE = 2178 * 2
"""Bytes per pixel that ComfyUI keeps free before a VAE decodes in 16 bits (comfy/sd.py,
VAE.memory_used_decode)."""


def command(
    as_json: Json = False,
    plan: Annotated[
        str | None,
        typer.Option(
            help="Estimate instead which precisions fit into 12 to 80 GB of VRAM with this image model: "
            "flux2-klein-4b, flux2-klein-9b, qwen-image-edit, flux1-kontext, sdxl, sd15, one of them in "
            "GGUF (flux2-klein-4b-Q4_K_M.gguf; no file is needed), tinyworld or a diffusers folder."
        ),
    ] = None,
    planner: Annotated[
        str | None,
        typer.Option(
            help="With --plan: planner, as qwen3-vl-2b, -4b, -8b or -32b, a checkpoint folder, "
            "llamacpp:FILE.gguf (a name such as Qwen3-VL-8B-Q4_K_M.gguf is enough), or "
            f"openai:MODEL@URL (needs no VRAM here). [default: {DEFAULT_AGENT}]"
        ),
    ] = None,
    critic: Annotated[
        str | None,
        typer.Option(
            help="With --plan: critic, in the same forms. The same folder as the planner's is counted once."
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option(help="With --plan: image size as WIDTHxHEIGHT. Default: 1024x1024.")
    ] = None,
    reserve: Annotated[
        float, typer.Option(min=0.0, max=1000.0, help="With --plan: VRAM in GB that other programs use.")
    ] = 0.0,
    run: Annotated[
        Path | None,
        typer.Option(help="Show instead where the time of a run went, and what shortens it.", exists=True),
    ] = None,
) -> None:
    """Show the installed packages, the device, the models that were found, and what is missing.

    The exit code is 1 if a required package is missing or torchvision does not load. With --plan, show which
    precisions of agents and image model fit into how much VRAM, and when models have to be moved between VRAM
    and RAM.
    """
    if run is not None:
        _show_times(run, as_json)
        return
    if plan is not None:
        _plan(plan, planner, critic, size, reserve, as_json)
        return
    report, is_broken = _report()
    if as_json:
        print(json.dumps(report))
    else:
        _show(report)
    absent = any(not extra and report["packages"][name] is None for name, extra in PACKAGES.items())
    raise typer.Exit(int(absent or is_broken))


def _report() -> tuple[dict[str, Any], bool]:
    """Return what was found, and whether torchvision does not load."""
    from ... import __version__

    models = found_models()
    cards, warnings = _cards_of(models)
    broken = _broken_torchvision()
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "interleave_thinker": __version__,
        "packages": {name: libraries.installed(name) or None for name in PACKAGES},
        "device": _device(),
        "models": {place: [str(path) for path in found] for place, found in models.items()},
        "trained": cards,
    }
    report["advice"] = [*broken, *_advice(report), *warnings]
    return report, bool(broken)


def _show_times(folder: Path, as_json: bool) -> None:
    """Print what planner, generator and critic of a run needed, and what shortens the longest part."""
    from ...backend.story.loop.replay import load_trajectory
    from ...backend.story.outcomes import spent_words, times_of

    trajectory = load_trajectory(folder)
    times, advice = times_of(trajectory), time_advice(trajectory)
    if as_json:
        print(json.dumps({"times": {name: dict(spent) for name, spent in times.items()}, "advice": advice}))
        return
    lines = [f"{name}: {spent_words(spent)}" for name, spent in times.items()]
    for line in [*lines, *(advice or ["The times of this run were not measured."])]:
        Lines().say(line)


def _show(report: dict[str, Any]) -> None:
    view = Lines()
    view.say(f"interleave-thinker {report['interleave_thinker']}", "bold")
    view.say(f"  python {report['python']} ({sys.executable}), {report['system']}")
    memory = report["device"]["memory_gib"]
    view.say(f"  device: {report['device']['name']}{f', {memory} GiB' if memory else ''}")
    view.say("Packages", "bold")
    for name, version in report["packages"].items():
        view.say(f"  {name} {version or 'missing'}", "" if version else "yellow")
    view.say("Models", "bold")
    for place, found in report["models"].items():
        for path in found or ["none"]:
            trained = report["trained"].get(path)
            view.say(f"  {place}: {path}{f' ({trained})' if trained else ''}")
    if report["advice"]:
        view.say("Missing", "bold")
    for line in report["advice"]:
        view.say(f"  {line}", "yellow")


SHORTER = {
    "planner": "--step-count plans fewer steps. The same --out does not plan again.",
    "generator": "Fewer denoising steps, --max-attempts or a smaller --size take less time.",
    "critic": "A server on another machine, or a critic trained with `prompts use short`, takes less time.",
}
"""How the part of an agent or of the generator gets shorter, in any run."""


def time_advice(trajectory: Trajectory) -> list[str]:
    """Return what took the most time, and the settings that shorten it; empty if nothing was measured."""
    from ...backend.story.outcomes import duration, times_of

    times = times_of(trajectory)
    if not times:
        return []
    name, spent = next(iter(times.items()))
    whole = sum(one.seconds for one in times.values())
    lines = [f"The {name} took {spent.seconds / whole:.0%} of {duration(whole)}.", SHORTER[name]]
    used_up = [one for one in trajectory.results if one.stop_reason is StopReason.attempts_used_up]
    if name == "critic" and used_up:
        seconds = sum(one.attempts[-1].judging.seconds for one in used_up)
        lines.append(f"--set judge_last=false: the last attempts took {duration(seconds)}.")
    if name != "generator" and getattr(trajectory.identities, name).startswith("transformers:"):
        lines.append(f"Without a GPU, --{name} llamacpp:FILE.gguf takes less time than transformers.")
    return lines


def _advice(report: dict[str, Any]) -> list[str]:
    """Return one line for each missing part: its purpose and how to install it."""
    absent = [name for name in PACKAGES if report["packages"][name] is None]
    advice = [f"{name} is missing: pip install {name}" for name in absent if not PACKAGES[name]]
    for name, found in report["packages"].items():
        if found and libraries.is_too_old(name, found):
            advice.append(f'{name} {found} is too old: pip install "{name}>={libraries.least(name)}"')
    for extra, purpose in PURPOSES.items():
        lacking = ", ".join(name for name in absent if PACKAGES[name] == extra)
        if lacking:
            advice.append(f'{lacking} missing (needed {purpose}): pip install ".[{extra}]"')
    if not report["models"]["shipped"]:
        advice.append("the tiny world's checkpoints are missing: reinstall interleave-thinker")
    if not report["models"]["comfyui"] and not report["models"]["hub"]:
        advice.append(
            "no Qwen3-VL checkpoint found, which requests beyond the tiny world need: use --planner "
            "transformers:FOLDER --critic transformers:FOLDER, a hub id with --download, or a server with "
            "openai:MODEL@URL"
        )
    return advice


def _device() -> dict[str, Any]:
    """Return the name of the default device, and its memory in GiB if it is known."""
    name, memory = f"cpu, {os.cpu_count() or 1} processors", None
    with suppress(AttributeError, ValueError, OSError):
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1)
    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            name, memory = torch.cuda.get_device_name(), round(total / GIB, 1)
            return {"name": name, "memory_gib": memory, "free_gib": round(free / GIB, 1)}
        name = "mps" if torch.backends.mps.is_available() else name
    return {"name": name, "memory_gib": memory}


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


def found_models() -> dict[str, list[Path]]:
    """Return the checkpoint folders by place: built in, in a ComfyUI installation, in the hub cache."""
    shipped = Path(__file__).parents[2] / "tinyworld" / "checkpoints"
    comfy = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "comfy" / "ComfyUI")
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return {
        "shipped": _checkpoints(shipped),
        "comfyui": _checkpoints(comfy / "models" / "interleave_agents"),
        "hub": sorted(
            path for name in HUB_MODELS for path in cache.glob(name) if any(path.glob("snapshots/*"))
        ),
    }


def _checkpoints(folder: Path) -> list[Path]:
    """Return the subfolders with a model (config.json) or a pipeline (model_index.json)."""
    named = ("config.json", "model_index.json", "adapter_config.json")
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if any((path / name).is_file() for name in named))


def _cards_of(models: dict[str, list[Path]]) -> tuple[dict[str, str], list[str]]:
    """Return what the models' agent cards say, by path, and warnings about prompt sets and damaged cards."""
    cards: dict[str, str] = {}
    warnings: list[str] = []
    for path in (path for found in models.values() for path in found):
        folder = max(path.glob("snapshots/*"), key=lambda one: one.stat().st_mtime, default=path)
        try:
            trained = trained_with(folder, adapter=(folder / "adapter_config.json").is_file())
        except SettingsError as error:
            warnings.append(str(error))
            continue
        if trained.described:
            cards[str(path)] = trained.described
        if trained.warning:
            warnings.append(trained.warning)
    return cards, warnings


def _plan(
    generator: str, planner: str | None, critic: str | None, size: str | None, reserve: float, as_json: bool
) -> None:
    """Print which precisions fit into how much VRAM."""
    from ...backend.models.vram.models import NamedAgent, named_agent, named_image_model
    from ...backend.models.vram.placement import GB, plan_memory
    from ...tinyworld import checkpoint

    tiny = generator.partition(":")[0] == "tinyworld"
    try:
        area = sides_of(size, 1) if size else TINY_PAGE if tiny else (1024, 1024)
    except ValueError as error:
        raise SettingsError(f"--size: {error}.") from error
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
        area,
        reserve=reserve * GB,
    )
    if as_json:
        print(found.model_dump_json())
        return
    view = Lines()
    for line in _plan_lines(found):
        view.say(line)


def _plan_lines(plan: MemoryPlan) -> Iterator[str]:
    """Yield the size of each model, then a choice for each size of VRAM."""
    from ...backend.models.vram.placement import GB, WHAT_MOVES

    width, height = plan.size
    yield (
        f"Image model {plan.generator}, planner {plan.planner}, critic {plan.critic}, "
        f"images of {width}x{height} pixels"
    )
    yield (
        f"Estimated, not measured, in GB of 10⁹ bytes. A peak includes a reserve of {plan.reserve / GB:.1f} "
        "GB and 10 % of the working memory for fragmentation."
    )
    yield ""
    precision, parts = next(iter(plan.parts.items()))
    if "GGUF" in precision:
        yield (
            "A GGUF file keeps its precision; a size by its name is within about 10 %. With --set "
            "gpu_layers=0 an agent in GGUF takes its memory from RAM instead, and is slow."
        )
    yield f"In {precision} (agents + image model):"
    for part in parts:
        yield f"  {part.name}: weights {part.weights / GB:.1f} GB, working memory {part.work / GB:.1f} GB"
    yield ""
    for one in plan.cards:
        yield from _choices(one, GB)
    yield ""
    for name, meaning in WHAT_MOVES.items():
        yield f"{name}: {meaning}"
    yield "ComfyUI moves models automatically; the command line keeps all of them in VRAM (together)."
    yield (
        f"ComfyUI needs {COMFYUI_DECODE * width * height / GB:.1f} GB free to decode an image of this size. "
        "If less is free, it moves models to RAM during decoding."
    )


def _choices(gpu: CardPlan, gb: float) -> Iterator[str]:
    label = f"{gpu.card:>3} GB ({gpu.usable / gb:.1f} usable): "
    if gpu.finest is None:
        short = gpu.fits[-1]
        yield (
            f"{label}does not fit: {short.short / gb:.1f} GB missing even with agents in {short.agents} and "
            f"the image model in {short.image}."
        )
        yield f"       To need less: {'; '.join(gpu.lower)}."
        return
    if gpu.steady is not None:
        yield f"{label}no model moves during the loop: {_described(gpu.steady, gb)}"
        label = " " * 7
    finest = gpu.finest
    if finest != gpu.steady:
        reread = "" if finest.agents == "bf16" else " (quantized agents are read from disk again)"
        moved, waiting = finest.moved / gb, finest.waiting / gb
        cost = (
            f"; {moved:.1f} GB move at every attempt{reread}, needs {waiting:.1f} GB of RAM" if moved else ""
        )
        yield f"{label}highest precision: {_described(finest, gb)}{cost}"


def _described(fit: Fit, gb: float) -> str:
    return f"agents {fit.agents}, image model {fit.image}: {fit.arrangement}, peak {fit.peak / gb:.1f} GB"
