"""The layers are respected by all imports, and importing the package is cheap."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from support.cli_calls import python

ROOT = Path(__file__).resolve().parent.parent
HOST = {"comfy", "comfy_api", "comfy_extras", "folder_paths"}
FORBIDDEN = {
    "backend": HOST | {"nodes", "server", "trl", "typer", "ray"}, "nodes": {"trl", "typer", "ray"},
    "service": HOST | {"trl"}, "webapp": HOST | {"trl"}, "training": HOST, "research": HOST,
    "tinyworld": HOST, "cli": HOST | {"trl"},
}  # fmt: skip
"""Packages that no module of a layer imports. Which folder may import which: `test_layers.py`."""
HEAVY = {
    "torch", "torchvision", "transformers", "diffusers", "trl", "peft", "datasets", "accelerate", "httpx",
    "jinja2", "fpdf", "fontTools",
}  # fmt: skip
LIGHT = (
    "backend.story.loop.loop", "backend.story.journal.journal", "backend.core.types", "backend.models.chat",
    "backend.models.generators", "backend.models.generators.fake", "backend.models.scorers",
    "backend.output.exporters", "backend.story.agents.critic", "cli", "research.commands.benchmark",
    "cli.commands.run", "cli.commands.agents", "cli.commands.export", "cli.commands.doctor",
)  # fmt: skip
MODULES = [
    path
    for layer in FORBIDDEN
    for path in sorted((ROOT / layer).rglob("*.py"))
    if "experiments" not in path.parts  # scripts of the checkout
]
SHOWN = ("backend", "nodes", "cli")
"""Layers that start in a host or with every command."""
START = "import sys; sys.path[:0] = [sys.argv.pop(1)]; import conftest; "


def imports(path: Path) -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield every import of a module: the node, the absolute name, and whether it was relative."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node, node.module or "", False
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1]
            if node.module:
                yield node, ".".join((*base, node.module)), True
            else:
                yield from ((node, ".".join((*base, alias.name)), True) for alias in node.names)


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def test_no_layer_imports_what_it_may_not() -> None:
    for path in MODULES:
        for node, name, relative in imports(path):
            where = f"{path}:{getattr(node, 'lineno', 0)} imports {name}"
            first = name.partition(".")[0]
            assert first != "interleave_thinker", (
                f"{where}: only relative imports survive the host's own package name"
            )
            assert relative or first not in FORBIDDEN[layer_of(path)], where


def test_heavy_imports_only_where_they_are_used() -> None:
    """Allow imports at the top only in modules that serve the library, and not in commonly imported ones."""
    for path in MODULES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if layer_of(path) not in SHOWN or (name not in LIGHT and path.name != "__init__.py"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {found.partition(".")[0] for found in names} & HEAVY, f"{path}:{node.lineno}"


def test_light_modules_load_nothing_heavy() -> None:
    """One process imports them one after another, so the first line that names a library has the module."""
    code = (
        f"{START}from importlib import import_module\n"
        f"for name in {LIGHT!r}:\n"
        "    import_module('interleave_thinker.' + name)\n"
        f"    print(name, *sorted(set(sys.modules) & {HEAVY!r}))"
    )
    done = python(code, ROOT / "tests")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*LIGHT]


def test_help_is_quick_and_loads_no_pipeline() -> None:
    """Count modules instead of seconds, which depend on the load.

    There are 250; numpy or httpx would add a hundred or more.
    """
    code = (
        f"{START} import atexit; before = len(sys.modules); atexit.register(lambda: print(len(sys.modules) "
        "- before, [n for n in sys.modules if n in ('pydantic', 'PIL', 'torch') or '.training' in n or "
        "'.research' in n or '.backend.models' in n or '.backend.story' in n], file=sys.stderr))\n"
        "from interleave_thinker.cli import main; main()"
    )
    done = python(code, ROOT / "tests", "--help")
    assert done.returncode == 0, done.stderr
    modules, heavy = done.stderr.strip().split(" ", 1)
    assert heavy == "[]"
    assert "evaluate" in done.stdout and "benchmark" in done.stdout
    assert int(modules) < 300


def test_import_of_the_package_is_nearly_free() -> None:
    code = f"{START} import interleave_thinker; print(len([n for n in sys.modules if 'interleave' in n]))"
    done = python(code, ROOT / "tests")
    assert done.stdout.strip() == "1", "the entry point imports none of its own modules"


def test_the_root_loads_under_the_hosts_name(tmp_path: Path) -> None:
    """The host imports the folder under its full path, with slashes and spaces, not as interleave_thinker."""
    name = str(tmp_path / "my custom nodes" / "inter-leave").replace(".", "_x_")
    code = (
        "import importlib, importlib.util, sys\n"
        f"name, root = {name!r}, {str(ROOT)!r}\n"
        "spec = importlib.util.spec_from_file_location(name, root + '/__init__.py', "
        "submodule_search_locations=[root])\n"
        "package = importlib.util.module_from_spec(spec); sys.modules[name] = package; "
        "spec.loader.exec_module(package)\n"
        "assert callable(package.comfy_entrypoint)\n"
        "for module in ('backend.story.loop.loop', 'backend.story.journal.journal', "
        "'backend.story.agents.critic', "
        "'cli.commands.run'):\n"
        "    importlib.import_module(f'{name}.{module}')\n"
        "generators = importlib.import_module(f'{name}.backend.models.generators')\n"
        "print(generators.open_generator('fake').draw('x', None, 0).size)\n"
        "assert 'interleave_thinker' not in sys.modules\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "(64, 64)"


def test_every_registered_name_has_its_module() -> None:
    from interleave_thinker.backend.models import chat, generators, scorers
    from interleave_thinker.backend.output import exporters
    from interleave_thinker.cli.lazy_group import COMMANDS

    targets = [
        *(
            importlib.util.resolve_name(target.partition(":")[0], "interleave_thinker.backend.models")
            for seam in (chat, generators, scorers)
            for target in seam.REGISTRY.values()
        ),
        *(
            importlib.util.resolve_name(target.partition(":")[0], exporters.__name__)
            for target in exporters.REGISTRY.values()
        ),
        *(
            importlib.util.resolve_name(target.partition(":")[0], "interleave_thinker.cli")
            for target, _ in COMMANDS.values()
        ),
    ]
    for module in targets:
        path = ROOT.joinpath(*module.split(".")[1:])
        assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file(), f"{module} has no file"
