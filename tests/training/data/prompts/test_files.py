"""Custom taxonomies, banks and templates: what they support, and errors with file and place."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile_prompts import TAXONOMY, mutated, prepare

from interleave_thinker.backend.errors import SettingsError
from interleave_thinker.training.data.prompts.banks import Bank, BankEntry, read_bank
from interleave_thinker.training.data.prompts.permutation import Draws, Permutation
from interleave_thinker.training.data.prompts.templates import read_template

pytest.importorskip("datasketch")
pytest.importorskip("yaml")

from interleave_thinker.training.data.prompts.generate import PROMPTS, PromptsData, write_prompts

BANKS = {
    "animal": Bank(
        "animal",
        (
            BankEntry("owl", frozenset(("wild",))),
            BankEntry("geese", frozenset(("plural", "wild"))),
            BankEntry("unicorn"),
            BankEntry("hourglass crab"),
        ),
    )
}


@given(st.integers(1, 3000), st.text(max_size=8))
def test_a_permutation_contains_every_number_once(size: int, key: str) -> None:
    order = Permutation(size, key)
    assert sorted(order(place) for place in range(size)) == list(range(size))


@pytest.mark.parametrize(
    ("text", "number", "written"),
    [
        ("{a animal} sleeps.", 0, "An owl sleeps."),
        ("{animal} {animal?plural:sleep/sleeps}.", 1, "Geese sleep."),
        ("See {a animal -wild}.", 0, "See a unicorn."),
        ("See {a animal -wild}.", 1, "See an hourglass crab."),
        ("{n}  pictures of {a animal +wild} ,please. once", 0, "Four pictures of an owl,please. Once"),
        ("{a animal} and {a animal#2}", 1, "Geese and an owl"),
    ],
)
def test_slots_are_written_as_a_person_would(text: str, number: int, written: str) -> None:
    template = read_template(text, BANKS, "here")
    filled = template.filling(number)
    assert filled is not None
    assert template.written(filled, Draws(""), 4) == written


def test_equal_entries_are_not_chosen_twice() -> None:
    assert read_template("{animal} {animal#2}", BANKS, "here").filling(0) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x" * 601,
        "{",
        "a } b",
        "[one|[two]]",
        "{a hat}",
        "{a animal +tame}",
        "{animal} {animal +wild}",
        "{animal?wild:a/b}",
        "{Animal}",
        " ".join(f"{{animal#{number}}}" for number in range(1, 8)),
    ],
)
def test_a_template_that_cannot_be_filled_is_rejected(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^here: "):
        read_template(text, BANKS, "here")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("owl: wild\nowl: tame", "line 2: duplicate key 'owl'"),
        ("- owl", "not a list of entries"),
        ("owl: [wild]", "entry 'owl': its tags are not text"),
        ("owl: WILD", "'WILD' is not a valid tag"),
        ("'{owl}': wild", "brackets are only allowed in templates"),
        ("owl: 'wi\x07ld'", "line 1 contains a control character"),
        ("owl: !!python/name:os.system x", ""),
        ("a: &x [*x]", ""),
    ],
)
def test_an_invalid_bank_raises_one_sentence_with_its_place(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "animal.yaml"
    path.write_text(content, encoding="utf-8")
    if not said:
        try:
            read_bank(path)
        except SettingsError as error:
            assert "\n" not in str(error)
        return
    with pytest.raises(SettingsError) as caught:
        read_bank(path)
    assert said in str(caught.value) and str(path) in str(caught.value)


def test_a_custom_taxonomy_is_used(tmp_path: Path) -> None:
    prepare(tmp_path)
    asked = PromptsData(count=100, taxonomy=tmp_path / "taxonomy.yaml", words=tmp_path / "banks")
    made = write_prompts(asked, {}, tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / PROMPTS).read_text().splitlines()]
    assert made.rows == len(rows) < 100 and set(made.exhausted) == {"first", "second"}
    second = [row for row in rows if row["subcategory"] == "second"]
    assert all(row["constraints"]["drawn_words"][0] == "HELLO" for row in second)
    assert all(row["constraints"]["captions"] == "short" for row in second)
    (tmp_path / "taxonomy.yaml").write_bytes(TAXONOMY.replace(b"steps: [2, 3]", b"steps: [3, 2]"))
    with pytest.raises(SettingsError, match="first: invalid steps"):
        write_prompts(asked, {}, tmp_path / "out")


def test_repetitive_templates_end_generation(tmp_path: Path) -> None:
    prepare(tmp_path)
    frame = " ".join(f"word{number}" for number in range(60))
    text = f"      first: {{name: First, templates: ['{frame} " + " ".join(["{animal}", "{hat}"]) + ".']}\n"
    text += "      rest: {name: Rest, templates: ['Go.']}\n"
    head = "categories:\n  one:\n    name: One\n    subcategories:\n"
    (tmp_path / "taxonomy.yaml").write_text(head + text)
    names = "".join(f"thing{number}: x\n" for number in range(200))
    for name in ("animal", "hat"):
        (tmp_path / "banks" / f"{name}.yaml").write_text(names)
    made = write_prompts(
        PromptsData(count=500, taxonomy=tmp_path / "taxonomy.yaml", words=tmp_path / "banks"),
        {},
        tmp_path / "out",
    )
    assert made.rows < 500 and "first" in made.exhausted


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9), name=st.sampled_from(["taxonomy.yaml", "banks/hat.yaml"]))
def test_hostile_files_give_a_result_or_one_line(tmp_path_factory, seed: int, name: str) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    prepare(folder)
    path = folder / name
    path.write_bytes(mutated(path.read_bytes(), Random(seed)))
    try:
        asked = PromptsData(count=10, taxonomy=folder / "taxonomy.yaml", words=folder / "banks")
        write_prompts(asked, {}, folder / "out")
    except SettingsError as error:
        assert "\n" not in str(error)
    assert {one.name for one in folder.iterdir()} <= {
        "taxonomy.yaml",
        "banks",
        "rows.jsonl",
        "rows.json",
        "out",
    }
