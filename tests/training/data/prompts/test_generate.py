"""Requests from the built-in taxonomy: deterministic, without duplicates, and according to the settings."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from interleave_thinker.backend.chat.protocol import Message, Reply, ReplySettings
from interleave_thinker.backend.errors import SettingsError

pytest.importorskip("datasketch")
pytest.importorskip("yaml")

from interleave_thinker.training.data.decontamination.index import BenchmarkIndex
from interleave_thinker.training.data.decontamination.items import IndexedItem
from interleave_thinker.training.data.prompts.dedup import likeness, triples
from interleave_thinker.training.data.prompts.generate import (
    PROMPTS,
    REPORT,
    PromptsData,
    load,
    write_prompts,
)
from interleave_thinker.training.data.prompts.polish import Polisher
from interleave_thinker.training.data.prompts.rows import normal_form

ROWS = 1500


def written(out: Path, count: int = ROWS, **settings: object) -> list[dict]:
    weights = settings.pop("weights", {})
    write_prompts(PromptsData(count=count, **settings), weights, out)  # type: ignore[arg-type]
    return [json.loads(line) for line in (out / PROMPTS).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return written(tmp_path_factory.mktemp("rows"))


def test_the_taxonomy_has_the_documented_size() -> None:
    taxonomy = load(PromptsData())
    assert len({sub.category for sub in taxonomy.subcategories}) == 8
    assert len(taxonomy.subcategories) >= 75
    assert sum(len(sub.templates) for sub in taxonomy.subcategories) >= 110


def test_every_bank_has_enough_entries_and_is_used() -> None:
    folder = Path(__file__).parents[4] / "training" / "data" / "prompts"
    banks = {path.stem: path for path in (folder / "banks").glob("*.yaml")}
    text = "".join(path.read_text(encoding="utf-8") for path in (folder / "templates").glob("*.yaml"))
    assert len(banks) >= 34
    for name, path in banks.items():
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
        assert len(lines) >= 20, name
        assert re.search(r"\{(an? )?" + name + r"\b", text), name


def test_the_same_seed_gives_the_same_bytes_and_more_rows_keep_the_first(tmp_path: Path) -> None:
    written(tmp_path / "a", 300)
    written(tmp_path / "b", 400)
    short, long = ((tmp_path / name / PROMPTS).read_bytes() for name in "ab")
    assert long.startswith(short) and len(long) > len(short)
    written(tmp_path / "c", 300, seed=1)
    other = (tmp_path / "c" / PROMPTS).read_bytes()
    assert len(set(other.splitlines()) & set(short.splitlines())) < 30


def test_a_bank_that_changes_changes_only_its_subcategories(tmp_path: Path, rows: list[dict]) -> None:
    own = tmp_path / "banks"
    own.mkdir()
    (own / "crop.yaml").write_text("\n".join(f"rye of field {number}: mass" for number in range(20)))
    changed = written(tmp_path / "out", words=own)
    different = {old["subcategory"] for old, new in zip(rows, changed, strict=True) if old != new}
    assert different == {"farm-year"}


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


def test_shares_match_the_requested_ones(rows: list[dict]) -> None:
    asked = [row["constraints"] for row in rows]
    for share, found in (
        (0.30, sum(one["step_count"] > 0 for one in asked)),
        (0.40, sum(one["captions"] != "as asked" for one in asked)),
        (0.08, sum(bool(one["drawn_words"]) for one in asked)),
        (0.05, sum(one["text_ending"] for one in asked)),
    ):
        assert abs(found / ROWS - share) < 0.04
    assert 0.90 < sum(row["split"] == "train" for row in rows) / ROWS < 0.99


def test_the_text_states_each_requirement(rows: list[dict]) -> None:
    numbers = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    for row in rows:
        constraints, text = row["constraints"], row["user_input"].casefold()
        count = constraints["step_count"]
        assert not count or numbers[count] in text
        assert all(words.casefold() in text for words in constraints["drawn_words"])
        assert len(text.split()) <= 75


@pytest.mark.parametrize("seed", [0, 11])
def test_grammar(tmp_path: Path, seed: int) -> None:
    for row in written(tmp_path, 2000, seed=seed):
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


def test_both_phrasings_of_a_request_are_in_the_same_split(rows: list[dict]) -> None:
    sides: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        if row["slots"]:
            key = (row["subcategory"], *sorted(row["slots"].values()))
            sides.setdefault(key, set()).add(row["split"])
    assert all(len(found) == 1 for found in sides.values())


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


def test_benchmark_content_is_left_out(tmp_path: Path, rows: list[dict]) -> None:
    with BenchmarkIndex.create(tmp_path / "g.sqlite") as guard:
        guard.add("own", [IndexedItem((rows[7]["user_input"],))], "one")
        made = write_prompts(PromptsData(count=40), {}, tmp_path / "out", guard)
    ids = [json.loads(line)["id"] for line in (tmp_path / "out" / PROMPTS).read_text().splitlines()]
    assert len(ids) == 40 and rows[7]["id"] not in ids
    assert made.guarded["own"] >= 1
    report = json.loads((tmp_path / "out" / REPORT).read_text())
    assert report["guard"] == "checked" and report["rows"] == 40


class Echo:
    """A chat model that rewords the request slightly, and sometimes answers nonsense."""

    identity, prompt_set, asked = "echo", None, 0

    def reply(self, messages: list[Message], settings: ReplySettings, on_token: object = None) -> Reply:
        self.asked += 1
        text = str(messages[0].content[0]).rpartition("\n")[2]
        if self.asked % 3 == 0:
            return Reply(text=f"<think>I could say: {text}" if self.asked % 2 else "Sure.")
        # A local model's template may have opened the thought.
        opened = self.asked % 2 == 0
        return Reply(text=f"{'' if opened else '<think>'}so</think>Please: {text}", thinking=opened)


def test_polished_rows_keep_the_original_and_are_requested_once(tmp_path: Path) -> None:
    chat = Echo()
    for _ in range(2):
        reword = Polisher(chat, "openai:m@http://secret", tmp_path)
        write_prompts(PromptsData(count=9), {}, tmp_path, None, reword)
    rows = [json.loads(line) for line in (tmp_path / PROMPTS).read_text().splitlines()]
    polished = [row for row in rows if "original_input" in row]
    assert (chat.asked, len(polished), reword.reworded, reword.refused) == (9, 6, 6, 3)
    for row in polished:
        assert row["user_input"] == f"Please: {row['original_input']}"
        assert row["polished_by"] == "openai:m"


def test_a_truncated_answer_is_requested_again(tmp_path: Path) -> None:
    for asked in (9, 1, 0):
        chat = Echo()
        write_prompts(PromptsData(count=9), {}, tmp_path, None, Polisher(chat, "m", tmp_path))
        assert chat.asked == asked
        answers = tmp_path / "prompts.polished.jsonl"
        if asked == 9:
            answers.write_bytes(answers.read_bytes()[:-20])
