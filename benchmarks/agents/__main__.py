"""`python -m benchmarks.agents`: see run.py."""

from .run import main

if __name__ == "__main__":
    main()
