"""The documents' commands for the tiny world and their Python examples, run in the order of the page."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from support.cli_calls import call

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(
    r'^```(console|python|json title="plan\.json"|yaml title="cast\.yaml"|markdown title="plane\.md")\n'
    r"(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
ELSEWHERE = {
    "how-to/runs/plugins.md",  # tests/test_plugins.py
    "how-to/runs/serve.md",  # a file for Locust
}


def blocks_of(document: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(document.read_text(encoding="utf-8"))


DOCUMENTS = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if path.relative_to(DOCS).as_posix() not in ELSEWHERE
    and path.relative_to(DOCS).parts[0] in ("tutorials", "how-to")
    and any("title" not in kind for kind, _ in blocks_of(path))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_commands_and_examples_run(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, text in blocks_of(document):
        if kind == "python":
            (tmp_path / "example.py").write_text(text, encoding="utf-8")
            runpy.run_path("example.py")
        elif kind == "console":
            for line in text.splitlines():
                command, _, target = line.removeprefix("$ ").partition(" > ")
                program, *arguments = shlex.split(command)
                assert program == "interleave-thinker", line
                done = call(*arguments)
                waits = "--pause" in arguments  # none of the documents' stories is approved to its end
                assert done.exit_code == (4 if waits else 0), f"{line}\n{done.output}"
                if target:
                    (tmp_path / target.strip()).write_text(done.stdout, encoding="utf-8")
        else:
            (tmp_path / kind.split('"')[1]).write_text(text, encoding="utf-8")
