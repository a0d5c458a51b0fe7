"""Write the generated pages of `docs/reference`: `python docs/reference_pages/write.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())


def main(folder: Path) -> None:
    """Write every page into the folder. Imports the package as the tests do, installed or not."""
    sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tests")]
    import conftest  # noqa: F401 - it registers the package

    from reference_pages import (
        command_pages,
        error_pages,
        family_pages,
        http_pages,
        node_pages,
        python_pages,
        setting_pages,
        template_pages,
    )

    makers = (
        command_pages,
        setting_pages,
        python_pages,
        http_pages,
        error_pages,
        family_pages,
        template_pages,
        node_pages,  # the last one, as it replaces modules of ComfyUI
    )
    for maker in makers:
        for name, content in maker.pages(ROOT).items():
            (folder / name).write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference")
