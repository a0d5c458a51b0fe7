"""Runs both classes of the published code in child processes, and compares them with this package."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...backend.errors import SettingsError
from ...backend.pipeline.published import BENCHMARK_SETTINGS, STORY_SETTINGS
from ...backend.prompts import PromptSet
from ...backend.prompts.importer import import_official
from ...backend.types import RunSettings
from ..benchmarks.base.processes import EvaluatorJob, EvaluatorProcesses
from .comparison import Comparison, compare
from .observed import read_observed
from .ours import observe
from .work import ParityWork, make_works

CHILD = Path(__file__).with_name("child.py")
SECONDS = 300.0
"""Deadline of a class."""
PACKAGES = ("PIL", "json_repair")
"""What the published code imports, in addition to the libraries that are replaced."""


class PublishedClass(NamedTuple):
    """A class of the published code.

    Attributes:
        kind: How child.py calls it.
        name: Name for the user.
        file: Its file in the checkout.
        white: The white page that it reads, in the checkout and in its working folder.
        settings: Settings with which this package does the same.
        with_images: Whether it accepts images of the user.
        joined: Whether it returns one joined text.
    """

    kind: str
    name: str
    file: str
    white: tuple[str, str]
    settings: dict[str, Any]
    with_images: bool
    joined: bool


CLASSES = (
    PublishedClass(
        "demo",
        "SingleSampleGenerator of demo_klein.py",
        "demo_klein.py",
        ("data_gen/white.png", "data_gen/white.png"),
        STORY_SETTINGS["released"],
        with_images=True,
        joined=False,
    ),
    PublishedClass(
        "runner",
        "IterativeImageGenerator of UEval/ueval_klein.py",
        "UEval/ueval_klein.py",
        ("UEval/white.png", "white.png"),
        BENCHMARK_SETTINGS["released"],
        with_images=False,
        joined=True,
    ),
)


def compare_checkout(
    checkout: Path, works: Sequence[ParityWork] | None = None
) -> tuple[PromptSet, list[Comparison]]:
    """Compare the classes of a checkout with this package.

    Args:
        checkout: Checkout of the published code.
        works: The works. Default: all of `make_works`.

    Returns:
        The prompt set of the checkout, and a comparison for each class.

    Raises:
        SettingsError: A file is missing in the checkout, or a package that it needs is not installed.
        EvaluatorError: A class failed. Its output is kept.
    """
    checkout = checkout.absolute()
    for one in CLASSES:
        for name in (one.file, one.white[0]):
            if not (checkout / name).is_file():
                raise SettingsError(
                    f"{str(checkout)!r} does not contain {name}.",
                    "Give a checkout of github.com/zhengdian1/InterleaveThinker.",
                )
    prompts = import_official(checkout)
    work = Path(tempfile.mkdtemp(prefix="interleave-parity-"))
    processes = EvaluatorProcesses(work, seconds=SECONDS, name="published code")
    processes.require(PACKAGES)
    works = works or make_works()
    found = [_compared(one, checkout, works, prompts, processes) for one in CLASSES]
    shutil.rmtree(work, ignore_errors=True)  # kept with its log if a class failed
    return prompts, found


def _compared(
    one: PublishedClass,
    checkout: Path,
    works: Sequence[ParityWork],
    prompts: PromptSet,
    processes: EvaluatorProcesses,
) -> Comparison:
    works = [work for work in works if one.with_images or not work.request.images]
    folder = processes.work / one.kind
    white = folder / one.white[1]
    white.parent.mkdir(parents=True)
    shutil.copyfile(checkout / one.white[0], white)
    asked = [_asked(work, folder) for work in works]
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    observed = folder / "observed.json"
    path = (checkout / one.file).parent
    argv = (one.kind, str(folder / "asked.json"), str(observed))
    processes.run([EvaluatorJob(CHILD, argv, folder, (path,))])
    settings = RunSettings.model_validate(one.settings)
    ours = [observe(work, prompts, settings, one.joined) for work in works]
    theirs = read_observed(observed)
    if len(theirs) != len(works):
        raise SettingsError(
            f"The published code did {len(theirs)} of {len(works)} works.", "Use another checkout."
        )
    return compare(one.name, works, theirs, ours)


def _asked(work: ParityWork, folder: Path) -> dict[str, Any]:
    """Return a work as child.py reads it, and write its images."""
    images = []
    for number, picture in enumerate(work.request.images, 1):
        path = folder / f"{work.name} {number}.png"
        picture.image.save(path)
        images.append(str(path))
    return {
        "name": work.name,
        "request": work.request.text,
        "images": images,
        "plan": work.plan_reply,
        "verdicts": work.verdict_replies,
    }
