"""Measures `data prompts`: speed, memory, balance, grammar problems, and near duplicates by exact search.

    python -m benchmarks.data_prompts                                   # the last line is JSON
    python -m benchmarks.data_prompts --python OTHER/bin/python --count 40000
    python -m benchmarks.data_prompts --show 50                         # print fifty rows to read

Every run is a separate process, so its time and memory are what a user sees. A second Python can be named and
must produce the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from . import ROOT

PREFIX = 1.25
"""Size factor of the longer file, which must start with the same bytes."""
LINT = {
    "unfilled slot": r"[{}\[\]|]",
    "double blank": r"  | [,.;:?!]",
    "small letter after a full stop": r"[.?!] [a-z]",
    "a before a vowel": r"\b[Aa] (?!uni|use|eur|one|ukulele|u-)[aeiou]\w",
    "an before a consonant": r"\b[Aa]n (?!hour|honest|heir|LED)[^aeiouAEIOUéÉ\"\W]",
    "two articles": r"\b(an?|the) (an?|the)\b",
    "word twice": r"\b(the|of|in|to|on|is|and|for|with|a) \1\b",
    "no end": r"[^.?!\"]$",
}
CODE = (
    "import sys; sys.path.insert(0, {tests!r}); import conftest; from pathlib import Path; "
    "from interleave_thinker.training.data.prompts.generate import PromptsData, write_prompts; "
    "write_prompts(PromptsData(count={count}, seed={seed}), {{}}, Path({out!r}))"
)


def made(python: str, count: int, seed: int, out: Path) -> dict[str, float]:
    """Run once; returns processor seconds and peak memory."""
    code = CODE.format(tests=str(ROOT / "tests"), count=count, seed=seed, out=str(out))
    begun = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "random"}
    child = subprocess.Popen([python, "-c", code], env=environment)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{python} ended with {status}")
    return {
        "wall_seconds": round(time.monotonic() - begun, 1),
        "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_megabytes": round(used.ru_maxrss / 1024),
    }


def tag_conflicts(rows: list[dict[str, Any]]) -> int:
    """Count rows with an entry that the tags of their template do not allow."""
    from interleave_thinker.training.data.prompts.generate import PromptsData, load

    templates = {
        f"{sub.key}.{number}": template
        for sub in load(PromptsData()).subcategories
        for number, template in enumerate(sub.templates, start=1)
    }
    return sum(
        value not in {entry.text for entry in dict(templates[row["template"]].slots)[name]}
        for row in rows
        for name, value in row["slots"].items()
    )


def near_copies(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Count similar pairs by the exact Jaccard similarity of word triples, over all pairs of rows."""
    from interleave_thinker.training.data.prompts.dedup import NEAR, likeness, triples
    from interleave_thinker.training.data.prompts.rows import normal_form

    runs = [triples(normal_form(row["user_input"])) for row in rows]
    found = Counter({"pairs": 0, f"at least {NEAR}": 0, "at least 0.5": 0})
    for at, one in enumerate(runs):
        for other in runs[:at]:
            found["pairs"] += 1
            alike = likeness(one, other)
            found[f"at least {NEAR}"] += alike >= NEAR
            found["at least 0.5"] += alike >= 0.5
    return dict(found)


def main() -> None:
    """Print the figures, and exit with 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=2_000)
    parser.add_argument("--python", help="second Python, which must produce the same bytes")
    parser.add_argument("--show", type=int, default=0)
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        first, again, longer = (Path(folder, name) for name in ("first", "again", "longer"))
        figures: dict[str, Any] = {"run": made(sys.executable, given.count, given.seed, first)}
        other = given.python or sys.executable
        figures["again"] = {"python": Path(other).parts[-3], **made(other, given.count, given.seed, again)}
        made(sys.executable, int(given.count * PREFIX), given.seed, longer)
        content, twice, long = ((at / "prompts.jsonl").read_bytes() for at in (first, again, longer))
        rows = [json.loads(line) for line in content.splitlines()]
        report = json.loads((first / "prompts.report.json").read_text(encoding="utf-8"))
    sample = Random(given.seed).sample(rows, min(given.sample, len(rows)))
    lint = Counter({name: 0 for name in LINT})
    for row in sample:
        for name, pattern in LINT.items():
            if re.search(pattern, row["user_input"]):
                lint[name] += 1
                print(f"{name}: {row['user_input']}")
    lengths = sorted(len(row["user_input"].split()) for row in rows)
    figures |= {
        "rows": len(rows),
        "digest": hashlib.blake2b(content, digest_size=8).hexdigest(),
        "same_bytes_again": content == twice,
        "longer_begins_with_it": long.startswith(content),
        "equal_texts": len(rows) - len({row["user_input"].casefold() for row in rows}),
        "by_category": report["by_category"],
        "subcategories": len(report["by_subcategory"]),
        "fewest_in_a_subcategory": min(report["by_subcategory"].values()),
        "templates": len(report["by_template"]),
        "shares": report["shares"],
        "by_split": report["by_split"],
        "dropped": report["dropped"],
        "words": {"least": lengths[0], "median": lengths[len(lengths) // 2], "most": lengths[-1]},
        "lint": {**lint, "tag conflict": tag_conflicts(sample)},
        "near_copies_in_sample": near_copies(sample),
    }
    for row in sample[: given.show]:
        print(f"- {row['user_input']}")
    lint_found = sum(figures["lint"].values())
    bounds = (
        figures["run"]["processor_seconds"] < 60,
        figures["run"]["peak_megabytes"] < 500,
        figures["same_bytes_again"] and figures["longer_begins_with_it"],
        not figures["equal_texts"] and not lint_found,
        figures["subcategories"] >= 75,
        figures["fewest_in_a_subcategory"] >= 300 * given.count // 40_000,
    )
    print(json.dumps({**figures, "within_bounds": all(bounds)}))
    raise SystemExit(not all(bounds))


if __name__ == "__main__":
    main()
