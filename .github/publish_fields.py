"""Adds the fields to pyproject.toml that only a publication has, and extracts this version's changelog.

    python .github/publish_fields.py OWNER/NAME vX.Y.Z [--registry]

pyproject.toml contains no addresses because they are known only when publishing; the workflow passes them.
The Comfy Registry accepts classifiers for GPU vendors that the package index rejects, and reads the front
end's version from the dependencies, so only its copy gets them. Icon and banner are addressed by tag, so that
a published version keeps its own. Rewrites pyproject.toml and writes CHANGES.md. The exit code is 1 if a file
is not as expected.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

FRONT_END = "comfyui-frontend-package>=1.39.14"
"""The oldest front end that the pack is tested with, the one of ComfyUI 0.14.1.

The registry takes it out of the dependencies and shows it. The package index would make pip users install it.
"""
GPUS = ("NVIDIA CUDA", "AMD ROCm", "Intel Arc", "Apple Metal")


def with_addresses(project: str, repository: str) -> str:
    """Return pyproject.toml with [project.urls] for `owner/name`."""
    home = f"https://github.com/{repository}"
    urls = {
        "Repository": home,
        "Documentation": f"{home}#readme",
        "Bug Tracker": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }
    lines = "".join(f'"{name}" = "{address}"\n' for name, address in urls.items())
    return _before(project, "[project.scripts]\n", f"[project.urls]\n{lines}\n")


def with_registry_fields(project: str, repository: str, tag: str) -> str:
    """Return the text with fields that only the registry reads: icon, banner, GPU vendors, front end."""
    pictures = f"https://github.com/{repository}/raw/{tag}/docs"
    fields = f'Icon = "{pictures}/icon.png"\nBanner = "{pictures}/banner.png"\n'
    project = _before(project, "requires-comfyui = ", fields)
    project = _before(project, '    "torch>=', f'    "{FRONT_END}",\n')
    named = "".join(f'    "Environment :: GPU :: {gpu}",\n' for gpu in GPUS)
    return _before(project, '    "Intended Audience :: Developers",\n', named)


def changes(changelog: str, tag: str) -> str:
    """Return this version's part of CHANGELOG.md, without its heading."""
    heading = re.search(rf"^## \[{re.escape(tag.removeprefix('v'))}\].*\n", changelog, re.MULTILINE)
    if heading is None:
        sys.exit(f"CHANGELOG.md has no heading for {tag}. Add one.")
    return changelog[heading.end() :].partition("\n## ")[0].strip() + "\n"


def _before(text: str, mark: str, added: str) -> str:
    if text.count(mark) != 1:
        sys.exit(
            f"pyproject.toml must contain {mark.strip()!r} once, but contains it {text.count(mark)} times."
        )
    return text.replace(mark, added + mark)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Add the addresses of a publication to pyproject.toml.")
    parser.add_argument("repository", help="OWNER/NAME")
    parser.add_argument("tag", help="vX.Y.Z")
    parser.add_argument("--registry", action="store_true", help="for the Comfy Registry")
    given = parser.parse_args()
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", given.repository) or not re.fullmatch(
        r"v\d+\.\d+\.\d+", given.tag
    ):
        sys.exit("Usage: publish_fields.py OWNER/NAME vX.Y.Z [--registry]")
    path = Path("pyproject.toml")
    project = with_addresses(path.read_text(encoding="utf-8"), given.repository)
    if given.registry:
        project = with_registry_fields(project, given.repository, given.tag)
    said = changes(Path("CHANGELOG.md").read_text(encoding="utf-8"), given.tag)
    path.write_text(project, encoding="utf-8")
    Path("CHANGES.md").write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main()
