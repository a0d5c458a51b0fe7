"""All texts about a node: ten complete languages, help pages, icon, requirements.

Only the host knows what the nodes declare; `tests/host/pack/test_pack.py` compares it with the
English texts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.languages import CHARACTERS, LANGUAGES, OWN_SCRIPT

from interleave_thinker.backend.core.types import RunSettings
from interleave_thinker.nodes.node_texts import node_names

ROOT = Path(__file__).resolve().parents[2]
HELP = ROOT / "web" / "docs"
WITH_PLACES = {("description",), ("inputs", "agent", "tooltip"), ("inputs", "adapter", "tooltip")}
"""Load Agent's words that name the folders of this installation: in English the node's own are shown."""
VERBATIM = re.compile(
    r"[a-z]+(?:_[a-z]+)+|[A-Z]+_[A-Z_]+|%[a-z]+%|\[locked\]|<image>|`[^`]+`|output/[\w/.-]+"
)
"""Text that is typed or searched for, so it is the same in every language."""
UNTRANSLATED = {"CLIP", "VAE", "URL", "PDF", "GIF", "WebP", "Markdown", "Storyboard"}

PLACE = re.compile(r"\{(\w+)\}")
SAME = ("{part} · {rest}", "{seconds} s", "{minutes} min {seconds} s", "Name", "Seed", "Animation", "Style")
"""Texts of the views that may be the same in another language."""

Words = dict[tuple[str, ...], str]


def words(language: str, node: str) -> Words:
    """All words of a node by their place; an option's place ends in the option itself."""
    return dict(flat(definitions(language)[node]))


def definitions(language: str) -> dict[str, Any]:
    """Texts of all nodes. An English text that is not there is the description of a run setting."""
    found = json.loads((ROOT / "locales" / language / "nodeDefs.json").read_text(encoding="utf-8"))
    for entry in found.values() if language == "en" else ():
        del entry["search_aliases"]  # the host searches for English words
        for name, one in entry.get("inputs", {}).items():
            if name in RunSettings.model_fields:
                one.setdefault("tooltip", RunSettings.model_fields[name].description)
    return found


def flat(value: Any, place: tuple[str, ...] = ()) -> Any:
    if isinstance(value, str):
        yield place, value
        return
    for key, inner in value.items():
        yield from flat(inner, (*place, key))


def inputs_of(node: str) -> list[str]:
    """Ids of a node's inputs, without those that grow out of one."""
    ids = list(definitions("en")[node].get("inputs", {}))
    return [one for one in ids if not any(one.startswith(f"{other}_") and one[-1].isdigit() for other in ids)]


def test_every_language_has_the_nodes_of_the_pack_and_no_others() -> None:
    assert sorted(path.name for path in (ROOT / "locales").iterdir()) == sorted(LANGUAGES)
    for language in LANGUAGES:
        assert set(definitions(language)) == set(node_names()), language
        # The front end reads these characters as syntax, and draws no node with a text that it cannot parse.
        assert not [text for _, text in flat(definitions(language)) if re.search(r"[@{}|]", text)], language


@pytest.mark.parametrize("language", LANGUAGES[1:])
@pytest.mark.parametrize("node", node_names())
def test_a_language_has_a_translation_of_every_english_text(node: str, language: str) -> None:
    english, own = words("en", node), words(language, node)
    with_places = WITH_PLACES if node == "InterleaveLoadAgent" else set()
    assert set(own) == set(english) | with_places
    for place, text in own.items():
        assert text.strip() == text and text, place
        if place not in english:
            continue
        assert not set(VERBATIM.findall(english[place])) - set(VERBATIM.findall(text)), place
        if place[-1] in ("tooltip", "description"):
            assert text != english[place], place


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_names_of_nodes_and_labels_are_unique(language: str) -> None:
    entries = definitions(language)
    titles = [entry["display_name"] for entry in entries.values()]
    assert len(set(titles)) == len(titles)
    for node, entry in entries.items():
        for kind in ("inputs", "outputs"):
            labels = [one["name"] for one in entry.get(kind, {}).values()]
            assert len(set(labels)) == len(labels), (node, kind, labels)
        for one in entry.get("inputs", {}).values():
            options = list(one.get("options", {}).values())
            assert len(set(options)) == len(options), (node, options)


