"""Replaces every file that is read by every kind of hostile file: expects a one-line error and little memory.

Each case runs the command line in a forked child with its libraries loaded, so that only the cost of the file
is measured. A neighboring folder is compared before and after.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.forked import forked
from support.hostile_files import KINDS, READERS, Reader, prepare, put

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

LIMIT = 60.0
"""Seconds after which a case is killed, which fails the test."""
MAX_BYTES = 500 * 1000 * 1000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    prepare(folder)
    return folder


@pytest.mark.parametrize("name", READERS)
def test_every_kind_gives_a_one_line_error(template: Path, tmp_path: Path, name: str) -> None:
    from interleave_thinker.cli import main

    assert main
    if READERS[name].heavy:
        import diffusers
        import torch
        import transformers

        assert diffusers and transformers
        torch.set_num_threads(1)
    faults = {}
    for number, kind in enumerate(KINDS):
        if fault := fault_of(template, tmp_path / str(number), READERS[name], kind):
            faults[kind] = fault
    assert not faults


def fault_of(template: Path, parent: Path, reader: Reader, kind: str) -> str:
    """Return what is wrong with how the command ended; empty if nothing is."""
    at, mine, used = parent / "at", parent / "other" / "mine.txt", parent / "memory"
    shutil.copytree(template, at)
    mine.parent.mkdir()
    mine.write_text("mine")
    command = put(at, reader, kind)
    ended = forked(lambda: carry_out(command, parent), LIMIT)
    errors = (parent / "err").read_text(encoding="utf-8", errors="replace")
    output = errors + (parent / "out").read_text(errors="replace")
    lines = [line for line in errors.splitlines() if line.strip()]
    usage = ended.code == 2 and any(line.startswith("Usage:") for line in lines)
    written = {path.name for path in parent.iterdir()} - {"at", "other", "err", "out", "memory"}
    faults = {
        "no error": ended.code == 0 and kind not in reader.harmless,
        f"ended with {ended.code}": ended.code not in (0, 1, 2, 3),
        f"{len(lines)} lines: {lines[-3:]}": ended.code != 0 and len(lines) != 1 and not usage,
        "memory": used.exists() and json.loads(used.read_text()) > MAX_BYTES,
        f"wrote {sorted(written)}": bool(written),
        "wrote into the other folder": [*mine.parent.iterdir()] != [mine] or mine.read_text() != "mine",
        "control characters": bool(CONTROL.search(output)),
    }
    shutil.rmtree(parent)
    return ", ".join(fault for fault, wrong in faults.items() if wrong)


def carry_out(command: list[str], folder: Path) -> None:
    """Run the command line in the child, with its output in files and its memory counted from here."""
    from interleave_thinker.cli import main

    os.environ.update(HOME=str(folder), HF_HUB_OFFLINE="1", COLUMNS="200", NO_COLOR="1")
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    os.chdir(folder / "at")
    Path("/proc/self/clear_refs").write_text("5")
    before, code = memory("VmRSS"), 0
    sys.argv = ["interleave-thinker", *command]
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    (folder / "memory").write_text(json.dumps(memory("VmHWM") - before))
    os._exit(code)


def memory(name: str) -> int:
    """Return the bytes of this process from a line of /proc."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found.group(1)) * 1024
