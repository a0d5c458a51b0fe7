"""Requests from the taxonomy: deterministic, without duplicates, well-formed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.core.errors import SettingsError

pytest.importorskip("datasketch")
pytest.importorskip("yaml")

from interleave_thinker.research.data.prompts.generate import (
    PROMPTS,
    PromptsData,
    likeness,
    normal_form,
    permuted,
    triples,
    write_prompts,
)
from interleave_thinker.research.data.prompts.taxonomy import BankEntry, Draws, read_taxonomy, read_template

ROWS = 1500
BANKS = {
    "animal": (
        BankEntry("owl", frozenset(("wild",))),
        BankEntry("geese", frozenset(("plural", "wild"))),
        BankEntry("unicorn"),
        BankEntry("hourglass crab"),
    )
}


def written(out: Path, count: int = ROWS, **settings: object) -> list[dict]:
    weights = settings.pop("weights", {})
    write_prompts(PromptsData(count=count, **settings), weights, out)  # type: ignore[arg-type]
    return [json.loads(line) for line in (out / PROMPTS).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return written(tmp_path_factory.mktemp("rows"))


def test_the_taxonomy_has_the_documented_size_and_uses_its_banks() -> None:
    taxonomy = read_taxonomy()
    assert len({sub.category for sub in taxonomy.subcategories}) == 8
    assert len(taxonomy.subcategories) >= 75
    templates = [one for sub in taxonomy.subcategories for one in sub.templates]
    assert len(templates) >= 110 and all(entries for one in templates for _, entries in one.slots)
    folder = Path(__file__).parents[3] / "research" / "data" / "prompts"
    text = "".join(path.read_text(encoding="utf-8") for path in (folder / "templates").glob("*.yaml"))
    banks = list((folder / "banks").glob("*.yaml"))
    assert len(banks) >= 34
    for path in banks:
        assert len(path.read_text(encoding="utf-8").splitlines()) >= 20, path
        assert re.search(r"\{(an? )?" + path.stem + r"\b", text), path


def test_the_same_seed_gives_the_same_bytes_and_more_rows_keep_the_first(tmp_path: Path) -> None:
    written(tmp_path / "a", 300)
    written(tmp_path / "b", 400)
    short, long = ((tmp_path / name / PROMPTS).read_bytes() for name in "ab")
    assert long.startswith(short) and len(long) > len(short)
    written(tmp_path / "c", 300, seed=1)
    other = (tmp_path / "c" / PROMPTS).read_bytes()
    assert len(set(other.splitlines()) & set(short.splitlines())) < 30


def test_rows_have_no_duplicates_or_near_duplicates(rows: list[dict]) -> None:
    assert len({row["id"] for row in rows}) == len({normal_form(row["user_input"]) for row in rows}) == ROWS
    contents = Counter((row["subcategory"], *sorted(row["slots"].values())) for row in rows if row["slots"])
    assert max(contents.values()) <= 2
    by_subcategory: dict[str, list[frozenset[str]]] = {}
    for row in rows:
        by_subcategory.setdefault(row["subcategory"], []).append(triples(normal_form(row["user_input"])))
    for runs in by_subcategory.values():
        pairs = [(one, other) for at, one in enumerate(runs) for other in runs[:at]]
        assert all(likeness(one, other) < 0.8 for one, other in pairs)


def test_shares_and_splits_match_the_requested_ones(rows: list[dict]) -> None:
    asked = [row["constraints"] for row in rows]
    for share, found in (
        (0.30, sum(one["step_count"] > 0 for one in asked)),
        (0.40, sum(one["captions"] != "as requested" for one in asked)),
        (0.08, sum(bool(one["drawn_words"]) for one in asked)),
        (0.05, sum(one["text_ending"] for one in asked)),
    ):
        assert abs(found / ROWS - share) < 0.04
    assert 0.90 < sum(row["split"] == "train" for row in rows) / ROWS < 0.99
    sides: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        if row["slots"]:
            key = (row["subcategory"], *sorted(row["slots"].values()))
            sides.setdefault(key, set()).add(row["split"])
    assert all(len(found) == 1 for found in sides.values()), "phrasings of a request have one split"


def test_the_text_states_each_requirement(rows: list[dict]) -> None:
    numbers = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    for row in rows:
        constraints, text = row["constraints"], row["user_input"].casefold()
        count = constraints["step_count"]
        assert not count or numbers[count] in text
        assert all(words.casefold() in text for words in constraints["drawn_words"])
        assert len(text.split()) <= 75


def test_grammar(tmp_path: Path) -> None:
    for row in written(tmp_path, 3000, seed=11):
        text = row["user_input"]
        assert not re.search(r"[{}\[\]|#]|  | [,.;:?!]|\.\.|\?\.|undefined", text), text
        assert text[0].isupper() or text[0] in '"0123456789', text
        assert text[-1] in '.?!"', text
        assert not re.search(r"[.?!] [a-z]", text), text
        # "an" before a consonant sound, "a" before a vowel sound.
        assert not re.search(r"\b[Aa] (?!uni|use|eur|one|ukulele|u-)[aeiou]\w", text), text
        assert not re.search(r"\b[Aa]n (?!hour|honest|heir|LED)[^aeiouAEIOUéÉ\"\W]", text), text
        assert not re.search(r"\b(the|of|in|to|on|is|and|for|with) \1\b", text), text
        assert not re.search(r"\b(an?|the) (an?|the)\b", text), text


def test_weights_and_images(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    Image.new("RGB", (8, 8)).save(pictures / "one.png")
    made = written(tmp_path / "out", 2000, images=pictures, weights={"cooking": 3.0, "science": 0.0})
    counts = Counter(row["subcategory"] for row in made)
    assert counts["cooking"] == pytest.approx(3 * counts["baking"], abs=3)
    assert not counts["weather"]
    images = [row for row in made if "user_input_image" in row]
    assert 0.12 < len(images) / len(made) < 0.18
    for row in images:
        assert (tmp_path / "out" / row["user_input_image"]).is_file()
        assert re.search(r"attached|a photo", row["user_input"]), row["user_input"]
    with pytest.raises(SettingsError, match="not a category"):
        written(tmp_path / "none", 5, weights={"coking": 1.0})


def test_a_permutation_contains_every_number_once() -> None:
    for size in (1, 2, 3, 16, 17, 1000):
        assert sorted(permuted(place, size, "key") for place in range(size)) == list(range(size))


@pytest.mark.parametrize(
    ("text", "number", "expected"),
    [
        ("{a animal} sleeps.", 0, "An owl sleeps."),
        ("{animal} {animal?plural:sleep/sleeps}.", 1, "Geese sleep."),
        ("See {a animal -wild}.", 0, "See a unicorn."),
        ("See {a animal -wild}.", 1, "See an hourglass crab."),
        ("{n}  pictures of {a animal +wild} ,please. once", 0, "Four pictures of an owl,please. Once"),
        ("{a animal} and {a animal#2}", 1, "Geese and an owl"),
    ],
)
def test_slots_are_written_as_a_person_would(text: str, number: int, expected: str) -> None:
    template = read_template(text, BANKS)
    filled = template.filling(number)
    assert filled is not None
    assert template.written(filled, Draws(""), 4) == expected
    assert read_template("{animal} {animal#2}", BANKS).filling(0) is None, "one entry twice"
