"""Runs both classes of the published code in child processes, and compares them with this package."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from ...backend.errors import SettingsError
from ...backend.pipeline.published import BENCHMARK_SETTINGS, STORY_SETTINGS
from ...backend.prompts import PromptSet
from ...backend.prompts.importer import import_official
from ...backend.types import RunSettings
from ..benchmarks.base.processes import EvaluatorError, EvaluatorJob, EvaluatorProcesses
from .cases import ParityCase, make_cases
from .comparison import Comparison, compare
from .observed import read_observed
from .ours import observe

CHILD = Path(__file__).with_name("child.py")
SECONDS = 300.0
"""Deadline of a class."""
MAX_LOG = 64 * 1024 * 1024
"""Maximum size of a class's output in bytes."""
PACKAGES = ("PIL", "json_repair")
"""What the published code imports, in addition to the libraries that are replaced."""


class PublishedClass(NamedTuple):
    """A class of the published code.

    Attributes:
        kind: Its name in child.py.
        name: Name for the user.
        file: Its file in the checkout.
        white: Path of its white image, in the checkout and in its working folder.
        settings: The equivalent settings of this package.
        with_images: Whether it accepts images in the request.
        joined: Whether it returns the joined text of all steps.
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
    checkout: Path, cases: Sequence[ParityCase] | None = None
) -> tuple[PromptSet, list[Comparison]]:
    """Compare the classes of a checkout with this package.

    Args:
        checkout: Checkout of the published code.
        cases: The cases. Default: all of `make_cases`.

    Returns:
        The prompt set of the checkout, and a comparison for each class.

    Raises:
        SettingsError: A file is missing in the checkout, a package that it needs is not installed, or the
            temporary folder cannot be written.
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
    cases = cases or make_cases()
    with ExitStack() as at_end:
        try:
            work = Path(tempfile.mkdtemp(prefix="interleave-parity-"))
            at_end.callback(shutil.rmtree, work, ignore_errors=True)
            processes = EvaluatorProcesses(work, seconds=SECONDS, name="published code", max_log=MAX_LOG)
            processes.require(PACKAGES)
            return prompts, [_compared(one, checkout, cases, prompts, processes) for one in CLASSES]
        except EvaluatorError:
            at_end.pop_all()  # keep the log, which the error names
            raise
        except OSError as error:
            raise SettingsError(
                f"The files of the comparison cannot be written ({error}).",
                "Free disk space for temporary files, or set TMPDIR to another folder.",
            ) from error


def _compared(
    one: PublishedClass,
    checkout: Path,
    cases: Sequence[ParityCase],
    prompts: PromptSet,
    processes: EvaluatorProcesses,
) -> Comparison:
    cases = [case for case in cases if one.with_images or not case.request.images]
    folder = processes.work / one.kind
    white = folder / one.white[1]
    white.parent.mkdir(parents=True)
    shutil.copyfile(checkout / one.white[0], white)
    asked = [_asked(case, folder) for case in cases]
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    observed = folder / "observed.json"
    path = (checkout / one.file).parent
    argv = (one.kind, str(folder / "asked.json"), str(observed))
    processes.run([EvaluatorJob(CHILD, argv, folder, (path,))])
    if not observed.is_file():
        raise EvaluatorError(f"{one.name} ended without a result.", f"Read its output in {processes.log}.")
    settings = RunSettings.model_validate(one.settings)
    ours = [observe(case, prompts, settings, one.joined) for case in cases]
    theirs = read_observed(observed)
    if len(theirs) != len(cases):
        raise SettingsError(
            f"The published code finished {len(theirs)} of {len(cases)} cases.", "Use another checkout."
        )
    return compare(one.name, cases, theirs, ours)


def _asked(case: ParityCase, folder: Path) -> dict[str, Any]:
    """Return a case as child.py reads it, and write its images."""
    images = []
    for number, picture in enumerate(case.request.images, 1):
        path = folder / f"{case.name} {number}.png"
        picture.image.save(path)
        images.append(str(path))
    return {
        "name": case.name,
        "request": case.request.text,
        "images": images,
        "plan": case.plan_reply,
        "verdicts": case.verdict_replies,
    }
