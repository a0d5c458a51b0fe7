"""Folders import only what the table in ARCHITECTURE.md allows, without cycles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("backend", "nodes", "service", "webapp", "training", "tinyworld", "cli", "research")
TABLE = re.compile(r"^```imports\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGES = re.compile(r"^LAYERS = (\(.*\))$", re.MULTILINE)
MAX_ROOMS = 12
"""Maximum number of files and folders in one folder; more are hard to survey."""
PUBLIC_API = "backend"
"""backend/__init__.py names the public parts of all folders, and imports them on first use."""

Graph = dict[str, set[str]]


@cache
def modules() -> dict[str, Path]:
    """Return every module by its dotted name; a package has the name of its folder."""
    files = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
    }


def imported(found: dict[str, Path]) -> Graph:
    """Return what each module imports from this package, including imports for type checkers."""
    edges: Graph = {}
    for name, path in found.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        edges[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                inner = ".".join([*base, alias.name])
                edges[name] |= {
                    target for target in (inner if inner in found else ".".join(base),) if target in found
                }
    return edges


def circles(edges: Graph) -> list[list[str]]:
    """Return groups of names that reach each other.

    Names that import nothing of the rest are removed repeatedly.
    """
    left = {name: {target for target in targets if target != name} for name, targets in edges.items()}
    for _ in range(2):
        while ends := {name for name, targets in left.items() if not targets & left.keys()}:
            left = {name: targets for name, targets in left.items() if name not in ends}
        turned: Graph = {name: set() for name in left}
        for name, targets in left.items():
            for target in targets & left.keys():
                turned[target].add(name)
        left = turned
    return [sorted(left)] if left else []


def folder_of(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix()


def table() -> dict[str, set[str]]:
    """Return the table of ARCHITECTURE.md: package -> packages that it may import.

    `LAYER/*` means each package of a layer. A folder within a package has its package's row.
    """
    found = TABLE.search((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    assert found, "ARCHITECTURE.md has no ```imports block"
    rows = {}
    for line in found.group(1).splitlines():
        folder, _, names = line.partition(":")
        layer = folder.partition("/")[0]
        rows[folder] = {
            name if name.partition("/")[0] in LAYERS else f"{layer}/{name}" for name in names.split()
        }
    return rows


def row_of(folder: str, rows: Iterable[str]) -> str:
    """Return the row of the nearest folder above that has one; the folder itself if none has."""
    above = [one for one in rows if folder == one or folder.startswith(f"{one}/")]
    return max(above, key=len, default=folder)


def covers(name: str, folder: str) -> bool:
    """Return whether a name of the table covers this folder."""
    return folder == name or folder.startswith(f"{name.removesuffix('/*')}/")


@cache
def all_imports() -> Graph:
    """Return what each module imports from this package."""
    return imported(modules())


def used() -> Graph:
    """Return the other folders that each folder's modules import."""
    found = modules()
    edges: Graph = defaultdict(set)
    for name, targets in all_imports().items():
        for target in targets if name != PUBLIC_API else ():
            edges[folder_of(found[name])].add(folder_of(found[target]))
    return {folder: targets - {folder} for folder, targets in edges.items()}


def packages() -> Graph:
    """Return the other packages that each package (first folder below a layer) imports."""
    edges: Graph = defaultdict(set)
    for folder, targets in used().items():
        own = "/".join(folder.split("/")[:2])
        edges[own] |= {"/".join(one.split("/")[:2]) for one in targets} - {own}
    return edges


def imported_packages() -> Graph:
    """Return the folders outside of it that the modules of each row import."""
    rows = table()
    edges: Graph = defaultdict(set)
    for folder, targets in used().items():
        own = row_of(folder, rows)
        edges[own] |= {one for one in targets if row_of(one, rows) != own}
    return edges


def test_every_folder_imports_only_what_the_table_allows() -> None:
    rows = table()
    for folder, targets in imported_packages().items():
        if folder in LAYERS and folder not in rows:
            continue  # modules for all, directly in their layer
        beyond = {one for one in targets if not any(covers(name, one) for name in rows.get(folder, ()))}
        beyond -= {folder.partition("/")[0], "backend/core/types"}
        beyond -= {layer for layer in LAYERS if f"{layer}/*" in rows.get(folder, ())}
        assert not beyond, f"{folder} imports {sorted(beyond)}: not in ARCHITECTURE.md's table"


def test_the_table_lists_only_existing_folders_and_imports() -> None:
    folders = {folder_of(path) for path in modules().values()}
    imports = imported_packages()
    for folder, names in table().items():
        assert folder in folders, f"{folder} is in ARCHITECTURE.md's table and nowhere else"
        idle = {name for name in names if not any(covers(name, one) for one in imports[folder])}
        assert not idle, f"{folder} does not import {sorted(idle)}: take it out of ARCHITECTURE.md's table"


def test_modules_and_folders_have_no_import_cycles() -> None:
    assert not circles(all_imports())
    # Modules that lie directly in a folder serve all folders below it.
    rooms = {
        folder: {target for target in targets if not folder.startswith(f"{target}/")}
        for folder, targets in used().items()
    }
    assert not circles(rooms)
    assert not circles({name: targets - set(LAYERS) for name, targets in packages().items()})


def test_test_files_do_not_import_each_other() -> None:
    """Tests share code in support modules, and fixtures in a conftest."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            )
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            lent = [name for name in names if name.rpartition(".")[2].startswith("test_")]
            assert not lent, f"{path.relative_to(ROOT)} imports {lent}"


def test_import_cycles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert not circles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_no_folder_has_too_many_entries() -> None:
    rooms: dict[str, int] = defaultdict(int)
    for path in modules().values():
        if path.name != "__init__.py":
            rooms[folder_of(path)] += 1
        elif folder_of(path) not in LAYERS:
            rooms[folder_of(path.parent)] += 1
    for folder, number in rooms.items():
        assert number <= MAX_ROOMS, f"{folder} holds {number} files and folders"


def test_every_folder_is_installed() -> None:
    """An editable install finds packages that are missing in setup.py; pip install does not."""
    listed = PACKAGES.search((ROOT / "setup.py").read_text(encoding="utf-8"))
    assert listed and set(ast.literal_eval(listed[1])) == set(LAYERS)
    folders = {path.parent for path in modules().values()}
    assert not [folder for folder in folders if not (folder / "__init__.py").is_file()]