def browser_words(language: str) -> dict[str, str]:
    """Texts of the node views by their English texts, which are the keys of every language."""
    parts = json.loads((ROOT / "web" / "words" / f"{language}.json").read_text(encoding="utf-8"))
    return {key: text for part in parts.values() for key, text in part.items()}


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_texts_of_the_views_keep_placeholders_and_lines(language: str) -> None:
    for key, text in browser_words(language).items():
        assert sorted(PLACE.findall(text)) == sorted(PLACE.findall(key)), key
        assert text.strip() == text and text, key
        assert text != key or key in SAME, key


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_sentence_is_in_the_characters_of_its_readers(language: str) -> None:
    texts = [one for one in browser_words(language).items() if one[0] not in SAME]
    for node in node_names():
        for place, text in words(language, node).items():
            if place[-1] in ("tooltip", "description") or (place[-1] == "name" and text not in UNTRANSLATED):
                texts.append((f"{node} {place}", text))
    for place, text in texts:
        if language in OWN_SCRIPT:
            assert re.search(OWN_SCRIPT[language], text) or text in ("CFG", "Hub ID"), place
        if language in CHARACTERS:
            characters = "".join(re.findall(OWN_SCRIPT[language], text))
            encoded = characters.encode(CHARACTERS[language], "ignore")
            assert encoded.decode(CHARACTERS[language]) == characters, text


def help_pages(node: str) -> dict[str, Path]:
    """Return the help pages by language; the English one is shown for other languages."""
    return {"en": HELP / f"{node}.md", "zh": HELP / node / "zh.md"}


@pytest.mark.parametrize("node", node_names())
def test_a_help_page_names_every_input_and_output_with_an_example(node: str) -> None:
    titles = {"en": ("Inputs", "Outputs", "Example", "Watch out"), "zh": ("输入", "输出", "示例", "注意")}
    for language, path in help_pages(node).items():
        page = path.read_text(encoding="utf-8")
        entry = definitions(language)[node]
        assert page.startswith(f"# {entry['display_name']}\n")
        assert re.findall(r"^## (.+)$", page, re.MULTILINE) == list(titles[language])
        listed = page.split(f"## {titles[language][0]}\n")[1].split("\n## ")[0]
        assert re.findall(r"^- .*?`(\w+)`", listed, re.MULTILINE) == inputs_of(node)
        outputs = page.split(f"## {titles[language][1]}\n")[1].split("\n## ")[0]
        assert len(re.findall("^- ", outputs, re.MULTILINE)) == len(entry.get("outputs", {}))
        assert all(one["name"] in outputs for one in entry.get("outputs", {}).values())


def test_help_pages_exist_only_for_existing_nodes() -> None:
    expected = {path for node in node_names() for path in help_pages(node).values()}
    assert {path for path in HELP.rglob("*") if path.is_file()} == expected


def test_the_icon_meets_the_registrys_rules() -> None:
    with Image.open(ROOT / "docs" / "icon.png") as icon:
        assert icon.format == "PNG" and icon.size[0] == icon.size[1] <= 400


def test_comfyui_installs_what_the_project_requires_and_never_another_torch() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    required = {line for line in lines if line and not line.startswith("#")}
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = set(re.findall(r'"(.+?)"', project.split("\ndependencies = [")[1].split("]")[0]))
    assert required <= declared
    left_out = {re.split("[<>=]", one)[0] for one in declared - required}
    assert left_out == {"torch", "torchvision", "safetensors", "pillow", "numpy", "typer", "rich"}
