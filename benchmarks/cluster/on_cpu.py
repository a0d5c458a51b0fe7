"""The program `interleave-thinker` for `accelerate launch` with FSDP2 on CPUs.

accelerate ignores its file on a CPU; tests/support/accelerate_files.py explains how it is switched on. At the
end the program prints how the training was distributed.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    import conftest  # noqa: F401 - names the package
    from accelerate.state import AcceleratorState
    from support.accelerate_files import report_accelerators

    from interleave_thinker.cli import main

    report_accelerators()
    try:
        main()
    finally:
        state = AcceleratorState()
        print(f"distributed: {state.distributed_type.value} over {state.num_processes} processes")
