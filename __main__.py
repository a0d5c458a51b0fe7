"""`python -m interleave_thinker`: the command line where no console script is on the PATH."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
