"""Runs an official evaluator against the judge bridge and reads its figures (`score --official`).

Its output is in `OUT/official`, which every call recreates. The valuable part of an earlier call, the judge's
answers, is in a separate file, so an interrupted call continues at no cost. The commit of the checkout is
stored next to the commit that this package was written for.

An evaluator runs in child processes: it sees no key except the bridge's, an empty home folder and no proxy
settings, and works in its own folder. Its output goes to a log of limited size; if it fails, the last line is
shown. It is ended when the bridge has given up on the judge, when it asks nothing for a long time, when it
prints too much, at a deadline, and on Ctrl-C, together with everything that it started.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...backend.core.errors import InterleaveError, SettingsError
from ...backend.core.files.lock import SystemLock
from ...backend.core.machine.environment import restricted
from ...backend.core.shown_text import one_line
from ..benchmarks.benchmark import LOG, Benchmark, BenchmarkData, BenchmarkItem, EvaluatorJob, EvaluatorPaths
from .benchmark_run import commit, open_folder
from .judge_bridge import BenchmarkJudge, JudgeBridge
from .scores import BenchmarkScores, JudgeInfo, score
from .submission import SUBMISSION, read_collected

FOLDER = "official"
ANSWERS = "answers.sqlite"
LOCK = ".official.lock"
MARGIN_SECONDS = 60.0
MAX_ATTEMPTS = 2
CHILD = Path(__file__).with_name("evaluator_child.py")
MAX_LOG = 1024**3
"""Maximum output of each call of `run` in bytes."""
LOOKED_EVERY = 0.1
GRACE_SECONDS = 5.0
LAST_BYTES = 4096
SHOWN = 300
FIND = (
    "import importlib.util, sys\n"
    "def there(name):\n"
    "    try:\n"
    "        return importlib.util.find_spec(name) is not None\n"
    "    except ImportError:\n"
    "        return False\n"
    "print(*[name for name in sys.argv[1:] if not there(name)])\n"
)
DISTRIBUTIONS = {"google.genai": "google-genai", "PIL": "pillow"}
"""Packages whose distribution name differs from their module name."""


class EvaluatorError(InterleaveError):
    """An evaluator failed or did not finish."""


@dataclass(frozen=True)
class EvaluatorProcesses:
    """Runs jobs with a Python interpreter.

    Attributes:
        work: Working folder.
        python: The interpreter.
        seconds: Deadline of each call of `run`.
        check: Called while jobs run; it may raise to end them.
    """

    work: Path
    python: str = sys.executable
    seconds: float = 86400.0
    check: Callable[[], None] = lambda: None

    @property
    def log(self) -> Path:
        """Log of all output."""
        return self.work / LOG

    @property
    def _executable(self) -> str:
        """Absolute path of the interpreter, since children start in their own folders.

        It is not resolved, because a virtual environment is a link. A bare name is looked up in PATH.
        """
        return os.path.abspath(self.python) if os.path.dirname(self.python) else self.python

    def require(self, packages: Sequence[str]) -> None:
        """Check that the interpreter runs and has the packages.

        Raises:
            SettingsError: If it does not run, or a package is missing.
        """
        try:
            found = subprocess.run(
                [self._executable, "-B", "-s", "-c", FIND, *packages],
                capture_output=True,
                text=True,
                timeout=60.0,
                env=self._environment({}),
                # With -c Python also finds packages in the current folder.
                cwd=self.work,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = one_line(str(error))[:SHOWN]
            raise SettingsError(
                f"Cannot run the Python {self.python!r}: {reason}.",
                "Choose another interpreter with --python.",
            ) from error
        if found.returncode:
            raise SettingsError(
                f"The Python {self.python!r} does not work.", "Choose another interpreter with --python."
            )
        missing = [DISTRIBUTIONS.get(name, name) for name in found.stdout.split()]
        if missing:
            raise SettingsError(
                f"The evaluator needs packages that {self.python!r} does not have: {', '.join(missing)}.",
                f"Run: uv pip install --python {self.python} {' '.join(missing)}. "
                "Or choose another interpreter with --python.",
            )

    def run(self, jobs: Sequence[EvaluatorJob]) -> None:
        """Run the jobs in parallel until all have ended.

        If one fails, all others are ended.

        Raises:
            EvaluatorError: If a job fails or prints too much, or the deadline passes. Exceptions of `check`
                pass through.
        """
        until = time.monotonic() + self.seconds
        running: list[subprocess.Popen[bytes]] = []
        try:
            with self.log.open("ab") as log:
                printed = log.tell()
                for job in jobs:
                    running.append(self._started(job, log))
                while running:
                    ended = [one for one in running if one.poll() is not None]
                    self._look(ended)
                    # Immediately: hours later the system may have reused the process id.
                    for one in ended:
                        running.remove(one)
                        _end(one)
                    if running and time.monotonic() > until:
                        raise EvaluatorError(
                            f"The evaluator did not finish within {self.seconds:g} s.",
                            f"Read its output in {self.log}.",
                        )
                    if running and os.fstat(log.fileno()).st_size - printed > MAX_LOG:
                        raise EvaluatorError(
                            f"The evaluator printed more than {MAX_LOG / 1024**2:g} MB.",
                            f"Read the beginning of its output in {self.log}, then delete the file.",
                        )
                    if running:
                        time.sleep(LOOKED_EVERY)
        except OSError as error:
            raise EvaluatorError(f"Cannot run the evaluator: {error.strerror or error}.") from error
        finally:
            for one in running:
                _end(one)

    def _started(self, job: EvaluatorJob, log: IO[bytes]) -> subprocess.Popen[bytes]:
        job.cwd.mkdir(parents=True, exist_ok=True)
        child = subprocess.Popen(
            [self._executable, "-u", "-B", "-s", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=job.cwd,
            env=self._environment(job.environment),
            start_new_session=os.name == "posix",
        )
        assert child.stdin is not None
        with suppress(BrokenPipeError):
            child.stdin.write(_line_of(job))
            child.stdin.flush()
        return child

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return restricted(self.work.absolute() / "home", **{"OMP_NUM_THREADS": "1", **more})

    def _look(self, ended: Sequence[subprocess.Popen[bytes]]) -> None:
        # Check the judge first: if the judge failed, its error explains more than the evaluator's.
        self.check()
        failed = next((one.returncode for one in ended if one.returncode), None)
        if failed is None:
            return
        how = f"status {failed}" if failed > 0 else f"signal {signal.Signals(-failed).name}"
        raise EvaluatorError(
            f"The evaluator exited with {how}: {self._last_line().rstrip('.')}.",
            f"Read its output in {self.log}.",
        )

    def _last_line(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - LAST_BYTES))
                lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
        except OSError:
            return "its log cannot be read."
        return one_line(next((line for line in reversed(lines) if line), "it printed nothing."))[:SHOWN]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and everything that it started, whether or not it is still running."""
    group = child.pid if os.name == "posix" else None
    try:
        _signal(child, group, "SIGTERM")
        with suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)
    finally:
        _signal(child, group, "SIGKILL")
        child.wait()
        if child.stdin is not None:
            with suppress(OSError):
                child.stdin.close()


