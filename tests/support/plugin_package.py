"""Plug-in packages as pip installs them, and those in the documents."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r'^```(?P<kind>\w+) title="(?P<path>\S+)"\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
GROUP = re.compile(r'^\[project\.entry-points\."(.+)"\]\n((?:.+\n)+)', re.MULTILINE)
FILES = {
    found["path"]: found["text"]
    for page in ("runs/plugins.md", "training/reinforce.md")
    for found in BLOCK.finditer((ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8"))
}
"""Files of the documents' packages by name."""


def install(site: Path, name: str, entry_points: str, **modules: str) -> None:
    """Write a package's modules and its .dist-info to a folder of installed packages."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text, encoding="utf-8")


def install_documented(site: Path, project: str, module: str) -> None:
    """Install a package of the documents: its project file and its module by name."""
    groups = GROUP.findall(FILES[project])
    text = "".join(f"[{group}]\n{lines.replace(chr(34), '')}\n" for group, lines in groups)
    install(site, module.replace("_", "-"), text, **{module: FILES[f"{module}.py"]})
