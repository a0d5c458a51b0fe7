"""docs/examples/own_critic: the notebook has the script's cells, and they lead to a critic in the loop."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("trl")
SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "examples" / "own_critic.py"
SMALL = {"ATTEMPTS": 6, "OLD_ROWS": 44, "EPOCHS": 1, "LEAST_ROWS": 1, "LEAST_STEPS": 1, "STORIES": 1}


def cells() -> list[str]:
    """Return the cells of the script as the notebook has them."""
    _, *rest = re.split(r"^# %%(.*)$", SCRIPT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [
        re.sub(r"^# ?", "", source.strip("\n"), flags=re.MULTILINE)
        if "markdown" in mark
        else source.strip("\n")
        for mark, source in zip(rest[::2], rest[1::2], strict=True)
    ]


def test_the_notebook_has_the_cells_of_the_script_and_was_run_from_start_to_end() -> None:
    notebook = json.loads(SCRIPT.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert ["".join(cell["source"]) for cell in notebook["cells"]] == cells(), "run just docs-notebook"
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    said = "".join("".join(output.get("text", "")) for cell in code for output in cell["outputs"])
    assert "gate passed" in said and re.search(r"own critic: \d+ of 20 stories correct", said)
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell["outputs"])
    assert not re.search(r"/(?:home|root|tmp|Users)/", json.dumps(notebook)), "it names folders of a machine"


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sizes", [SMALL, {}], ids=["small", "whole"])
def test_the_cells_train_a_critic_that_judges(
    sizes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = SCRIPT.read_text(encoding="utf-8")
    for name, value in sizes.items():
        script, found = re.subn(rf"^{name} = \d+", f"{name} = {value}", script, flags=re.MULTILINE)
        assert found == 1
    exec(compile(script, SCRIPT, "exec"), {"__name__": "__main__"})  # noqa: S102 - a script of this repository
    said = capsys.readouterr().out
    old, own = map(float, re.findall(r"right verdicts \(95 % CI\): ([\d.]+) \[.*\] of [1-9]", said))
    assert re.search(r"The two intervals of right verdicts (do not )?overlap.*\.\n\Z", said)
    assert sizes or own > old, said
    assert (tmp_path / "own-critic" / "critic" / "final" / "config.json").is_file()
