"""Links, commands and pinned actions in documents and workflows are valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from interleave_thinker.cli import app

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
IGNORED = (ROOT / ".gitignore").read_text(encoding="utf-8")
"""Pages that are written for the site alone, whose links the site's build checks."""
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if f"/docs/reference/{path.name}" not in IGNORED
    ),
    *sorted((ROOT / "research").rglob("*.md")),
    ROOT / "tests" / "host" / "README.md",
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target) or target.startswith("../../actions/"):  # GitHub's own pages
            continue
        name, _, section = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), target
        if section:
            assert section in sections_of(path), target


MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## Which folder may")[0]


@pytest.mark.parametrize("line", [line for line in MAP.splitlines() if "`" in line])
def test_the_map_names_what_exists(line: str) -> None:
    """Every path of ARCHITECTURE.md exists, and every other name of a line is in one of its files."""
    named = re.findall(r"`([^`]+)`", line)
    paths = [ROOT / name for name in named if (ROOT / name).exists()]
    texts = "".join(
        file.read_text(encoding="utf-8")
        for path in paths
        for file in (path.rglob("*.py") if path.is_dir() else [path])
    )
    for name in named:
        below = any((path / name).exists() for path in paths if path.is_dir())
        if "/" in name or name.endswith(".py"):
            assert below or (ROOT / name).exists(), f"ARCHITECTURE.md names {name}, which does not exist"
        elif paths and name.isidentifier():
            assert re.search(rf"\b{name}\b", texts), f"{name} is not in the files of its line: {line}"


def test_a_file_that_a_text_names_exists() -> None:
    there = ["/" + path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")]
    foreign = re.compile("UEval/|eval/|comfy/|backend/models/generators/flat.py")
    """Files of other programs, and an example."""
    texts = [*DOCUMENTS, *(path for path in ROOT.rglob("*.py") if "tests" not in path.parts)]
    named = {
        name: text.name
        for text in texts
        for name in re.findall(r"(?<![\w/.-])\w+(?:/\w+)+\.py\b", text.read_text(encoding="utf-8"))
    }
    missing = [name for name in named if not any(path.endswith("/" + name) for path in there)]
    assert not [(name, named[name]) for name in missing if not foreign.match(name)]


def sections_of(path: Path) -> set[str]:
    """Return the anchors of a document's sections: headings in lower case with dashes for spaces."""
    headings = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_commands_and_their_options_exist(document: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", document.read_text(encoding="utf-8"))
    for line in re.findall(r"interleave-thinker ((?:[a-z-]+|--).*)", text):
        command: Any = typer.main.get_command(app)
        said = re.split(r"[`#|;]|&&", line)[0].split()
        if not re.fullmatch(r"[a-z][a-z-]*|--[a-z-]+", said[0]) or said[0] not in {
            *command.commands,
            "--help",
        }:
            # A sentence about the program, or the name of a folder.
            assert not line.startswith("--"), line
            continue
        for word in said:
            commands = getattr(command, "commands", {})
            if word in commands:
                command = commands[word].load() if hasattr(commands[word], "load") else commands[word]
            elif word.startswith("--"):
                option = re.split(r"[=.,)]", word)[0]
                assert option in {*options_of(command), "--help"}, f"{option} in: {line}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_workflows_run_only_pinned_code(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert not re.search(r"(?<!uv )pip install(?! -r)|curl|wget|npx|uvx (?!--exclude-newer)", text)
    assert "latest" not in text and "pull_request_target" not in text
    # Text that anyone can write (a title, a branch) is never pasted into a script.
    for script in re.findall(r"run: (.*(?:\n {10,}.*)*)", text):
        assert "${{" not in script, script


def test_the_lock_contains_only_public_hosts() -> None:
    hosts = set(re.findall(r"https?://[^/\"\s]+", (ROOT / "uv.lock").read_text(encoding="utf-8")))
    assert hosts == {"https://pypi.org", "https://files.pythonhosted.org"}
