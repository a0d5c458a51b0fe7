"""Small files whose JSON is huge in RAM are rejected at a limited cost, measured in a separate process."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli_calls import python

ROOT = Path(__file__).resolve().parents[4]
READ = """
import resource, sys
sys.path.insert(0, {tests!r})
import conftest
from pathlib import Path
from interleave_thinker.backend import Plan, Request, Step, Trajectory
from interleave_thinker.backend.core.errors import InterleaveError
from interleave_thinker.backend.core.prompts.importer import import_official
from interleave_thinker.backend.output.sft_rows import add_feedback_rows
from interleave_thinker.backend.story.execution_record.reader import read_record
story = Trajectory(request=Request(text="x"), plan=Plan(steps=(Step(number=1, prompt="p"),)))
readers = {{
    "record": read_record,
    "rows": lambda path: add_feedback_rows(path.parent, story, []),
    "module": import_official,
}}
try:
    readers[sys.argv[1]](Path(sys.argv[2]))
except InterleaveError as error:
    print(type(error).__name__)
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
status = Path("/proc/self/status")
if status.exists():
    # Linux counts what the process that started this one had, in the first figure.
    most = int(status.read_text().partition("VmHWM:")[2].split()[0])
print(most // 1024)
"""
MANY = ",".join(["{}"] * 600_000)


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("record", "execution_record.json", f'{{"steps":[{MANY}]}}'),
        ("rows", "critic_sft.json", f"[{MANY}]"),
        ("module", "system.py", "A = 'xxxxxxxx'\n" + "A = A + A\n" * 28 + "NARRATIVE_PROMPT_JSON = A\n"),
    ],
    ids=["record", "own rows", "module"],
)
def test_a_small_file_takes_less_than_500_mb(tmp_path: Path, kind: str, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    script = READ.format(tests=str(ROOT / "tests"))
    done = python(script, kind, path)
    assert done.returncode == 0, done.stderr
    said, megabytes = done.stdout.split()
    assert said.endswith("Error")
    assert int(megabytes) < 500
