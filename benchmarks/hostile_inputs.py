"""Thousands of hostile inputs to one real ComfyUI: every widget and every socket of every node of the pack
with what breaks things, texts of plans, replies of agents, and requests of pages.

Decision: the host tests' own cases and the same judge of how each ended; the tests run a part of the sockets,
this all of them. A fault is an error that is not one line of the pack's, a good prompt behind it that fails,
a file outside of the folders, or a traceback in the log that ends in no error of the pack's.

    COMFYUI_PATH=~/comfy/ComfyUI python benchmarks/hostile_inputs.py        # all; the last line is JSON
    python benchmarks/hostile_inputs.py --share 4 --first 2        # every fourth, from the third on
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import conftest  # noqa: E402, F401 - makes the package importable under its name
import httpx  # noqa: E402
from support.host_home import HOW_TO_ENABLE, find_host  # noqa: E402
from support.image_service import image_service  # noqa: E402
from support.stories import make_trajectory  # noqa: E402

from interleave_thinker.backend.journal.copy import save_trajectory  # noqa: E402
from tests.host.pack.hostile_inputs import (  # noqa: E402
    CRITIC_REPLIES,
    PLAN_TEXTS,
    PLANNER_REPLIES,
    Hostile,
    agent,
    by_hand,
    judging,
    planning,
    widgets,
)
from tests.host.pack.hostile_requests import fault_of_answer, requests  # noqa: E402
from tests.host.pack.hostile_runs import OURS, a_run, drive  # noqa: E402
from tests.host.pack.hostile_sockets import sockets  # noqa: E402
from tests.host.server.comfy_server import ComfyServer  # noqa: E402

ENDS = re.compile(r"^(?:\S*[A-Za-z_]\w*(?:Error|Exception|Cancelled|Interrupt)\w*)(?::|$)", re.MULTILINE)
SLICE = 200


def cases_of(host: ComfyServer, story: str, service: str) -> list[Hostile]:
    """All graphs."""
    info = host.get("/object_info")
    made = [*widgets(info, story, service), *sockets(info, story, service)]
    made += [Hostile("plan", f"{text!r:.60}", by_hand(text)) for text in PLAN_TEXTS]
    for text in PLANNER_REPLIES:
        made.append(Hostile("reply", f"planner {text!r:.60}", planning(agent(json.dumps([text] * 3)))))
    for text in CRITIC_REPLIES:
        made.append(Hostile("reply", f"judge {text!r:.60}", judging(agent(json.dumps([text] * 4)))))
    return made


def foreign_tracebacks(log: str) -> list[str]:
    """The last lines of the tracebacks that are no errors of the pack's."""
    found = []
    for block in log.split("Traceback (most recent call last):")[1:]:
        end = ENDS.search(block)
        is_cause = "direct cause of" in block or "During handling of" in block
        if end is not None and not is_cause and OURS not in end.group():
            found.append(block[end.start() :].splitlines()[0][:200])
    return found


def peak_mb(pid: int) -> int:
    """Most memory that a process had, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def main() -> None:
    """Run, print and exit with 1 if there were faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    home = find_host()
    if home is None:
        sys.exit(HOW_TO_ENABLE)
    with tempfile.TemporaryDirectory() as folder, image_service() as service:
        host = ComfyServer(home, Path(folder) / "base")
        host.start()
        try:
            save_trajectory(make_trajectory(3, request="Hostile"), host.base / "input" / "hostile-good")
            run, picture = a_run(host)
            cases = cases_of(host, "input/hostile-good", service.url)[options.first :: options.share]
            before, began, faults, ends = peak_mb(host.pid), time.monotonic(), [], {}
            for first in range(0, len(cases), SLICE):
                try:
                    for name, count in drive(host, cases[first : first + SLICE]).items():
                        ends[name] = ends.get(name, 0) + count
                except AssertionError as error:
                    faults += str(error).splitlines()[1:]
            with httpx.Client(base_url=host.url, timeout=60) as client:
                asked = list(requests(run, picture))
                answers = [fault_of_answer(client, one) for one in asked]
            faults += [f"{one.name}: {fault}" for one, fault in zip(asked, answers, strict=True) if fault]
            strange = foreign_tracebacks(host.log_path.read_text(errors="replace"))
            print("\n".join([*faults, *strange]))
            figures = {
                "graphs": len(cases), **ends, "requests": len(asked), "faults": len(faults),
                "foreign tracebacks": len(strange), "MB before": before, "MB at most": peak_mb(host.pid),
                "seconds": round(time.monotonic() - began),
            }  # fmt: skip
        finally:
            host.stop()
    print(json.dumps(figures))
    sys.exit(bool(faults or strange))


if __name__ == "__main__":
    main()
