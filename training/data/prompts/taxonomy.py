"""Reads the taxonomy: the kinds of requests with their templates and sentences.

One file names the categories. Templates are in it or in `templates/CATEGORY.yaml` next to it, and sentences
that any request may end with (number of images, captions, style...) in `templates/sentences.yaml`. A taxonomy
without its own sentences uses the built-in ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....backend.errors import SettingsError
from ....backend.journal.records.run_files import first_fault
from .banks import Bank
from .templates import Template, read_template
from .yaml_files import read_yaml

FOLDER = Path(__file__).parent
SHIPPED = {"en": FOLDER / "taxonomy.yaml"}
ANY = "any"
_KEY = re.compile(r"^[a-z][a-z0-9-]{0,39}$")
MAX_SUBCATEGORIES = 1000

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Captions = Literal["as asked", "none", "short", "paragraph"]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Shares(_File):
    """Shares of the rows that get each kind of sentence, in addition to templates that already include it."""

    step_count: Share = 0.3
    captions: Share = 0.4
    drawn_words: Share = 0.08
    text_ending: Share = 0.05
    look: Share = 0.25
    audience: Share = 0.2
    image: Share = 0.15


class TemplateFile(_File):
    """A template with properties of its images."""

    text: str
    captions: Captions = "as asked"
    image: bool = False


class SubcategoryFile(_File):
    """A sub-category: its range of steps, and its templates if they are not in a file."""

    name: str = Field(max_length=120)
    steps: tuple[int, int] = (3, 6)
    templates: list[str | TemplateFile] | None = Field(default=None, max_length=1000)


class CategoryFile(_File):
    """A main category."""

    name: str = Field(max_length=120)
    subcategories: dict[str, str | SubcategoryFile] = Field(min_length=1, max_length=200)


class TaxonomyFile(_File):
    """The whole file."""

    language: str = Field(default="en", pattern=r"^[a-z]{2,3}(-[A-Za-z]{2,4})?$")
    shares: Shares = Shares()
    unless: dict[str, list[str]] = Field(default_factory=dict, max_length=20)
    categories: dict[str, CategoryFile] = Field(min_length=1, max_length=100)


SENTENCES = (
    "step_count",
    "short",
    "paragraph",
    "none",
    "counted_short",
    "drawn_words",
    "text_ending",
    "look",
    "audience",
    "image",
)
"""Kinds of sentences; `counted_short` asks for a number of images and captions at once."""
Sentences = Mapping[str, Mapping[str, tuple[Template, ...]]]


@dataclass(frozen=True)
class Subcategory:
    """A sub-category with its templates; `key` is the code in ids."""

    key: str
    category: str
    name: str
    steps: tuple[int, int]
    templates: tuple[Template, ...]
    sentences: Mapping[str, tuple[Template, ...]]


@dataclass(frozen=True)
class Taxonomy:
    """All sub-categories in order."""

    language: str
    shares: Shares
    unless: Mapping[str, frozenset[str]]
    subcategories: tuple[Subcategory, ...]


def read_taxonomy(path: Path, banks: Mapping[str, Bank]) -> Taxonomy:
    """Return the taxonomy in a file with its templates.

    Raises:
        SettingsError: It is invalid; it names the file and the place.
    """
    file = _validated(TaxonomyFile, read_yaml(path, "Taxonomy"), f"Taxonomy {str(path)!r}")
    own = path.parent / "templates" / "sentences.yaml"
    sentences = _read_sentences(own if own.is_file() else FOLDER / "templates" / "sentences.yaml", banks)
    found: dict[str, Subcategory] = {}
    for key, category in file.categories.items():
        file_of = path.parent / "templates" / f"{_key(key, path)}.yaml"
        lists = read_yaml(file_of, "Templates") if file_of.is_file() else {}
        if not isinstance(lists, dict):
            raise SettingsError(
                f"Templates {str(file_of)!r} are not lists by sub-category.",
                "Write SUB-CATEGORY: and a list.",
            )
        for name in lists:
            if name not in category.subcategories:
                raise SettingsError(
                    f"Templates {str(file_of)!r}: {name[:40]!r} is not a sub-category of {key}.",
                    "Rename it, or add it to the taxonomy.",
                )
        here = {kind: by.get(key, by.get(ANY, ())) for kind, by in sentences.items()}
        for name, given in category.subcategories.items():
            if _key(name, path) in found:
                raise SettingsError(
                    f"Taxonomy {str(path)!r}: sub-category {name!r} is defined twice.", "Rename one of them."
                )
            sub = SubcategoryFile(name=given[:120]) if isinstance(given, str) else given
            where = f"{str(file_of if sub.templates is None else path)!r}, {name}"
            if not 1 <= sub.steps[0] <= sub.steps[1] <= 12:
                raise SettingsError(
                    f"Taxonomy {str(path)!r}, {name}: invalid steps.",
                    "Give two numbers from 1 to 12, ascending.",
                )
            templates = sub.templates if sub.templates is not None else _listed(lists.get(name), where)
            read = _templates(templates, banks, where)
            found[name] = Subcategory(name, key, sub.name, sub.steps, read, here)
    if len(found) > MAX_SUBCATEGORIES:
        raise SettingsError(
            f"Taxonomy {str(path)!r} has more than {MAX_SUBCATEGORIES} sub-categories.", "Split it."
        )
    unless = {kind: frozenset(names) for kind, names in file.unless.items()}
    return Taxonomy(file.language, file.shares, unless, tuple(found.values()))


def _key(key: str, path: Path) -> str:
    if not _KEY.match(key):
        raise SettingsError(
            f"Taxonomy {str(path)!r}: {key[:60]!r} is not a valid category name.",
            "Use lower-case letters, digits and -.",
        )
    return key


def _listed(content: Any, where: str) -> list[str | TemplateFile]:
    class Templates(_File):
        templates: list[str | TemplateFile] = Field(min_length=1, max_length=1000)

    if content is None:
        raise SettingsError(f"{where} does not have templates.", "Add at least one template.")
    return _validated(Templates, {"templates": content}, where).templates


def _templates(
    given: list[str | TemplateFile], banks: Mapping[str, Bank], where: str
) -> tuple[Template, ...]:
    read = []
    for number, one in enumerate(given, start=1):
        file = TemplateFile(text=one) if isinstance(one, str) else one
        captions = "" if file.captions == "as asked" else file.captions
        read.append(read_template(file.text, banks, f"{where}, template {number}", captions, file.image))
    if not any(not template.image for template in read):
        raise SettingsError(f"{where}: all templates need an image.", "Add a template without an image.")
    return tuple(read)


def _read_sentences(path: Path, banks: Mapping[str, Bank]) -> Sentences:
    content = read_yaml(path, "Sentences")
    if not isinstance(content, dict) or set(content) - set(SENTENCES):
        raise SettingsError(
            f"Sentences {str(path)!r} have unknown kinds.", f"Use only {', '.join(SENTENCES)}."
        )
    read: dict[str, dict[str, tuple[Template, ...]]] = {}
    for kind, by_category in content.items():
        if not isinstance(by_category, dict):
            raise SettingsError(
                f"Sentences {str(path)!r}, {kind}: they are not listed by category.",
                "Write CATEGORY: and a list.",
            )
        read[kind] = {
            category: _templates(_listed(listed, f"{str(path)!r}, {kind}"), banks, f"{str(path)!r}, {kind}")
            for category, listed in by_category.items()
        }
    return read


def _validated(kind: type[Any], content: Any, where: str) -> Any:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise SettingsError(f"{where}{first_fault(error)}") from error