def _signal(child: subprocess.Popen[bytes], group: int | None, name: str) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if group is None:
            child.terminate()
        else:
            os.killpg(group, getattr(signal, name))


def _line_of(job: EvaluatorJob) -> bytes:
    """Return the JSON line that evaluator_child.py reads."""
    content: dict[str, Any] = {
        "kind": job.kind,
        "script": str(job.script),
        "argv": list(job.argv),
        "path": [str(one) for one in job.path] or [str(job.script.parent)],
    }
    return json.dumps({**content, **job.more}).encode() + b"\n"


@dataclass(frozen=True)
class OfficialScoring:
    """How to run an evaluator.

    Attributes:
        checkout: Its checkout.
        python: Python that has its requirements.
        parallel: Number of questions at the same time.
        silence: Seconds without a question after which it counts as hanging.
        deadline: Maximum time in seconds.
    """

    checkout: Path
    python: str = sys.executable
    parallel: int = 16
    silence: float = 900.0
    deadline: float = 86400.0


def score_officially(
    out: Path,
    official: OfficialScoring,
    judge: Callable[[], BenchmarkJudge],
    log: Callable[[str], None] = print,
) -> BenchmarkScores:
    """Run the benchmark's official evaluator on a collected folder and write its figures like `score`.

    Args:
        out: The folder.
        official: How to run the evaluator.
        judge: Opens the judge, after everything else has been checked.
        log: Receives progress lines.

    Raises:
        SettingsError: If the folder, checkout, data or Python cannot be used.
        EvaluatorError: If the evaluator fails.
        JudgeUnavailable: If the judge fails.
    """
    setting, benchmark, items = open_folder(out)
    _check_checkout(benchmark, official.checkout)
    read_collected(out)
    busy = SettingsError(f"Another process is scoring {str(out)!r}.", "Wait until it has finished.")
    with SystemLock(out / LOCK).held(busy):
        work = _empty(out / FOLDER)
        EvaluatorProcesses(work, official.python).require(benchmark.needs)
        opened = judge()
        try:
            task = (benchmark, items, setting.where())
            judged, results = _run(out, work, official, opened, task, log)
        finally:
            opened.close()
        return score(out, results, judged)


