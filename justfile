# What CONTRIBUTING.md names. `just` alone lists it.

export OMP_NUM_THREADS := env("OMP_NUM_THREADS", "1")

_default:
    @just --list --unsorted

# Make .venv with everything locked, and install the checks that run before a commit.
setup:
    uv sync --extra dev --locked
    uv run --no-sync pre-commit install

# Unit and contract tests; arguments go to pytest: just test tests/cli -x
test *arguments="tests --ignore=tests/host":
    uv run --no-sync pytest {{ arguments }}

# ruff, formatting, types, the lock file.
lint:
    uv run --no-sync ruff check .
    uv run --no-sync ruff format --check .
    uv run --no-sync pyright
    uv lock --check

# Tests in a real ComfyUI (COMFYUI_PATH) and a real browser.
host *arguments="tests/host":
    uv run --no-sync pytest {{ arguments }}

# Unit tests with the oldest versions that pyproject.toml allows, in an environment of their own.
lowest python="3.10" *arguments="tests --ignore=tests/host":
    uv venv --quiet --clear --python {{ python }} .venv-lowest
    uv pip install --quiet --python .venv-lowest --resolution lowest-direct ".[test]"
    uv pip uninstall --quiet --python .venv-lowest interleave-thinker
    uv run --no-project --python .venv-lowest python -m pytest {{ arguments }}

# Benchmark of the agents, the short one; others: python -m benchmarks.NAME --help
bench *arguments="--brief":
    uv run --no-sync python -m benchmarks.agents {{ arguments }}

# Links, commands and the walk-through of the documents.
docs:
    uv run --no-sync pytest tests/test_documents.py tests/test_contributing.py

# The graphs of skills/interleaved-story, from the examples.
skill:
    uv run --no-sync python tests/host/graphs/skill.py

# The package as it is published, in dist/.
build:
    uv build
