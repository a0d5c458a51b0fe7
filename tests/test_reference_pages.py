"""The generated pages of `docs/reference` are those that the present code gives."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from interleave_thinker import backend
from interleave_thinker.tinyworld.vocabulary import KNOWN

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
REFERENCE = ROOT / "docs" / "reference"
WRITTEN_WITH = ("fastapi", "pydantic", "typer")
"""Libraries that describe commands, settings and routes; older versions describe them otherwise."""


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def is_older(library: str) -> bool:
    """Whether an older version of a library is installed than the one in uv.lock."""
    lock = (ROOT / "uv.lock").read_text(encoding="utf-8")
    locked = re.search(rf'^name = "{library}"\nversion = "(.+)"', lock, re.MULTILINE)
    assert locked, library
    return version(metadata.version(library)) < version(locked[1])


@pytest.mark.skipif(any(map(is_older, WRITTEN_WITH)), reason="older libraries describe options otherwise")
def test_generated_pages_are_up_to_date(tmp_path: Path) -> None:
    program = ROOT / "docs" / "reference_pages" / "write.py"
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True, cwd=tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.md")}
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    kept = {name: text for name, text in written.items() if f"/docs/reference/{name}" not in ignored}
    outdated = [name for name, text in kept.items() if (REFERENCE / name).read_text("utf-8") != text]
    assert not outdated, f"run `just docs-reference`: {outdated}"
    assert {"options.md", "settings-and-recipes.md", "python.md", "nodes.md"} == written.keys() - kept.keys()
    assert all(f"### {name}" in written["python.md"] for name in backend.__all__)


def test_every_environment_variable_of_the_product_is_documented() -> None:
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page))
    folders = ("backend", "cli", "nodes", "research", "service", "tinyworld", "training", "webapp")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    read = set(re.findall(r'"(INTERLEAVE_[A-Z]+_(?:KEY|URL))"', code))
    read |= set(re.findall(r'(?:environ\.get\(|environ\[|variable\()"([A-Z][A-Z0-9_]+)"', code))
    assert read <= documented
    assert all(name.removesuffix("_HOSTS") in code for name in documented)


def test_the_tiny_world_page_lists_all_words_of_its_planner() -> None:
    page = (ROOT / "docs" / "explanation" / "tiny-world.md").read_text(encoding="utf-8")
    listed = page.split("```text\n")[1].split("```")[0].split()
    assert set(listed) == KNOWN and len(listed) == len(KNOWN) and f"these {len(KNOWN)} is" in page
