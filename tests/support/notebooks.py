"""Notebooks from scripts in cells: reading the cells, running them, and writing a notebook with its outputs.

Run it with a script to write the notebook next to it: `python tests/support/notebooks.py FILE.py`.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)
PARAMETERS = "parameters"
MARKDOWN = "markdown"


@dataclass(frozen=True)
class Cell:
    """One cell of a script: `# %%`, its kind (code, parameters or markdown), and its lines."""

    kind: str
    source: str

    @property
    def is_text(self) -> bool:
        return self.kind == MARKDOWN


def cells_of(script: Path) -> list[Cell]:
    """Return the cells of a script. Lines before the first mark are not part of the notebook."""
    _, *rest = MARK.split(script.read_text(encoding="utf-8"))
    return [_cell(mark, source.strip("\n")) for mark, source in zip(rest[::2], rest[1::2], strict=True)]


def _cell(mark: str, source: str) -> Cell:
    if MARKDOWN in mark:
        return Cell(MARKDOWN, "\n".join(line.removeprefix("#").strip() for line in source.splitlines()))
    return Cell(PARAMETERS if PARAMETERS in mark else "code", re.sub(r"  # noqa.*", "", source))


def run_cells(cells: list[Cell], **parameters: object) -> Iterator[tuple[Cell, str, Any]]:
    """Run code cells in order, as a notebook does, and yield each with its output and last value.

    Args:
        cells: The cells.
        **parameters: Values to set after the cell of parameters.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells, 1):
        if cell.is_text:
            continue
        tree, said = ast.parse(cell.source), io.StringIO()
        if isinstance(tree.body[-1], ast.Expr):
            tree.body[-1] = ast.Assign([ast.Name("_", ast.Store())], tree.body[-1].value)
        code = compile(ast.fix_missing_locations(tree), f"cell {number}", "exec")
        names["_"] = None
        with redirect_stdout(said), redirect_stderr(io.StringIO()):
            exec(code, names)  # noqa: S102 - a script of this repository
        if cell.kind == PARAMETERS:
            assert parameters.keys() <= names.keys(), "these are not parameters of the notebook"
            names.update(parameters)
        yield cell, said.getvalue(), names["_"]


def notebook_of(script: Path) -> dict[str, Any]:
    """Run a script's cells in a temporary folder, and return the notebook with their outputs."""
    cells = cells_of(script)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            ran = {id(cell): (said, shown) for cell, said, shown in run_cells(cells)}
        finally:
            os.chdir(here)
    made, runs = [], 0
    for number, cell in enumerate(cells):
        written: dict[str, Any] = {"cell_type": "code", "id": f"cell-{number:02}", "metadata": {}}
        if cell.is_text:
            written["cell_type"] = MARKDOWN
        else:
            runs += 1
            if cell.kind == PARAMETERS:
                written["metadata"] = {"tags": [PARAMETERS]}
            written |= {"execution_count": runs, "outputs": _outputs(*ran[id(cell)], runs)}
        made.append({**written, "source": _lines(cell.source)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _outputs(said: str, shown: object, runs: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if said:
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(said)})
    if shown is not None:
        data: dict[str, Any] = {"text/plain": [re.sub(r" at 0x\w+", "", repr(shown))]}
        if isinstance(shown, Image.Image):
            png = io.BytesIO()
            shown.save(png, "PNG", optimize=True)
            data["image/png"] = base64.b64encode(png.getvalue()).decode()
        outputs.append(
            {"data": data, "execution_count": runs, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the notebook of the script that the command line names."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __import__("conftest")
    script = Path(sys.argv[1]).resolve()
    text = json.dumps(notebook_of(script), ensure_ascii=False, indent=1)
    script.with_suffix(".ipynb").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
