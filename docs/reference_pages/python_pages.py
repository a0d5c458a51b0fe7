"""The page of the Python API: the names in `backend.__all__`, read from their source files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .docstrings import rendered
from .markdown import code, note, page, table, text

GROUPS = {
    "Run a story": (
        "Pipeline", "Story", "StoryStream", "load_trajectory", "export_by_name",
        "Waiting", "waiting_for", "approve", "approve_overdue", "published_settings",
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

All names on this page can be imported from `interleave_thinker`. They are the public API; everything else
may change in any release.
"""
KEPT_METHODS = ("__init__", "__call__", "__iter__", "__next__", "__enter__", "__exit__")
MAX_LINE = 110


def pages(root: Path) -> dict[str, str]:
    """Return the page `python.md`."""
    from interleave_thinker import backend

    grouped = [name for names in GROUPS.values() for name in names]
    if sorted(grouped) != sorted(backend.__all__):
        raise SystemExit(f"GROUPS in {__file__} lack or exceed: {sorted({*grouped} ^ {*backend.__all__})}")
    homes: Mapping[str, str] = backend._HOMES
    blocks = ["# Python API", note("the docstrings of the public names"), INTRODUCTION]
    for group, names in GROUPS.items():
        blocks.append(f"## {group}")
        for name in names:
            blocks += _definition(root / "backend", homes[name], name)
    return {"python.md": page(*blocks)}


def _definition(backend: Path, module: str, name: str) -> Iterator[str]:
    file, body = _source(backend, module, name)
    yield f"### {name}"
    for place, node in enumerate(body):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from _class(node)
            return
        if isinstance(node, ast.FunctionDef) and node.name == name:
            yield _signature(name, node)
            yield from rendered(ast.get_docstring(node) or "")
            return
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == name:
            yield f"```python\n{_wrapped(ast.unparse(node))}\n```"
            yield text(_docstring_after(body, place))
            return
    raise SystemExit(f"{name} is not defined in {file}")


def _source(backend: Path, module: str, name: str) -> tuple[Path, list[ast.stmt]]:
    """The file that defines a name and its statements; a module that only passes the name on is followed."""
    path = backend / module.removeprefix(".").replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node in body:
        if (
            isinstance(node, ast.ImportFrom)
            and node.level == 1
            and any(one.name == name for one in node.names)
        ):
            return _source(file.parent, f".{node.module}", name)
    return file, body


def _wrapped(line: str) -> str:
    """Return a union that is too long for a line with one type a line, as ruff formats it."""
    name, _, union = line.partition(" = ")
    if len(line) <= MAX_LINE or " | " not in union:
        return line
    types = "\n    | ".join(union.split(" | "))
    return f"{name} = (\n    {types}\n)"


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"```python\nclass {node.name}{f'({bases})' if bases else ''}\n```"
    yield from rendered(ast.get_docstring(node) or "")
    yield table(("Field", "Type", "Default", "Description"), _fields(node))
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_public(inner.name):
            yield from _method(node.name, inner)


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in KEPT_METHODS


def _method(owner: str, node: Any) -> Iterator[str]:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    docstring = ast.get_docstring(node) or ""
    if any("validator" in mark or "serializer" in mark or "overload" in mark for mark in marks):
        return
    if node.name.startswith("__") and not docstring and len(node.args.args) + len(node.args.kwonlyargs) < 2:
        return
    if marks & {"property", "cached_property", "functools.cached_property"}:
        kind = f": {ast.unparse(node.returns)}" if node.returns else ""
        yield f"#### `{owner}.{node.name}`"
        yield f"```python\n{node.name}{kind}  # property\n```"
    else:
        yield f"#### `{owner}.{node.name}`"
        yield _signature(node.name, node)
    yield from rendered(docstring)


def _signature(name: str, node: Any) -> str:
    whole = f"{name}({ast.unparse(node.args)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
    if len(whole) > 100:
        parts = ",\n    ".join(_arguments(node.args))
        whole = f"{name}(\n    {parts},\n)" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
    return f"```python\n{whole}\n```"


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Each argument of a signature, as it is written there."""
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    for one, default in zip(plain, defaults, strict=True):
        yield _argument(one, default)
    if given.vararg:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(one, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(one.annotation)}" if one.annotation else ""
    return f"{one.arg}{kind}" + (f" = {ast.unparse(default)}" if default else "")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    for place, inner in enumerate(node.body):
        if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            if inner.targets[0].id.startswith("_") or inner.targets[0].id == "model_config":
                continue
            yield (
                code(inner.targets[0].id),
                "",
                code(ast.unparse(inner.value)),
                text(_docstring_after(node.body, place)),
            )
        if not isinstance(inner, ast.AnnAssign) or not isinstance(inner.target, ast.Name):
            continue
        if inner.target.id.startswith("_"):
            continue
        default, description = _field_value(inner.value)
        described = description or _docstring_after(node.body, place)
        yield code(inner.target.id), code(ast.unparse(inner.annotation)), code(default), text(described)


def _field_value(value: ast.expr | None) -> tuple[str, str]:
    """The default and the description in the value of a field."""
    if value is None:
        return "", ""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) in ("Field", "field")):
        return ast.unparse(value), ""
    given = {word.arg: word.value for word in value.keywords}
    default = given.get("default") or (value.args[0] if value.args else None)
    said = given.get("description")
    description = ast.literal_eval(said) if isinstance(said, ast.Constant) else ""
    factory = given.get("default_factory")
    return ast.unparse(default) if default else f"{ast.unparse(factory)}()" if factory else "", description


def _docstring_after(body: list[Any], place: int) -> str:
    """The string that follows a definition, as its description."""
    after = body[place + 1] if place + 1 < len(body) else None
    said = getattr(after, "value", None) if isinstance(after, ast.Expr) else None
    return said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
