"""What the command line makes of hostile files: one line of error, soon, in little memory, and nothing
written elsewhere.

Decision: every kind of tests/support/hostile_files.py stands in the place of every file that is read, each
time in a fresh folder and a process of its own, forked from one that has its libraries loaded: what is
counted is what the file costs. Beside the folder lies another whose content is compared before and after.

    python benchmarks/hostile_files.py                       # the last line is JSON
    python benchmarks/hostile_files.py --only "run --plan"
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable
from support.hostile_files import KINDS, READERS, Reader, prepare, put

from interleave_thinker.cli import main as command_line

MAX_SECONDS, MAX_BYTES = 10.0, 500 * 1000 * 1000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def measure(template: Path, reader: Reader, kind: str, limit: float) -> dict[str, Any]:
    """One case: exit code, lines of error, seconds, peak bytes (all, and beyond the libraries), what changed
    elsewhere."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as given:
        at, beside = Path(given, "at"), Path(given, "beside")
        shutil.copytree(template, at)
        beside.mkdir()
        (beside / "mine.txt").write_text("mine")
        command = put(at, reader, kind)
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _carry_out(command, given)
        signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, limit)
        _, status, used = os.wait4(child, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.monotonic() - begun
        errors = Path(given, "err").read_text(encoding="utf-8", errors="replace")
        memory = json.loads(Path(given, "memory").read_text()) if Path(given, "memory").exists() else {}
        outside = sorted(
            path.name
            for path in Path(given).iterdir()
            if path.name not in ("at", "beside", "err", "out", "memory")
        )
        if [path.name for path in beside.iterdir()] != ["mine.txt"] or (
            beside / "mine.txt"
        ).read_text() != "mine":
            outside.append("beside")
        return {
            "code": os.waitstatus_to_exitcode(status),
            "errors": [line for line in errors.splitlines() if line.strip()],
            "seconds": seconds,
            "cpu": used.ru_utime + used.ru_stime,
            "peak": memory.get("peak", 0),
            "beyond": memory.get("peak", 0) - memory.get("before", 0),
            "outside": outside,
            "control": bool(CONTROL.search(errors + Path(given, "out").read_text(errors="replace"))),
        }


def _carry_out(command: list[str], folder: str) -> None:
    """In the child: the command line as it is called, its output in files, its memory counted from here
    on."""
    os.environ.update(HOME=folder, HF_HUB_OFFLINE="1", COLUMNS="200", NO_COLOR="1")
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(f"{folder}/at")
    before, code = _reset_peak(), 0
    sys.argv = ["interleave-thinker", *command]
    try:
        command_line()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001 - counted as a fault of the case
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    sys.stderr.flush()
    Path(folder, "memory").write_text(json.dumps({"before": before, "peak": _status("VmHWM")}))
    os._exit(code)


def _reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found.group(1)) * 1024 if found else 0


def fault_of(case: dict[str, Any]) -> str:
    """What is wrong with how a case ended; empty if nothing is."""
    usage = case["code"] == 2 and any(line.startswith("Usage:") for line in case["errors"])
    faults = {
        "no error": case["code"] == 0 and not case["harmless"],
        "killed or a traceback": case["code"] not in (0, 1, 2, 3),
        f"{len(case['errors'])} lines": case["code"] != 0 and len(case["errors"]) != 1 and not usage,
        # By the processor's time: a machine that others use, too, makes everything look slow. What waits is
        # killed at the limit.
        "slow": case["cpu"] > MAX_SECONDS,
        "memory": case["beyond"] > MAX_BYTES,
        "wrote elsewhere": bool(case["outside"]),
        "control characters": case["control"],
    }
    return ", ".join(name for name, wrong in faults.items() if wrong)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    asked.add_argument("--only", help="Readers whose name contains this.")
    asked.add_argument("--kind", help="Kinds of file whose name contains this.")
    asked.add_argument("--limit", type=float, default=30.0, help="Seconds after which a case is ended.")
    given = asked.parse_args()
    chosen = {name: one for name, one in READERS.items() if (given.only or "") in name}
    kinds = [name for name in KINDS if (given.kind or "") in name]
    results: dict[tuple[str, str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="hostile-template-") as template:
        prepare(Path(template))
        for heavy in (False, True):
            if heavy and any(one.heavy for one in chosen.values()):
                _load_libraries()
            for name, reader in chosen.items():
                if reader.heavy != heavy:
                    continue
                for kind in kinds:
                    case = results[name, kind] = measure(Path(template), reader, kind, given.limit)
                    case["harmless"] = kind in reader.harmless
                    fault = fault_of(case)
                    if fault:
                        print(f"{name}, {kind}: {fault}; {' | '.join(case['errors'])[-300:]}", flush=True)
                _show(name, [case for (one, _), case in results.items() if one == name])
    every = list(results.values())
    print(
        json.dumps(
            {
                "cases": len(every),
                "harmless": sum(case["harmless"] for case in every),
                "one_line": sum(len(case["errors"]) == 1 and case["code"] in (1, 2) for case in every),
                "faults": sum(bool(fault_of(case)) for case in every),
                "slowest_s": round(max(case["seconds"] for case in every), 2),
                "slowest_cpu_s": round(max(case["cpu"] for case in every), 2),
                "most_mb": round(max(case["peak"] for case in every) / 1e6),
                "most_mb_beyond_libraries": round(max(case["beyond"] for case in every) / 1e6),
                "written_elsewhere": sum(bool(case["outside"]) for case in every),
            }
        )
    )


def _load_libraries() -> None:
    import diffusers  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)


def _show(name: str, cases: list[dict[str, Any]]) -> None:
    lines = sum(len(case["errors"]) == 1 for case in cases)
    slowest, cpu = (max(case[what] for case in cases) for what in ("seconds", "cpu"))
    memory = max(case["beyond"] for case in cases) / 1e6
    print(
        (
            f"{name:24} {len(cases):3} files, {lines:3} in one line, slowest {slowest:5.2f} s ({cpu:.2f} of "
            f"the processor), {memory:4.0f} MB"
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
