"""Runs the published sequence builders from a checkout on our runs and compares their rows with ours.

    python -m benchmarks.published_sequences RUNS CHECKOUT

Their scripts run unchanged in a separate process, on a folder with links to the runs. Rows are equal if their
text is identical and their images are the same. What they drop is counted: stories whose first step has no
text, and stories with a text-only step. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from interleave_thinker.backend.loop.replay import load_trajectory
from interleave_thinker.training.data.from_runs.run_folders import find_runs
from interleave_thinker.training.data.sequences.build import easy, hard, unfit

SCRIPTS = {"easy": "interleave_easy.py", "hard": "interleave_reflection.py"}
SECONDS = 600


def published(script: Path, runs: Path, place: Path) -> list[dict[str, object]]:
    """Return the rows that a published builder makes from the runs."""
    data = place / "InterleaveThinker" / "Train-Data"
    for name in ("Nano_data", "Klein_data"):
        (data / name).mkdir(parents=True)
    (data / "Klein_data").rmdir()
    (data / "Klein_data").symlink_to(runs.resolve(), target_is_directory=True)
    subprocess.run([sys.executable, str(script.resolve())], cwd=place, check=True, timeout=SECONDS)
    (made,) = place.glob("*.json")
    return json.loads(made.read_text(encoding="utf-8"))


def main() -> None:
    """Run the experiment and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("checkout", type=Path)
    options = parser.parse_args()
    whole = [load_trajectory(folder) for folder, _ in find_runs([options.runs])]
    whole = [one for one in whole if not unfit(one, quirks=True)]
    figures: dict[str, object] = {"ours": len(whole)}
    for name, build in (("easy", easy), ("hard", hard)):
        ours: dict[tuple[str, str, tuple[str, ...]], int] = {}
        for one in whole:
            row = build(one, quirks=True)
            ours[row.user, row.text, tuple(picture.digest for picture in row.images)] = 1
        with tempfile.TemporaryDirectory() as place:
            script = options.checkout / "data_gen" / SCRIPTS[name]
            rows = published(script, options.runs, Path(place))
        theirs = [
            (one["messages"][0]["content"], one["messages"][1]["content"], tuple(map(_stem, one["images"])))
            for one in rows  # type: ignore[index]
        ]
        different = [one for one in theirs if one not in ours]
        assert not different, f"{name}: {different[0]}"
        figures[name] = {
            "published": len(theirs),
            "equal": len(theirs),
            "only_ours": len(whole) - len(theirs),
        }
    words = [one for one in whole if one.plan.steps[0].auxiliary_text is None]
    text_only = [one for one in whole if any(not step.prompt for step in one.plan.steps)]
    figures["without_words_first"] = len(words)
    figures["with_a_step_of_text"] = len(text_only)
    print(json.dumps(figures))


def _stem(path: object) -> str:
    return Path(str(path)).stem


if __name__ == "__main__":
    main()
