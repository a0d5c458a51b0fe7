"""The archive for the Comfy Registry: small, complete, and without unknown findings of its scanner.

The registry's scanner is not public, and one finding keeps a version from being installed. This test
searches for the patterns that it reported to pack authors (`matched_patterns` of GET /nodes/ID/versions with
include_status_reason=true), a little more broadly. False alarms are avoided if another name is as good
(`publish` for `send`). Code that does use the environment or the network is listed in REASONS, for a review
by the registry.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from support.published_files import ROOT, published, repository, write_archive

MAX_BYTES = 16_600_000
TOP = """
.comfyignore LICENSE README.md SECURITY.md __init__.py __main__.py backend docs locales nodes py.typed
pyproject.toml requirements.txt skills subgraphs tinyworld web workflows
"""
CODE = (".py", ".js")
TRIGGERS = {
    "environment": re.compile(r"os\.(?:environ|getenv|putenv)\b|from os import .*environ"),
    "network": re.compile(
        r"\b(?:requests\.(?:get|post|put|patch|delete|head)\(|urllib\.request|urlopen\(|httpx\.(?:Client|get|post"
        r"|stream)\(|aiohttp\.ClientSession|XMLHttpRequest)|new WebSocket"
    ),
    "socket": re.compile(
        r"socket\.(?:socket|create_connection)\b|\.(?:connect|bind|send|sendall|sendto|recv)\("
    ),
    "process": re.compile(
        r"\bsubprocess\b|os\.(?:system|popen|kill|fork|exec[lv]|spawn)|\bPopen\(|\bctypes\b"
    ),
    "execution": re.compile(
        r"(?<!re\.)\b(?:eval|exec|compile)\(|\b__import__\(|\bmarshal\.|\bpickle\.|new Function\("
        r"|setuid|\bsudo\b"
    ),
    "address": re.compile(r"raw\.githubusercontent\.com|pastebin|ngrok|discord\.com/api|bit\.ly"),
}
REASONS = """
backend/core/machine/environment.py environment: the one place that reads it: keys, and whom they are for
backend/models/chat/local/generation.py environment: where PyTorch keeps compiled code
backend/core/machine/registry.py socket: inspect.Signature.bind checks the arguments of a plug-in
backend/core/remote/addresses.py socket: asks whether a Ray cluster answers, for `--ray` alone
backend/core/remote/call.py socket: hangs up when a run is cancelled; httpx opens the connection
backend/core/remote/server.py network: agents and generators on a server, called only if the user names one
backend/models/chat/chat_template.py process: renders a checkpoint's chat template within limits
backend/models/chat/llamacpp_server.py process: llama.cpp's own server, which the owner installed and named
backend/models/chat/supervisor.py process: ends that server with ComfyUI, however ComfyUI ends
backend/models/checkpoints/hub.py network: a model's files, downloaded if the node has it switched on
web/calls.js socket: connects a note of Web Audio to the loudspeaker
web/host.js socket: connects nodes on the canvas
web/stories.js socket: the same, by the name of an output
"""


def test_the_archive_contains_exactly_the_runtime_files() -> None:
    packed = published()
    assert {name.partition("/")[0] for name in packed} == {*TOP.split()}
    assert {name for name in packed if name.startswith("docs/")} == {"docs/icon.png"}
    whole = ("backend/", "nodes/", "locales/", "subgraphs/", "tinyworld/", "web/", "workflows/")
    assert {name for name in repository() - packed if name.startswith(whole)} == set()


def test_the_archive_is_small(tmp_path: Path) -> None:
    path = tmp_path / "node.zip"
    write_archive(path)
    assert path.stat().st_size < MAX_BYTES
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == published()
        assert archive.read("nodes/pack.py") == (ROOT / "nodes" / "pack.py").read_bytes()


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_scanner_findings_are_listed(trigger: str) -> None:
    found = {
        name
        for name in published()
        if name.endswith(CODE) and TRIGGERS[trigger].search((ROOT / name).read_text(encoding="utf-8"))
    }
    listed = [line.partition(": ")[0].split() for line in REASONS.strip().splitlines()]
    assert found == {name for name, kind in listed if kind == trigger}


def test_the_pack_does_not_import_omitted_files() -> None:
    """Nothing in the archive imports the command line, training, evaluation, the service or the lab."""
    folders = r"(?:cli|training|evaluation|service|webapp|tinyworld\.lab)"
    away = re.compile(rf"^\s*(?:from|import) +(?:\.+|interleave_thinker\.){folders}\b", re.MULTILINE)
    assert away.search("    from ...training.data.rows import reading")
    for name in published():
        if name.endswith(".py"):
            assert not away.search((ROOT / name).read_text(encoding="utf-8")), name
