"""The page of the Python API: the names in `backend.__all__`, read from their source files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .markdown import code, docstring, listed, page, table, text

GROUPS = {
    "Run a story": (
        "Pipeline", "Story", "StoryStream", "load_trajectory", "export_by_name",
        "Waiting", "waiting_for", "approve", "published_settings",
    ),
    "Open models by name": ("open_chat", "open_generator", "open_scorer", "open_clip_maker"),
    "Agents": (
        "Planner", "Critic", "PlanConstraints", "PromptSet", "ReplySettings",
        "Message", "Reply",
    ),
    "Interfaces to implement": (
        "ChatModel", "ClipMaker", "CriticLike", "Exporter", "Generator", "PlannerLike", "Scorer",
    ),
    "Requests, plans and results": (
        "Request", "Plan", "Step", "CastMember", "RunSettings", "Trajectory", "StepResult", "StopReason",
        "Attempt", "Verdict", "Score", "StoryCheck", "StoryFinding", "Picture",
        "Clip", "ClipPair", "Footage",
    ),
    "Events of a run": (
        "Event", "PlanReady", "SettingUnused", "AttemptStarted", "AttemptDrawn", "AttemptJudged",
        "AttemptScored", "StepRewritten", "StepFinished", "StoryChecked", "Finished",
    ),
    "Errors": (
        "InterleaveError", "SettingsError", "AnswerError", "ChatError", "GeneratorError", "DrawRefused",
        "ScorerError", "NotScorable", "JournalError", "PictureError", "Cancelled",
    ),
}  # fmt: skip
INTRODUCTION = """
    from interleave_thinker import Pipeline

All names on this page can be imported from `interleave_thinker`. They are the public API; every other Python
name may change in any release.
"""
KEPT_METHODS = ("__init__", "__call__", "__iter__", "__next__", "__enter__", "__exit__")
PROPERTIES = {"property", "cached_property", "functools.cached_property"}
MAX_LINE = 110


def names_page() -> str:
    """Return the page with the public names alone."""
    rows = [(group, listed(names)) for group, names in GROUPS.items()]
    about = "`help(NAME)` prints what a name does; [Python](python.md) has all of it."
    return page("Public names", "`backend.__all__`", INTRODUCTION, table(("", "Names"), rows), about)


def python_page(root: Path) -> str:
    """Return the page of the names in `backend.__all__`."""
    from interleave_thinker import backend

    grouped = {name for names in GROUPS.values() for name in names}
    if grouped != {*backend.__all__}:
        raise SystemExit(f"GROUPS in {__file__} lack or exceed: {sorted(grouped ^ {*backend.__all__})}")
    blocks = []
    for group, names in GROUPS.items():
        blocks.append(f"## {group}")
        for name in names:
            blocks += [f"### {name}", *_definition(root / "backend", backend._HOMES[name], name)]
    return page("Python API", "the docstrings of the public names", INTRODUCTION, *blocks)


def _definition(folder: Path, module: str, name: str) -> Iterator[str]:
    """Yield the definition of a name; a module that only passes the name on is followed."""
    path = folder / module.removeprefix(".").replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for place, node in enumerate(body):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and name in (one.name for one in node.names):
            yield from _definition(file.parent, f".{node.module}", name)
        elif getattr(node, "name", "") == name:
            yield from _class(node) if isinstance(node, ast.ClassDef) else _function(node)
        elif _target(node) == name:
            yield f"```python\n{_wrapped(ast.unparse(node))}\n```"
            yield text(_docstring_after(body, place))
        else:
            continue
        return
    raise SystemExit(f"{name} is not defined in {file}")


def _target(node: Any) -> str:
    """Return the name that a statement assigns to."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return getattr(targets[0], "id", "") if targets else ""


def _wrapped(line: str) -> str:
    """Return a union that is too long for a line with one type a line, as ruff formats it."""
    name, _, union = line.partition(" = ")
    if len(line) <= MAX_LINE or " | " not in union:
        return line
    types = "\n    | ".join(union.split(" | "))
    return f"{name} = (\n    {types}\n)"


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(map(ast.unparse, node.bases))
    yield f"```python\nclass {node.name}{f'({bases})' if bases else ''}\n```"
    yield from docstring(ast.get_docstring(node))
    yield table(("Field", "Type", "Default", "Description"), _fields(node))
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_shown(inner):
            yield f"#### `{node.name}.{inner.name}`"
            yield from _function(inner)


def _is_shown(node: Any) -> bool:
    if any(
        word in ast.unparse(mark)
        for mark in node.decorator_list
        for word in ("validator", "serializer", "overload")
    ):
        return False
    if not node.name.startswith("__"):
        return not node.name.startswith("_")
    arguments = len(node.args.args) + len(node.args.kwonlyargs)
    return node.name in KEPT_METHODS and (bool(ast.get_docstring(node)) or arguments > 1)


def _function(node: Any) -> Iterator[str]:
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    whole = f"{node.name}({ast.unparse(node.args)}){result}"
    if PROPERTIES & set(map(ast.unparse, node.decorator_list)):
        whole = f"{node.name}{result.replace(' -> ', ': ')}  # property"
    elif len(whole) > 100:
        arguments = "".join(f"    {one},\n" for one in _arguments(node.args))
        whole = f"{node.name}(\n{arguments}){result}"
    yield f"```python\n{whole}\n```"
    yield from docstring(ast.get_docstring(node))


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Each argument of a signature, as it is written there."""
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    stars = [f"*{_argument(given.vararg)}"] if given.vararg else ["*"] if given.kwonlyargs else []
    yield from map(_argument, plain, defaults)
    yield from stars
    yield from map(_argument, given.kwonlyargs, given.kw_defaults)
    if given.kwarg:
        yield f"**{_argument(given.kwarg)}"


def _argument(one: ast.arg, default: ast.expr | None = None) -> str:
    return ast.unparse(one) + (f" = {ast.unparse(default)}" if default else "")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ...]]:
    for place, inner in enumerate(node.body):
        name = _target(inner)
        if name and not name.startswith("_") and name != "model_config":
            kind = code(ast.unparse(inner.annotation)) if isinstance(inner, ast.AnnAssign) else ""
            default, description = _field_value(inner.value)  # type: ignore[attr-defined]
            said = description or _docstring_after(node.body, place)
            yield code(name), kind, code(default), text(said)


def _field_value(value: ast.expr | None) -> tuple[str, str]:
    """The default and the description in the value of a field."""
    if value is None:
        return "", ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field")):
        return ast.unparse(value), ""
    given = {word.arg: word.value for word in value.keywords}
    said, factory = given.get("description"), given.get("default_factory")
    description = ast.literal_eval(said) if isinstance(said, ast.Constant) else ""
    default = given.get("default") or (value.args[0] if value.args else None)
    return ast.unparse(default) if default else f"{ast.unparse(factory)}()" if factory else "", description


def _docstring_after(body: list[Any], place: int) -> str:
    """The string that follows a definition, as its description."""
    after = next(iter(body[place + 1 :]), None)
    said = after.value if isinstance(after, ast.Expr) else None
    return said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
