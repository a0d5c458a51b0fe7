"""The page of the image models: what each model family's module in `nodes/sampling/families` declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .markdown import code, listed, note, page, table, text

HOSTS = ("0.14.1", "0.33.0")
INTRODUCTION = """
The families that the **Step Generator** can generate with. [Which image models
work?](../how-to/comfyui/image-models.md) explains how to choose. A model of another family works between
[Attempt Start and Attempt End](../how-to/comfyui/controlnet.md#attempt-start-and-attempt-end).
"""
STATES = """
**run**: a test generates with tiny random weights in that ComfyUI version. **missing**: that version does not
have the family. **read, not run**: no version that we can run has the family. Its nodes were read in
ComfyUI's documentation and templates, and are tested with stand-ins that have the same inputs and outputs.

| in the table | meaning |
|---|---|
| identical | bit-identical pixels to the official template |
| as documented | bit-identical pixels to a graph wired as the node's documentation says |
| no template | generates in the tests; there is no template to compare with |
| no comparison | not compared |
| image to image | starts from the noised source image |
| read | read, not run |
"""
NUMBERS = """
Maximum images: including the edited one. Write "image 2" in a prompt; the pack writes it as the model was
trained with. Sides: width and height of an image are multiples of this number of pixels. Enhancer: the
model that the maker puts in front to rewrite prompts.
"""
FILES = """
Files of ComfyUI's templates, below `ComfyUI/models`; the repository is on Hugging Face. Loader type: the
choice for **type** in ComfyUI's CLIP loader. Some templates use files of another precision, which work too.
"""
CHOSEN = "you choose it"


def pages(root: Path) -> dict[str, str]:
    """Return the page `image-models.md`."""
    from interleave_thinker.nodes.sampling.families.family import AUTO
    from interleave_thinker.nodes.sampling.families.registry import FAMILIES

    blocks = [
        "# Image models",
        note("`nodes/sampling/families`"),
        INTRODUCTION,
        "## State and edit method",
        STATES,
        table(
            ("Family", "Edit method", "Detected", *HOSTS, "Text to image", "Edit", "Several references"),
            (_state(one, AUTO) for one in FAMILIES),
        ),
        "## Images and prompts",
        NUMBERS,
        table(
            ("Family", "Maximum images", "Image 2 in prompts", "Sides", "Enhancer"),
            (_images(one) for one in FAMILIES if one.most_images > 1 or one.enhancer),
        ),
        "## Recommended settings",
        table(
            ("Family", "Checkpoint or LoRA", "Steps", "CFG", "Sampler", "Scheduler"),
            (row for one in FAMILIES for row in _settings(one)),
        ),
        "## Files and licenses",
        FILES,
        table(
            ("Family", "License", "Loader type", "Files"),
            (_files(one) for one in FAMILIES),
        ),
        "## Notes",
        "\n".join(f"- **{text(one.name)}**: {text(one.note)}" for one in FAMILIES if one.note),
    ]
    return {"image-models.md": page(*blocks)}


def _state(one: Any, auto: str) -> tuple[str, ...]:
    checks = one.compared
    done = (checks.text, checks.edit, checks.references)
    is_read = "read" in done
    hosts = ("read, not run", "read, not run") if is_read else tuple(_host(one, host) for host in HOSTS)
    if one.method is None:
        return text(one.name), "own graph", "", *hosts, *done
    return text(one.name), code(one.method), _detected(one, auto), *hosts, *done


def _host(one: Any, host: str) -> str:
    if host in one.ran_in:
        return "run"
    return "missing" if one.ran_in else "not run"


def _detected(one: Any, auto: str) -> str:
    """Say whether `auto` finds the family."""
    from interleave_thinker.nodes.sampling.families.registry import families_of

    if not one.models or not one.guess:
        return CHOSEN
    alike = [other for model in one.models for other in families_of(model) if other.guess]
    same = {other.method for other in alike} == {one.method}
    return code(auto) if same or one.certain is not None else CHOSEN


def _images(one: Any) -> tuple[str, ...]:
    row = one.row
    mark = code(row.mark.format(1 + row.first_mark)) if row is not None and row.mark else "as written"
    sides = str(row.grid if row is not None else 16)
    return text(one.name), str(one.most_images), mark, sides, text(one.enhancer)


def _settings(one: Any) -> Iterator[tuple[str, ...]]:
    for given in one.recommended:
        numbers = (str(given.steps), f"{given.cfg:g}")
        yield text(one.name), text(given.variant), *numbers, code(given.sampler), code(given.scheduler)


def _files(one: Any) -> tuple[str, ...]:
    return text(one.name), text(one.license), code(one.clip_type), _by_source(one.files)


def _by_source(files: Iterable[tuple[str, str]]) -> str:
    sources: dict[str, list[str]] = {}
    for path, source in files:
        sources.setdefault(source, []).append(path)
    return "; ".join(f"{source}: {listed(paths)}" for source, paths in sources.items())
