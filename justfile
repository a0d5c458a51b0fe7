# What CONTRIBUTING.md names. `just` alone lists it.

export OMP_NUM_THREADS := env("OMP_NUM_THREADS", "1")

_default:
    @just --list --unsorted

# Make .venv with everything locked, and install the checks that run before a commit.
setup:
    uv sync --extra dev --locked
    uv run --no-sync pre-commit install

# The same without a GPU: PyTorch's CPU wheels, and no CUDA libraries.
setup-cpu:
    uv venv --allow-existing
    uv export --locked --extra dev --no-hashes --no-emit-project --quiet --output-file .venv/locked.txt
    uv pip install --torch-backend cpu --constraints .venv/locked.txt --editable ".[dev]"
    uv run --no-sync pre-commit install

# Unit and contract tests; arguments go to pytest: just test tests/cli -x
test *arguments="tests --ignore=tests/host":
    uv run --no-sync pytest {{ arguments }}

# Which lines no test runs, subprocesses included.
coverage *arguments="tests --ignore=tests/host":
    uv run --no-sync --with pytest-cov==7.1.0 pytest --cov --cov-report=term {{ arguments }}

# Load, damage and interruption on a large scale.
stress *arguments="tests --ignore=tests/host":
    uv run --no-sync pytest -m stress {{ arguments }}

# Change the code that .ci/mutmut.toml names, one place at a time, and list the changes that no test notices. Hours; Linux and macOS. Some functions: just mutate "*.policy.*"
mutate *mutants:
    rm -rf .mutation/interleave_thinker
    mkdir -p .mutation/interleave_thinker
    git ls-files -z | tar --create --null --files-from=- | tar --extract --directory=.mutation/interleave_thinker
    cp .ci/mutmut.toml .mutation/pyproject.toml
    cd .mutation && uv run --project .. --no-sync --with mutmut==3.8.1 mutmut run {{ mutants }}
    cd .mutation && uv run --project .. --no-sync --with mutmut==3.8.1 mutmut results

# ruff, formatting, types, the lock file.
lint:
    uv run --no-sync ruff check .
    uv run --no-sync ruff format --check .
    uv run --no-sync pyright
    uv lock --check

# The published code and this package on the same scripted cases. It executes the code of your checkout of github.com/zhengdian1/InterleaveThinker.
parity checkout:
    INTERLEAVE_PUBLISHED={{ quote(absolute_path(checkout)) }} uv run --no-sync --with json-repair pytest tests/research/evaluation/test_parity.py -n 0

# Tests in a real ComfyUI (COMFYUI_PATH) and a real browser.
host *arguments="tests/host":
    uv run --no-sync pytest {{ arguments }}

# Unit tests with the oldest versions that pyproject.toml allows, in an environment of their own.
lowest python="3.10" *arguments="tests --ignore=tests/host":
    uv venv --quiet --clear --python {{ python }} .venv-lowest
    uv pip install --quiet --python .venv-lowest --resolution lowest-direct ".[test]"
    uv pip uninstall --quiet --python .venv-lowest interleave-thinker
    uv run --no-project --python .venv-lowest python -m pytest {{ arguments }}

# Benchmark of the agents, the short one; others: python -m research.experiments.NAME --help
bench *arguments="--brief":
    uv run --no-sync python -m research.experiments.agents {{ arguments }}

# Check links and commands of the documents, and build them as a site in site/.
docs:
    uv run --no-sync pytest tests/test_documents.py tests/test_contributing.py
    uv run --no-sync python docs/reference_pages/write.py
    uv run --no-sync zensical build --strict --clean

# The site on http://127.0.0.1:8000, rebuilt while you write.
docs-serve:
    uv run --no-sync python docs/reference_pages/write.py
    uv run --no-sync zensical serve

# Write the generated pages of docs/reference again.
docs-reference:
    uv run --no-sync python docs/reference_pages/write.py

# The notebook of docs/examples/own_critic.py, with the outputs of a run.
docs-notebook:
    uv run --no-sync --with jupytext --with nbconvert --with ipykernel jupytext --to ipynb --execute --run-path "$(mktemp -d)" docs/examples/own_critic.py

# The screenshot of the first tutorial, docs/graph.jpg, in a real ComfyUI (COMFYUI_PATH).
docs-screenshot:
    INTERLEAVE_SCREENSHOTS={{ justfile_directory() }}/.story uv run --no-sync pytest tests/host/browser/test_templates.py -k tiny_world_story
    uv run --no-sync python -c "from PIL import Image; Image.open('.story/tiny_world_story-done.png').convert('RGB').crop((80, 105, 1880, 930)).save('docs/graph.jpg', quality=82, optimize=True)"
    rm -rf .story

# The graphs of skills/interleaved-story, from the examples.
skill:
    uv run --no-sync python tests/host/graphs/skill.py

# The package as it is published, in dist/.
build:
    uv build
