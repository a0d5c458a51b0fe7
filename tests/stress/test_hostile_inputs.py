"""Thousands of hostile inputs to one real ComfyUI, for every widget and socket of every node of the pack.

They include texts of plans, replies of agents and requests of web pages. The cases and the check of each
result are those of tests/host, which runs a part of the sockets. A fault is an error that is not one line
from the pack, a valid prompt that fails afterwards, a file outside of the folders, or a traceback in the log
that does not end in an error of the pack.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest
from support.host_home import HOW_TO_ENABLE, find_host
from support.image_service import image_service
from support.stories import make_trajectory

if str(Path(__file__).resolve().parents[2]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from interleave_thinker.backend.story.journal.copy import save_trajectory
from tests.host.pack.hostile_graphs import Hostile, plan_texts, replies, requests, sockets, widgets
from tests.host.pack.hostile_runs import OURS, a_run, drive, fault_of_answer
from tests.host.server.comfy_server import ComfyServer

pytestmark = [
    pytest.mark.stress,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(find_host() is None, reason=HOW_TO_ENABLE),
]

ENDS = re.compile(r"^(?:\S*[A-Za-z_]\w*(?:Error|Exception|Cancelled|Interrupt)\w*)(?::|$)", re.MULTILINE)
SLICE = 200


def cases_of(host: ComfyServer, story: str, service: str) -> list[Hostile]:
    """Return all graphs."""
    info = host.get("/object_info")
    return [*widgets(info, story, service), *sockets(info, story, service), *plan_texts(), *replies()]


def foreign_tracebacks(log: str) -> list[str]:
    """Return the last lines of tracebacks that do not end in an error of the pack."""
    found = []
    for block in log.split("Traceback (most recent call last):")[1:]:
        end = ENDS.search(block)
        is_cause = "direct cause of" in block or "During handling of" in block
        if end is not None and not is_cause and OURS not in end.group():
            found.append(block[end.start() :].splitlines()[0][:200])
    return found


def peak_mb(pid: int) -> int:
    """Return the peak memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def test_every_input_gives_a_result_or_one_line(tmp_path: Path) -> None:
    home = find_host()
    assert home is not None
    host, ends, faults = ComfyServer(home, tmp_path / "base"), Counter[str](), list[str]()
    with image_service() as service:
        host.start()
        try:
            save_trajectory(make_trajectory(3, request="Hostile"), host.base / "input" / "hostile-good")
            run, picture = a_run(host)
            cases, before = cases_of(host, "input/hostile-good", service.url), peak_mb(host.pid)
            for first in range(0, len(cases), SLICE):
                try:
                    ends.update(drive(host, cases[first : first + SLICE]))
                except AssertionError as error:
                    faults += str(error).splitlines()[1:]
            with httpx.Client(base_url=host.url, timeout=60) as client:
                asked = list(requests(run, picture))
                answers = [fault_of_answer(client, one) for one in asked]
            faults += [f"{one.name}: {fault}" for one, fault in zip(asked, answers, strict=True) if fault]
            memory = {"MB before": before, "MB at most": peak_mb(host.pid)}
            print(json.dumps({"graphs": len(cases), **ends, "requests": len(asked), **memory}))
            assert not faults
            assert not foreign_tracebacks(host.log_path.read_text(errors="replace"))
        finally:
            host.stop()
