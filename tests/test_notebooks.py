"""docs/examples/own_critic: the notebook has the script's cells, and they lead to a critic in the loop."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.notebooks import PARAMETERS, cells_of, run_cells

pytest.importorskip("trl")
SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "own_critic.py"
SMALL = {"ATTEMPTS": 6, "OLD_ROWS": 44, "EPOCHS": 1, "LEAST_ROWS": 1, "LEAST_STEPS": 1, "STORIES": 1}


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    return json.loads(SCRIPT.with_suffix(".ipynb").read_text(encoding="utf-8"))


def test_the_notebook_has_the_cells_of_the_script(notebook: dict[str, Any]) -> None:
    stored = ["".join(cell["source"]) for cell in notebook["cells"]]
    assert stored == [cell.source for cell in cells_of(SCRIPT)], (
        f"run python tests/support/notebooks.py {SCRIPT}"
    )
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(stored)


def test_the_notebook_was_run_from_start_to_end(notebook: dict[str, Any]) -> None:
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    said = "".join("".join(output.get("text", "")) for cell in code for output in cell["outputs"])
    assert "gate passed" in said and re.search(r"own critic: \d+ of 20 stories correct", said)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell["outputs"])
    assert not re.search(r"/(?:home|root|tmp|Users)/", json.dumps(notebook)), "it names folders of a machine"


@pytest.mark.stress
def test_the_cells_train_a_critic_that_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fewer attempts, rows and stories than in the notebook."""
    monkeypatch.chdir(tmp_path)
    cells = cells_of(SCRIPT)
    assert [cell.kind for cell in cells].count(PARAMETERS) == 1
    *_, (_, said, _) = run_cells(cells, **SMALL)
    assert re.fullmatch(
        r"old critic: [01] of 1 stories correct, right verdicts .*\] of [1-9]\d*\n"
        r"own critic: [01] of 1 stories correct, right verdicts .*\] of [1-9]\d*\n"
        r"The two intervals of right verdicts (do not )?overlap.*\.\n",
        said,
    )
    assert (tmp_path / "own-critic" / "critic" / "final" / "config.json").is_file()


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_the_whole_notebook_gives_a_better_critic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    *_, (_, said, _) = run_cells(cells_of(SCRIPT))
    old, own = map(float, re.findall(r"right verdicts \(95 % CI\): ([\d.]+)", said))
    assert own > old, said
