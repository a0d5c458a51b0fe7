"""Fields and changelog that a publication adds to pyproject.toml."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / ".github" / "publish_fields.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copyfile(ROOT / name, folder / name)
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("registry", [False, True])
def test_publishing_only_adds_addresses(tmp_path: Path, registry: bool) -> None:
    done = run(tmp_path, "someone/pack", "v0.1.0", *(["--registry"] if registry else []))
    assert done.returncode == 0, done.stderr
    before = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    after = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))
    urls = after["project"].pop("urls")
    assert {"Repository", "Documentation", "Bug Tracker"} <= urls.keys()
    assert all(url.startswith("https://github.com/someone/pack") for url in urls.values())
    comfy = after["tool"]["comfy"]
    pictures = [comfy.pop(name) for name in ("Icon", "Banner") if registry]
    for address in pictures:
        name = re.fullmatch(r"https://github.com/someone/pack/raw/v0\.1\.0/(docs/\w+\.png)", address)
        assert name and (ROOT / name[1]).is_file()
    classifiers = after["project"]["classifiers"]
    gpus = [one for one in classifiers if one.startswith("Environment :: GPU :: ")]
    assert len(gpus) == (4 if registry else 0)
    after["project"]["classifiers"] = [one for one in classifiers if one not in gpus]
    needed = after["project"]["dependencies"]
    front_end = [one for one in needed if one.startswith("comfyui-frontend-package")]
    assert len(front_end) == (1 if registry else 0)
    after["project"]["dependencies"] = [one for one in needed if one not in front_end]
    assert after == before
    said = (tmp_path / "CHANGES.md").read_text(encoding="utf-8")
    assert said.strip() and "## [" not in said


@pytest.mark.parametrize(
    "arguments", [("someone", "v0.1.0"), ("a/b", "0.1.0"), ("a/b", "v9.9.9"), ('a/b"', "v0.1.0")]
)
def test_an_invalid_publication_gives_a_one_line_error(tmp_path: Path, arguments: tuple[str, str]) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert (tmp_path / "pyproject.toml").read_bytes() == (ROOT / "pyproject.toml").read_bytes()


def test_the_banner_has_the_registrys_aspect_ratio() -> None:
    from PIL import Image

    with Image.open(ROOT / "docs" / "banner.png") as banner:
        assert banner.width * 9 == banner.height * 21
