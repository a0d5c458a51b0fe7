"""Plug-in packages as pip installs them, and the one in docs/how-to/runs/plugins.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```(?P<kind>\w+) title="(?P<path>\S+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
GROUP = re.compile(r'^\[project\.entry-points\."(.+)"\]\n((?:.+\n)+)', re.MULTILINE)
FILES = {
    found["path"]: found["text"]
    for found in BLOCK.finditer(
        (ROOT / "docs" / "how-to" / "runs" / "plugins.md").read_text(encoding="utf-8")
    )
}
"""Files of the document's package by name."""


def install(site: Path, name: str, entry_points: str, **modules: str) -> None:
    """Write a package's modules and its .dist-info to a folder of installed packages."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text, encoding="utf-8")


def install_stripes(site: Path) -> None:
    """Install the document's package."""
    groups = GROUP.findall(FILES["pyproject.toml"])
    text = "".join(f"[{group}]\n{lines.replace(chr(34), '')}\n" for group, lines in groups)
    install(site, "interleave-stripes", text, interleave_stripes=FILES["interleave_stripes.py"])
