"""Entry point of `python -m benchmarks.agents`, described in run.py."""

from .run import main

if __name__ == "__main__":
    main()
