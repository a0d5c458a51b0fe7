"""How many right and wrong pages the critics of `evaluate ablation` were trained on, by seed: the unfiltered
attempts, made again at the ablation's own seeds, and what the filter left of the same attempts.

    OMP_NUM_THREADS=1 python benchmarks/verdict_balance.py

Decision: nothing is trained. The generator's pages depend on the seed alone, so the counts are those of the
rows that the ablation was run with. The filter's own rows are balanced when they are chosen, half and half,
so what is shown of it is what it had to choose from. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import conftest  # noqa: F401 - makes the package importable

from interleave_thinker.tinyworld.lab.ablation.settings import AblationSettings
from interleave_thinker.tinyworld.lab.ablation.stages import DATA_SEED
from interleave_thinker.tinyworld.lab.data.trajectories import filtered, trajectories
from interleave_thinker.tinyworld.runtime import checkpoint
from interleave_thinker.tinyworld.runtime.generator import load_pipeline


def counted(seed: int, rows: int) -> dict[str, int]:
    """Right and wrong pages among the first `rows` attempts of a seed, and among those that the filter
    keeps."""
    pipeline = load_pipeline(checkpoint("generator"))
    taken, chosen = [], []
    for attempts in trajectories(pipeline, DATA_SEED + seed):
        taken.append(attempts)
        if sum(map(len, taken)) >= rows:
            break
    every = list(chain.from_iterable(taken))[:rows]
    for attempts in taken:
        chosen += filtered(attempts)
    right = {"as they came": every, "kept by the filter": chosen}
    return {
        f"{name}, {verdict}": sum(one.drawn.success is (verdict == "right") for one in pages)
        for name, pages in right.items()
        for verdict in ("right", "wrong")
    }


def main() -> None:
    defaults = AblationSettings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=defaults.seeds)
    parser.add_argument("--rows", type=int, default=defaults.critic_rows)
    options = parser.parse_args()
    used, found = time.process_time(), []
    for seed in range(options.seeds):
        found.append(counted(seed, options.rows))
        print(f"seed {seed}: {found[-1]}", flush=True)
    print(json.dumps({"seeds": found, "processor_seconds": round(time.process_time() - used, 1)}))


if __name__ == "__main__":
    main()
