"""`python -m interleave_thinker`: the command line, if the console script is not on the PATH."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
