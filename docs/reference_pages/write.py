"""Write the generated pages of `docs/reference`: `python docs/reference_pages/write.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())


ON_THE_SITE = ("options.md", "settings-and-recipes.md", "python.md", "nodes.md")
"""Pages of the site alone, which git ignores. The program, docstrings and ComfyUI's help show the same."""


def main(folder: Path) -> None:
    """Write every page into the folder. Imports the package as the tests do, installed or not."""
    sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tests")]
    import conftest  # noqa: F401 - it registers the package

    from reference_pages import command_pages, node_pages, python_pages, service_pages

    pages = {
        "command-line.md": command_pages.commands_page(),
        "public-names.md": python_pages.names_page(),
        "options.md": command_pages.options_page(),
        "settings-and-recipes.md": command_pages.settings_page(),
        "python.md": python_pages.python_page(ROOT),
        "http.md": service_pages.http_page(),
        "errors.md": service_pages.errors_page(),
        "image-models.md": node_pages.models_page(),
        "templates.md": node_pages.templates_page(ROOT),
        "nodes.md": node_pages.nodes_page(ROOT),  # the last one, as it replaces modules of ComfyUI
    }
    for name, content in pages.items():
        (folder / name).write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
