"""The public API: its lists agree, it is typed and documented, and importing it is cheap."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest
from support.cli_calls import python

import interleave_thinker
from interleave_thinker import backend

ROOT = Path(__file__).resolve().parents[1]
UNTYPED = {"self", "cls"}


def imported_for_type_checkers() -> dict[str, str]:
    """Return the names that backend/__init__.py imports under TYPE_CHECKING, with their modules."""
    tree = ast.parse((ROOT / "backend" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: f".{node.module}" for node in imports for alias in node.names}


def test_the_three_lists_of_names_agree() -> None:
    assert imported_for_type_checkers() == backend._HOMES
    assert sorted(backend.__all__) == sorted(backend._HOMES)
    assert set(backend.__all__) <= set(dir(backend))


@pytest.mark.parametrize("name", backend.__all__)
def test_every_name_is_typed_and_documented(name: str) -> None:
    value: Any = getattr(interleave_thinker, name)
    assert value is getattr(backend, name)
    if name in ("Event", "Exporter"):  # aliases of other types
        return
    assert inspect.getdoc(value), name
    for function in functions_of(value):
        assert inspect.getdoc(function), f"{name}.{function.__name__}"
        hints = function.__annotations__
        parameters = set(inspect.signature(function).parameters) - UNTYPED
        assert parameters | {"return"} <= hints.keys(), f"{name}.{function.__name__}"


def functions_of(value: Any) -> list[Any]:
    """Return the function, or the public methods and properties that a class of this package defines."""
    if inspect.isfunction(value):
        return [value]
    found = []
    for key, member in vars(value).items():
        member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(member) and not key.startswith("_") and member.__module__ == value.__module__:
            found.append(member)
    return found


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = interleave_thinker.no_such_name


def test_all_names_are_imported_with_a_star_and_completed() -> None:
    package: Any = interleave_thinker
    assert package.__all__ == backend.__all__
    assert set(backend.__all__) <= set(dir(package))


def test_a_name_is_imported_when_it_is_used() -> None:
    code = (
        "import sys; sys.path[:0] = [sys.argv.pop(1)]; import conftest\n"
        "import interleave_thinker\n"
        "hasattr(interleave_thinker, 'NODE_CLASS_MAPPINGS')\n"
        "light = [n for n in sys.modules if n.startswith('interleave_thinker.') or n == 'pydantic']\n"
        "from interleave_thinker import Pipeline, SettingsError\n"
        "print(light, Pipeline.__name__, 'torch' in sys.modules)"
    )
    done = python(code, ROOT / "tests")
    assert done.stdout.strip() == "['interleave_thinker.backend'] Pipeline False", done.stderr


def test_the_file_can_be_imported_alone() -> None:
    """As pytest does in a clone in a folder such as `interleave-thinker`, whose name is not an identifier."""
    spec = importlib.util.spec_from_file_location("__init__", ROOT / "__init__.py")
    assert spec and spec.loader
    alone = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(alone)
    assert not hasattr(alone, "setup_module") and alone.__version__