Task = tuple[Benchmark, Sequence[BenchmarkItem], BenchmarkData]


def _run(
    out: Path,
    work: Path,
    official: OfficialScoring,
    judge: BenchmarkJudge,
    task: Task,
    log: Callable[[str], None],
) -> tuple[JudgeInfo, Path]:
    benchmark, items, data = task
    # Only letters and digits: an evaluator would parse a key that begins with "-" as an option.
    token = secrets.token_hex(24)
    bridge = JudgeBridge(judge, token, official.parallel)

    def check() -> None:
        if bridge.client.trouble is not None:
            raise bridge.client.trouble
        if bridge.client.idle_seconds > official.silence:
            raise EvaluatorError(
                f"The evaluator has not asked a question for {official.silence:g} s.",
                f"Read its output in {processes.log}.",
            )

    processes = EvaluatorProcesses(work, official.python, official.deadline, check)
    with bridge.serving() as address:
        place = EvaluatorPaths(
            data=data,
            checkout=official.checkout.resolve(),
            work=work.resolve(),
            submission=(out / SUBMISSION).resolve(),
            address=address,
            token=token,
            workers=official.parallel,
            seconds=MAX_ATTEMPTS * judge.deadline + MARGIN_SECONDS,
        )
        plan = benchmark.plan(place, items)
        at = commit(official.checkout)
        log(f"evaluator: {benchmark.terms.evaluator}, checkout at {at[:12]}; judge: {judge.identity}")
        log(f"output of the evaluator: {processes.log}")
        try:
            for jobs in ([plan.parts] if plan.parts else []) + [[job] for job in plan.whole]:
                bridge.client.begin()
                processes.run(jobs)
        except KeyboardInterrupt:
            log("Stopped. Run the same command again to continue; answers of the judge are cached.")
            raise
        finally:
            log(f"{judge.asked} questions sent to the judge, {judge.remembered} answered from the cache")
    judged = JudgeInfo(
        how="official code",
        evaluator=benchmark.terms.evaluator,
        judge=judge.identity,
        checkout=at,
        official=dict(plan.figures()),
    )
    return judged, plan.results


def _check_checkout(benchmark: Benchmark, checkout: Path) -> None:
    terms = benchmark.terms
    if not benchmark.files:
        raise SettingsError(
            f"{terms.title} has no official evaluator.",
            "Omit --official, or pass its results with --results.",
        )
    absent = [file for file in benchmark.files if not (checkout / file).is_file()]
    if absent:
        raise SettingsError(
            f"{str(checkout)!r} is not a checkout of {terms.repository}: {absent[0]} is missing.",
            f"Run: git clone https://github.com/{terms.repository}",
        )


def _empty(folder: Path) -> Path:
    """Return a folder of this module after emptying it."""
    try:
        if folder.is_symlink():
            raise SettingsError(f"The folder {str(folder)!r} is a link.", "Remove the link.")
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError as error:
        raise SettingsError(
            f"Cannot recreate the folder {str(folder)!r}: {error.strerror or error}."
        ) from error
    return folder
